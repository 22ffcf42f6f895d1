"""Text as wide as a terminal shows it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

_LISTED = 3


def shorten(text: str, limit: int) -> str:
    """The first line of `text`, at most `limit` columns of a terminal wide, cut with an ellipsis."""
    line = text.strip().splitlines()[0].strip() if text.strip() else ""
    if line.isascii() and len(line) <= limit:
        return line
    widths = list(accumulate(_columns(letter) for letter in line))
    if not widths or widths[-1] <= limit:
        return line
    fitting = sum(1 for width in widths if width < limit)
    return line[:fitting].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def columns(text: str) -> int:
    """How wide a terminal shows a text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
