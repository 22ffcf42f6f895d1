"""Words on a terminal: results on stdout, progress on stderr, tables that fit 80 columns."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, of 8 bits too (U+009B begins a sequence as ESC does), and what turns the direction of text."""


def out(text: str = "") -> None:
    """A line of the result."""
    sys.stdout.write(f"{harmless(text)}\n")


def out_lines(lines: Iterable[str]) -> None:
    for line in lines:
        out(line)


def err(text: str) -> None:
    """A line of progress. Nobody may be there to read it any more; the run is worth more than the line."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{harmless(text)}\n")
        sys.stderr.flush()


def out_json(value: Mapping[str, JsonValue] | Sequence[Mapping[str, JsonValue]]) -> None:
    """One JSON document."""
    out(escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def out_json_line(value: Mapping[str, JsonValue]) -> None:
    """One JSON document of one line."""
    out(escaped(json.dumps(value, ensure_ascii=False)))


def out_stored(content: bytes) -> None:
    """A stored JSON file as it is, but for what would steer the terminal: that is escaped, which JSON reads alike."""
    out_bytes(escaped(content.decode(errors="surrogateescape")).encode(errors="surrogateescape"))


def out_bytes(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, stretch: int = -1) -> None:
    """Aligned columns; the column `stretch` takes the room that is left and is cut with an ellipsis."""
    from rich.console import Console  # noqa: PLC0415 - an eighth of a second
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=False)
    grid = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    last = stretch % len(headings)
    for index, heading in enumerate(headings):
        room = index == last
        grid.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if room else None)
    grid.expand = True
    for row in rows:
        grid.add_row(*(Text(harmless(cell)) for cell in row))  # no markup: a summary may hold brackets
    console.print(grid)


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
