"""Text for people: results on stdout, progress on stderr; lines that the terminal shows whole, tables as wide as it
is, ids of runs as short as they are unique, amounts in words."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from gitswarm.cli.candidates import runs_here
from gitswarm.cli.terminal import has_colours, is_narrow, is_screen, painted, terminal_width, text_width
from gitswarm.records.execution import shortest
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import columns, shorten

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue

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
    for line in readable("git-swarm: ", message, sys.stderr):
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
    """For each column how wide its text may be, and the room behind it. Their sum may exceed the room."""
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


def line_counts(insertions: JsonValue, deletions: JsonValue) -> str:
    """`+3 -1`: of a changed file; None: it is binary."""
    return "binary" if insertions is None else f"+{insertions} -{deletions}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def harmless(text: str) -> str:
    """The text without control characters: what an agent wrote must not steer the terminal. Nor may a path that is
    not UTF-8 end the program."""
    return _STEERING.sub("�", text.encode(errors="surrogateescape").decode(errors="replace"))


def escaped(document: str) -> str:
    """The same JSON document, in which nothing steers the terminal."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def money(cost_usd: float | None) -> str:
    return "$?" if cost_usd is None else f"${cost_usd:.2f}"


_INDENT = 3
_BELOW = 6
_LABEL = 10
FIELD = _INDENT + _LABEL
"""Where the values of labelled lines begin."""

_TAIL = 10
_TAIL_COLUMNS = 200
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TAP = lazy_re(r"^TAP version \d+$", re.MULTILINE)
_TAP_FRAME = lazy_re(
    r"\s*(?:# (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+|\d+\.\.\d+|---|\.\.\."
    r"|TAP version \d+|(?:duration_ms|location|type|failureType|exitCode|signal|code): .*|error: 'test failed')"
)
"""Lines that count and place results, and say nothing of what went wrong."""


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
    return readable(f"{name:<11}", value, sys.stdout)


def next_lines(first: str, command: str) -> list[str]:
    """A command is never broken; what is said about it in brackets comes below."""
    typed, gap, about = with_short_ids(command).partition("   ")
    return [f"{first}{typed}", *(_said_about(" " * columns(first), about, sys.stdout) if gap else [])]


def _said_about(first: str, about: str, stream: TextIO) -> list[str]:
    """A command in it is not broken either."""
    return [f"{first}{about}"] if "git swarm " in about else readable(first, about, stream)


def command_lines(name: str, command: str) -> list[str]:
    """A labelled command, like `field`, that can be copied even where it takes several lines."""
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


def readable(first: str, text: str, stream: TextIO) -> list[str]:
    """Wrapped lines, like `hanging`, for a terminal; a log gets lines as they are."""
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
        return [f"hint: {command}", *_said_about(" " * _BELOW, about, stream)]
    return [f"hint: {hint}"]


def padded(text: str, width: int) -> str:
    """The text padded to a width, like `str.ljust`, but counted in columns."""
    return text + " " * max(0, width - columns(text))


def tail(output: str) -> list[str]:
    """The last lines of what a command said, each cut where it gets long; without empty ones, colours, and what
    frames results in TAP."""
    plain = _COLOURS.sub("", output)
    lines = [line.rstrip() for line in plain.splitlines() if line.strip()]
    if _TAP.search(plain):
        lines = [line for line in lines if not _TAP_FRAME.fullmatch(line)] or lines
    return [f"{' ' * (len(line) - len(line.lstrip()))}{shorten(line, _TAIL_COLUMNS)}" for line in lines[-_TAIL:]]


_ID = re.compile(r"(?<![\w/.-])run-\d{8}-\d{6}-[0-9a-f]{6}(?![\w/-]|\.\w)")


def with_short_ids(text: str) -> str:
    """Ids in a text made short; refs and paths that have one in them stay whole."""
    if "run-" not in text or not is_screen() or _ID.search(text) is None:
        return text
    runs = runs_here()
    return _ID.sub(lambda found: shortest(found[0], runs), text)
