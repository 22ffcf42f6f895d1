"""Globs of paths, as in `.gitignore`, and of names; each set of them is compiled once per process."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@lru_cache(maxsize=64)
def gitignore(*lines: str) -> GitIgnoreSpec:
    """
    :raises ValueError: a line is no pattern.
    """
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - 10 ms that most commands need not wait for

    return GitIgnoreSpec.from_lines(lines)


def is_named(name: str, globs: tuple[str, ...]) -> bool:
    """Whether a name fits one of the globs, upper and lower case told apart."""
    return _one_of(globs).match(name) is not None


@lru_cache(maxsize=64)
def _one_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
