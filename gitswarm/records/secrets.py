"""What a scan for secrets answers, and what a team adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitswarm.records.base import Record

Scrub = Callable[[str], str]
"""Returns the text with every secret in it replaced by `[REDACTED:<kind>]`."""


class SecretRules(Record):
    """`patterns`: name → regular expression whose whole match is a secret. `allow_paths`: globs of files in the code
    whose secrets are known to be none (fixtures); the team's alone."""

    patterns: dict[str, str] = {}
    allow_paths: tuple[str, ...] = ()


class SecretFound(Record):
    """A secret in a file of the code; never its value. `line` counts from 1."""

    path: str
    line: int
    kind: str


FindSecrets = Callable[[str, bytes], Sequence[SecretFound]]
"""Looks through the content of a file: its path from the top of the worktree, its bytes."""
