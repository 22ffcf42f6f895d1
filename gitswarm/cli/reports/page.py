"""A report as a page of sections, tables and lists: what its renderers have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from gitswarm.cli.console import duration, harmless, line_counts, money, plural
from gitswarm.cli.reports.model import CostLine, ReportedFile, RunReport


class Part(Struct, frozen=True):
    """A piece of a line. Whatever its text holds, it is shown as it is."""

    kind: Literal["prose", "code", "strong"]
    text: str


Line = tuple[Part, ...]


class Table(Struct, frozen=True):
    headings: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


class Items(Struct, frozen=True):
    lines: tuple[Line, ...]


class Text(Struct, frozen=True):
    line: Line


class Commands(Struct, frozen=True):
    """Each behind what it shows."""

    claims: tuple[tuple[str, str], ...]


Block = Table | Items | Text | Commands


class Section(Struct, frozen=True):
    """`folded`: what few readers need."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


class Page(Struct, frozen=True):
    title: Line
    state: str
    head: tuple[Block, ...]
    sections: tuple[Section, ...]


def prose(text: str) -> Line:
    return (Part("prose", text),)


def code(text: str) -> Line:
    return (Part("code", text),)


def strong(text: str) -> Line:
    return (Part("strong", text),)


def page_of(report: RunReport) -> Page:
    """Verdict first; a section that would be empty is left out, but for what a reviewer asks for in any case."""
    sections = (
        _unproven(report),
        _changes(report),
        _other_files(report),
        _criteria(report),
        _claims(report),
        _refusals(report),
        _off_path(report),
        _questions(report),
        _costs(report),
        _proofs(report),
    )
    task = next((line.strip() for line in report.task.splitlines() if line.strip()), ", ".join(report.flows))
    return Page(
        title=prose(task),
        state=report.verdict.state,
        head=_head(report),
        sections=tuple(section for section in sections if section is not None),
    )


def _head(report: RunReport) -> tuple[Block, ...]:
    verdict = report.verdict
    used = f"{duration(verdict.duration_ms)}, {verdict.tokens} tokens, {money(verdict.cost_usd)}"
    line = (*strong(verdict.state), *prose(f": {verdict.tests}; {plural(verdict.steps, 'step')}, {used}"))
    words = []
    if verdict.approved_by is not None:
        words.append(f"approved by {verdict.approved_by}")
    if verdict.landed is not None:
        words.append(f"landed on {verdict.landed}")
    where = (*prose(f"{' → '.join(report.flows)}, run "), *code(report.run_id))
    where = (*where, *prose(", "), *code(f"{report.base[:12]}..{report.tip[:12]}"))
    blocks: list[Block] = [Text(line)]
    if words:
        blocks.append(Text(prose(", ".join(words))))
    return (*blocks, Text(where))


def _unproven(report: RunReport) -> Section:
    found = report.verdict.unproven
    if not found:
        return Section("Not proven", (Text(prose("Nothing: no concern is open, and tests passed on this code.")),))
    return Section(
        "Not proven",
        (
            Items(
                tuple(
                    (*strong(each.kind), *prose(" "), *code(each.about), *prose(f": {each.text}")) for each in found
                )
            ),
        ),
    )


def _changes(report: RunReport) -> Section:
    changes = report.changes
    blocks: list[Block] = [
        Items(tuple((*code(each.step), *prose(f": {each.summary}")) for each in report.work)),
    ]
    size = f"{plural(len(changes.files), 'file')}, +{changes.insertions} -{changes.deletions}"
    first = [file for file in changes.files if file.reasons]
    blocks.append(Text((*strong(size), *prose(". Look here first:" if first else "."))))
    if first:
        blocks.append(_files(first))
    return Section("What changed", tuple(blocks))


def _other_files(report: RunReport) -> Section | None:
    rest = [file for file in report.changes.files if not file.reasons]
    more = " more" if len(rest) < len(report.changes.files) else ""
    return Section(f"{plural(len(rest), 'file')}{more}", (_files(rest),), folded=True) if rest else None


def _files(files: Sequence[ReportedFile]) -> Table:
    rows = tuple(
        (code(file.path), prose(file.change), prose(line_counts(file.insertions, file.deletions)), _reasons(file))
        for file in files
    )
    if any(file.reasons for file in files):
        return Table(("file", "change", "lines", "why"), rows)
    return Table(("file", "change", "lines"), tuple(row[:3] for row in rows))


def _reasons(file: ReportedFile) -> Line:
    line: Line = ()
    for reason in file.reasons:
        kind, colon, concern = reason.partition(": ")
        words = (*prose(f"{kind} "), *code(concern)) if colon else prose(reason)
        line = (*line, *prose("; "), *words) if line else words
    return line


def _criteria(report: RunReport) -> Section | None:
    rows = tuple(
        (
            (*code(each.id), *prose(f" {each.text}")),
            strong(each.proof if each.current else f"{each.proof}, of earlier code"),
            _joined(each.tests) if each.tests else prose(each.reason),
            prose(f"#{each.evidence}" if each.evidence is not None else "-"),
        )
        for each in report.criteria
    )
    return _table("Criteria", ("criterion", "proof", "tests", "evidence"), rows)


def _joined(names: Iterable[str]) -> Line:
    line: Line = ()
    for name in names:
        line = (*line, *prose(", "), *code(name)) if line else code(name)
    return line


def _claims(report: RunReport) -> Section | None:
    rows = tuple(
        (
            code(each.step),
            prose(each.said or "-"),
            (*code(each.flag), *prose(f" {each.found}")),
            prose(each.outcome),
        )
        for each in report.claims
    )
    return _table("Claims against facts", ("step", "claimed", "found", "outcome"), rows)


def _refusals(report: RunReport) -> Section | None:
    rows = tuple(
        (code(each.step), code(f"{each.tool} {each.wanted}"), prose(each.reason)) for each in report.refusals
    )
    return _table("Denied tool calls", ("step", "wanted", "reason"), rows)


def _off_path(report: RunReport) -> Section | None:
    rows = tuple(
        (code(each.after), prose(f"{each.way} ({each.who})" if each.who else each.way), prose(each.reason))
        for each in report.off_path
    )
    return _table("Loops and detours", ("after", "next", "reason"), rows)


def _questions(report: RunReport) -> Section | None:
    lines = tuple(
        (
            *strong(each.kind),
            *prose(" "),
            *code(each.step),
            *prose(f": {each.text}{f' ({each.more})' if each.more else ''}"),
        )
        for each in report.questions
    )
    return Section("Open assumptions and questions", (Items(lines),)) if lines else None


def _costs(report: RunReport) -> Section:
    costs = report.costs
    verdict = report.verdict
    executions = sum(line.executions for line in costs.flows)
    total = CostLine("total", executions, verdict.duration_ms, verdict.tokens, verdict.cost_usd)
    rows = tuple(
        (
            strong(line.name) if line is total else prose(line.name),
            *(prose(text) for text in (str(line.executions), duration(line.duration_ms), str(line.tokens))),
            prose(money(line.cost_usd)),
        )
        for line in (*costs.flows, *costs.beside, total)
    )
    table = Table(("flow", "executions", "time", "tokens", "cost"), rows)
    return Section("Cost and time", (table,))


def _proofs(report: RunReport) -> Section:
    return Section("Reproduce it", (Commands(tuple((each.claim, each.command) for each in report.proofs)),))


def _table(title: str, headings: tuple[str, ...], rows: tuple[tuple[Line, ...], ...]) -> Section | None:
    return Section(title, (Table(headings, rows),)) if rows else None


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
