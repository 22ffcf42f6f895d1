"""OpenAI's Codex as an engine."""
