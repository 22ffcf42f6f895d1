"""Sessions of Claude Code, by its CLI or by the Agent SDK, on the same rails."""
