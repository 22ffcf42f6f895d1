"""What a scan for secrets answers, and what a team adds to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from pydantic import AfterValidator, JsonValue

from gitswarm.records.base import Record

Scrub = Callable[[str], str]
"""Returns the text with every secret in it replaced by `[REDACTED:<kind>]`."""


class Scrubber(Protocol):
    """Replaces every secret by `[REDACTED:<kind>]`; twice is the same as once."""

    def scrub(self, text: str) -> str: ...

    def scrub_json(self, value: JsonValue) -> JsonValue:
        """Every string inside; the same object when there is nothing to replace."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


class SecretRules(Record):
    """`patterns`: name → regular expression whose whole match is a secret. `allow_paths`: globs of files in the code
    whose secrets are known to be none (fixtures); the team's alone."""

    patterns: dict[str, Annotated[str, AfterValidator(_pattern)]] = {}
    allow_paths: tuple[str, ...] = ()


class SecretFound(Record):
    """A secret in a file of the code; never its value, in the path neither. `line` counts from 1; 0: in its name."""

    path: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A secret in code that may be an old one. `value` is never stored."""

    found: SecretFound
    value: str = field(repr=False)


FindSecrets = Callable[[str, bytes], Sequence[Suspect]]
"""Looks through a file of the code: its path from the top of the worktree, its bytes."""
