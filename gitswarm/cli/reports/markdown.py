"""A report in Markdown, as forges show it. Nothing that agents wrote becomes markup, a link or a mention."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from gitswarm.cli.console import harmless
from gitswarm.cli.reports.page import Block, Commands, Items, Line, Page, Part, Section, Table, Text

MOST_CHARS = 65_536
"""What GitHub takes for a description of a pull request."""

_BROKEN = "&#8203;"
"""A space without width: the forge sees no mention, number or address any more, and a reader sees no difference."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;", "|": "&#124;", "$": "&#36;"}
_SPECIAL = re.compile(r"[&<>\\|]|\$(?!\d+\.\d\d(?![\d$]))|[*`\[\]~^]|(?<![^\W_])_|_(?![^\W_])")
_LINKED = re.compile(r"(?<=[@#!%])(?=\w)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=\bGH)(?=-\d)", re.IGNORECASE)
_BLOCK = re.compile(r"^(?:[-+#:=]|\d+(?=[.)]))")
_PLAIN_CODE = re.compile(r"[^`|\\\s](?:[^`|\\]*[^`|\\\s])?")


class _Room(Struct, frozen=True):
    """`rows` of a table or list, `chars` of a piece of text."""

    rows: int
    chars: int


_ROOMS = (_Room(200, 2_000), _Room(60, 600), _Room(25, 300), _Room(10, 150), _Room(4, 80), _Room(2, 40))


def markdown_of(page: Page) -> str:
    """Whole where a forge takes it; else with fewer rows and shorter texts, which say so."""
    texts = (_page(page, room) for room in _ROOMS)
    return next((text for text in texts if len(text) <= MOST_CHARS), "")


def _page(page: Page, room: _Room) -> str:
    title = _first(page.title, room)
    parts = [f"# {title}", *(_block(block, room) for block in page.head)]
    for section in page.sections:
        parts += _section(section, room)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, room: _Room) -> list[str]:
    body = [text for text in (_block(block, room) for block in section.blocks) if text]
    if section.folded:
        return [f"<details><summary>{section.title}</summary>", *body, "</details>"]
    return [f"## {section.title}", *body]


def _block(block: Block, room: _Room) -> str:
    match block:
        case Text(line):
            return _first(line, room)
        case Items(lines):
            return _more([f"- {_first(line, room)}" for line in lines], room, "- … and {} more")
        case Table(headings, rows):
            head = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
            rows_of_table = [f"| {' | '.join(_inline(cell, room) for cell in row)} |" for row in rows]
            filler = " |" * (len(headings) - 1)
            return "\n".join([*head, _more(rows_of_table, room, f"| … and {{}} more |{filler}")])
        case Commands(lines):
            commands = [f"# {_one_line(claim, room)}\n{_command(command)}" for claim, command in lines[: room.rows]]
            text = "\n".join(commands)
            fence = "`" * max(3, _longest_run(text) + 1)
            return f"{fence}sh\n{text}\n{fence}"


def _more(lines: Sequence[str], room: _Room, more: str) -> str:
    left = len(lines) - room.rows
    return "\n".join([*lines[: room.rows], *([more.format(left)] if left > 0 else [])])


def _inline(line: Line, room: _Room) -> str:
    return "".join(_part(part, room) for part in line).strip() or "-"


def _first(line: Line, room: _Room) -> str:
    """At the beginning of a line: it begins no list, heading or quote there."""
    text = _inline(line, room)
    found = _BLOCK.match(text)
    if found is None:
        return text
    return f"{text[: found.end()]}\\{text[found.end() :]}" if found[0].isdigit() else f"\\{text}"


def _part(part: Part, room: _Room) -> str:
    text = _one_line(part.text, room, keep_ends=part.kind == "prose")
    if not text.strip():
        return text
    if part.kind == "code":
        return f"`{text}`" if _PLAIN_CODE.fullmatch(text) else f"<code>{_escaped(text)}</code>"
    return f"**{_escaped(text)}**" if part.kind == "strong" else _escaped(text)


def _escaped(text: str) -> str:
    broken = _LINKED.sub("\0", text)
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0]) or f"\\{found[0]}", broken).replace("\0", _BROKEN)


def _one_line(text: str, room: _Room, *, keep_ends: bool = False) -> str:
    """Without control characters and line ends, and not longer than there is room."""
    line = " ".join(harmless(text.replace("\t", " ").replace("\r", " ")).split())
    if len(line) > room.chars:
        line = line[: room.chars - 1].rstrip() + "…"
    if not keep_ends or not line:
        return line or (" " if keep_ends and text else "")
    return f"{' ' * text[:1].isspace()}{line}{' ' * text[-1:].isspace()}"


def _command(command: str) -> str:
    """One line: what is copied into a shell is what is seen."""
    return " ".join(harmless(command).split("\n"))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
