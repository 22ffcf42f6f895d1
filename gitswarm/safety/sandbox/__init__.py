"""Confines agents and the project's commands by the operating system. docs/sandbox.md says what holds."""
