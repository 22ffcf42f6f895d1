"""Words on a terminal: results on stdout, progress on stderr, tables as wide as it is."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from gitswarm.cli.lines import hint_lines, told
from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import has_colours, painted, terminal_width
from gitswarm.records.text import columns

if TYPE_CHECKING:
    from pydantic import JsonValue

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, of 8 bits too (U+009B begins a sequence as ESC does), and what turns the direction of text."""

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells give it."""

_GAP = 2


def out(text: str = "") -> None:
    """A line of the result, for a person: with short ids, and colours where they are wanted."""
    out_verbatim(painted(with_short_ids(harmless(text)), sys.stdout))


def out_lines(lines: Iterable[str]) -> None:
    for line in lines:
        out(line)


def out_verbatim(text: str) -> None:
    """A line as it is."""
    sys.stdout.write(f"{text}\n")


def err(text: str) -> None:
    """A line of progress. Nobody may be there to read it any more; the run is worth more than the line."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{painted(with_short_ids(harmless(text)), sys.stderr)}\n")
        sys.stderr.flush()


def complain(message: str, hint: str = "") -> None:
    """What is wrong, and the next command to type."""
    for line in told("git-swarm: ", message, sys.stderr):
        err(line)
    advise(hint)


def advise(hint: str) -> None:
    for line in hint_lines(hint, sys.stderr) if hint else ():
        err(line)


def out_json(value: Mapping[str, JsonValue] | Sequence[Mapping[str, JsonValue]]) -> None:
    """One JSON document."""
    out_verbatim(escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def out_json_line(value: Mapping[str, JsonValue]) -> None:
    """One JSON document of one line."""
    out_verbatim(escaped(json.dumps(value, ensure_ascii=False)))


def out_stored(content: bytes) -> None:
    """A stored JSON file as it is, but for what would steer the terminal: that is escaped, which JSON reads alike."""
    out_bytes(escaped(content.decode(errors="surrogateescape")).encode(errors="surrogateescape"))


def out_bytes(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    stretch: int = -1,
    below: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Aligned columns; the column `stretch` takes the room that is left. What does not fit is cut.

    :param below: lines of their own behind a row, by its number from 0.
    """
    cells = [_harmless_column(column) for column in zip(headings, *rows, strict=True)]
    room = terminal_width()
    widths = _widths([max(map(columns, column)) for column in cells], stretch % len(headings), room)
    lines = map("".join, zip(*map(_aligned, cells, widths), strict=True))
    fits = sum(map(sum, widths)) <= room
    shown = [(line if fits else _cut(line, room)).rstrip() for line in lines]
    coloured = has_colours(sys.stdout)
    out_verbatim(f"\x1b[1m{shown[0]}\x1b[0m" if coloured else shown[0])
    for number, line in enumerate(shown[1:]):
        out_verbatim(painted(line, sys.stdout) if coloured else line)
        out_lines(below.get(number, ()))


def _widths(needed: Sequence[int], stretch: int, room: int) -> list[tuple[int, int]]:
    """Of each column: how wide its text may be, and the room behind it. Their sum may exceed the room."""
    gaps = [_GAP] * (len(needed) - 1) + [0]
    whole = [width + gap for width, gap in zip(needed, gaps, strict=True)]
    whole[stretch] = 0
    whole[stretch] = max(room - sum(whole), 1 + gaps[stretch])
    excess = max(sum(whole) - room, 0)
    for index, width in enumerate(whole):
        less = min(width, round(excess / (len(whole) - index)))
        whole[index], excess = width - less, excess - less
    return [(max(width - gap, 0), min(gap, width)) for width, gap in zip(whole, gaps, strict=True)]


def _harmless_column(column: Sequence[str]) -> list[str]:
    """Plain letters are harmless: of ten thousand rows nearly all have no others."""
    clean = [cell if cell.isascii() and cell.isprintable() else harmless(cell).expandtabs() for cell in column]
    return with_short_ids("\0".join(clean)).split("\0")


def _aligned(column: Sequence[str], room: tuple[int, int]) -> list[str]:
    width, gap = room
    return [
        cell.ljust(width + gap) if len(cell) <= width and cell.isascii() else _cell(cell, width, gap)
        for cell in column
    ]


def _cell(text: str, width: int, gap: int) -> str:
    if columns(text) > width:
        text = _cut(text, width - 1) + "…" if width else ""
    return text + " " * (width - columns(text) + gap)


def _cut(text: str, width: int) -> str:
    """The beginning of a text, as wide as that."""
    if text.isascii():
        return text[:width].ljust(width)
    kept, used = "", 0
    for letter in text:
        used += columns(letter)
        if used > width:
            break
        kept += letter
    return kept + " " * (width - columns(kept))


def duration(milliseconds: int) -> str:
    """`420ms`, `3.2s`, `4m05s`, `2h03m`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m"


def size(count: int | None) -> str:
    """`812K`, `1.2M`, `34G`, as `du -h` says it; `-` when there is nothing to measure."""
    if count is None:
        return "-"
    amount, units = count / 1024, "KMG"
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.1f}{units[0]}" if 0 < amount < 10 else f"{amount:.0f}{units[0]}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def harmless(text: str) -> str:
    """Without control characters: what an agent wrote must not steer the terminal. Nor may a path that is not UTF-8
    end the program.
    """
    return _STEERING.sub("�", text.encode(errors="surrogateescape").decode(errors="replace"))


def escaped(document: str) -> str:
    """The same JSON document, in which nothing steers the terminal."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def money(cost_usd: float | None) -> str:
    return "$?" if cost_usd is None else f"${cost_usd:.2f}"
