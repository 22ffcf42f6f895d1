"""Text in lines that a terminal of 80 columns shows whole: nothing is cut off, long words are broken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gitswarm.records.text import columns, shorten

WIDTH = 80
_INDENT = 3
_LABEL = 10
FIELD = _INDENT + _LABEL
"""Where the values of labelled lines begin."""

_TAIL = 10
_TAIL_COLUMNS = 200
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def wrapped(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most `width` columns; one line at least."""
    lines = [""]
    for word in _fitting(text.split(), width):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if columns(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _fitting(words: Iterable[str], width: int) -> Iterator[str]:
    """The words, those that are wider than a line in pieces."""
    for word in words:
        piece = ""
        for letter in word:
            if piece and columns(piece + letter) > width:
                yield piece
                piece = ""
            piece += letter
        yield piece


def hanging(first: str, text: str, width: int = WIDTH) -> list[str]:
    """`first` and behind it the text, wrapped; further lines begin where the text began."""
    indent = columns(first)
    begun, *more = wrapped(text, width - indent)
    return [f"{first}{begun}".rstrip(), *(f"{' ' * indent}{line}" for line in more)]


def labelled(label: str, *values: str) -> list[str]:
    """`   label     value`: the label once, each value on lines of its own."""
    lines: list[str] = []
    for value in values:
        first = label if not lines else ""
        lines += hanging(f"{'':<{_INDENT}}{first:<{_LABEL}}", value)
    return lines


def padded(text: str, width: int) -> str:
    """As `str.ljust`, in columns."""
    return text + " " * max(0, width - columns(text))


def tail(output: str) -> list[str]:
    """The last lines of what a command said, empty ones and colours left out, each cut where it gets long."""
    said = [line.rstrip() for line in _COLOURS.sub("", output).splitlines() if line.strip()]
    return [f"{' ' * (len(line) - len(line.lstrip()))}{shorten(line, _TAIL_COLUMNS)}" for line in said[-_TAIL:]]
