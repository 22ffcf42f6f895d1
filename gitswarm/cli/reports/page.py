"""A report as a page of sections, tables and lists: what its renderers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from gitswarm.cli.console import duration, line_counts, money, plural
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
