"""Text in lines that the terminal shows whole: nothing is cut off, long words are broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import is_narrow, text_width
from gitswarm.records.text import columns, shorten

_INDENT = 3
_BELOW = 6
_LABEL = 10
FIELD = _INDENT + _LABEL
"""Where the values of labelled lines begin."""

_TAIL = 10
_TAIL_COLUMNS = 200
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def wrapped(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most `width` columns; one line at least."""
    lines = [""]
    for word in _fitting(with_short_ids(text).split(), width):
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


def hanging(first: str, text: str, width: int = 0) -> list[str]:
    """`first` and behind it the text, wrapped; further lines begin where the text began. Where `first` takes more
    than two thirds of the line, the text begins below it.

    :param width: 0: the terminal's.
    """
    width = width or text_width()
    indent = columns(first)
    if not text.strip():
        return [first.rstrip()]
    if indent > width * 2 // 3:
        return [first.rstrip(), *hanging(" " * _BELOW, text, width)]
    begun, *more = wrapped(text, width - indent)
    return [f"{first}{begun}".rstrip(), *(f"{' ' * indent}{line}" for line in more)]


def field(name: str, value: str) -> list[str]:
    """`  name      value`, wrapped: a line of a screen about one thing."""
    return hanging(f"  {name:<9} ", value)


def fact(name: str, value: str) -> list[str]:
    """`name       value`: a line of the result of a command, on a terminal wrapped."""
    return told(f"{name:<11}", value, sys.stdout)


def next_lines(first: str, command: str) -> list[str]:
    """A command is never broken; what is said about it in brackets comes below."""
    typed, gap, about = with_short_ids(command).partition("   ")
    return [f"{first}{typed}", *(hanging(" " * columns(first), about) if gap else [])]


def command_lines(name: str, command: str) -> list[str]:
    """As `field`, for a command that can be copied also where it takes several lines."""
    lines = [f"  {name:<9} "]
    for word in command.split(" "):
        longer = lines[-1] + word
        if columns(longer) + len(" \\") > text_width() and lines[-1].strip():
            lines[-1] += "\\"
            longer = " " * _BELOW + word
            lines.append("")
        lines[-1] = f"{longer} "
    return [line.rstrip() for line in lines]


def labelled(label: str, *values: str) -> list[str]:
    """`   label     value`: the label once, each value on lines of its own."""
    lines: list[str] = []
    for value in values:
        first = label if not lines else ""
        lines += hanging(f"{'':<{_INDENT}}{first:<{_LABEL}}", value)
    return lines


def told(first: str, text: str, stream: TextIO) -> list[str]:
    """As `hanging` for somebody who reads it on a terminal; a log gets lines as they are."""
    lines = text.splitlines() or [""]
    return [
        part
        for line in lines
        for part in (hanging(first, line) if is_narrow(stream) else [f"{first}{line}".rstrip()])
    ]


def hint_lines(hint: str, stream: TextIO) -> list[str]:
    """A command stays in one line, that it can be copied; what is said about it may get another one."""
    command, gap, about = with_short_ids(hint).partition("   ")
    if gap and is_narrow(stream) and columns(f"hint: {hint}") > text_width():
        return [f"hint: {command}", *hanging(" " * _BELOW, about)]
    return [f"hint: {hint}"]


def padded(text: str, width: int) -> str:
    """As `str.ljust`, in columns."""
    return text + " " * max(0, width - columns(text))


def tail(output: str) -> list[str]:
    """The last lines of what a command said, empty ones and colours left out, each cut where it gets long."""
    lines = [line.rstrip() for line in _COLOURS.sub("", output).splitlines() if line.strip()]
    return [f"{' ' * (len(line) - len(line.lstrip()))}{shorten(line, _TAIL_COLUMNS)}" for line in lines[-_TAIL:]]
