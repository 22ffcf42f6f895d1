"""Sessions of the real Codex against a scripted provider."""
