"""Names of a project's commands (`commands:` in .swarm/config.yaml)."""

TEST = "test"
"""Runs the project's tests."""

OTHER_COMMANDS = ("lint", "smoke")
"""Are no tests."""
