"""What templates make of runs: the pages, a report as Markdown, and the page of a run as one file, which fetches
nothing and executes nothing. What agents wrote is text in all of them."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from gitswarm.cli import runs
from gitswarm.cli.console import duration, harmless, line_counts, money, plural
from gitswarm.cli.report_model import CostLine, Proof, RunReport
from gitswarm.cli.run_report import report_of
from gitswarm.cli.runs import Opened
from gitswarm.cli.status import open_question
from gitswarm.records.execution import RunStatus
from gitswarm.records.run_spec import LandStrategy
from gitswarm.web.cut_diff import file_diffs, git_diff
from gitswarm.web.run_page import run_graph, run_page, step_detail

_HERE = Path(__file__).parent


def templates() -> Environment:
    """The templates of the pages."""
    found = _environment(visible)
    words = (
        *(open_question, runs.age, runs.mark, runs.state_word, runs.step_outcome),
        *(runs.task_title, runs.tests_cell, runs.tests_word),
    )
    found.globals.update({each.__name__: each for each in (*words, RunStatus)})
    found.globals.update(strategies=get_args(LandStrategy), frozen=False)
    return found


def _environment(shown: Callable[[object], object]) -> Environment:
    """
    :param shown: makes text of a value for the place where it stands; what it does not mark is escaped.
    """
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update({each.__name__: each for each in (duration, line_counts, money, plural)})
    return found


def visible(value: object) -> object:
    """A lone CR would end a line, and diff2html leaves out what is on the next one. Markup is ours, and stays."""
    return harmless(value.replace("\r\n", "\n")) if type(value) is str else value


def frozen_page(opened: Opened) -> str:
    """A run's page as a file, with the report's sections, the evidence of each step, and what the run changed."""
    style = (_HERE / "static" / "page.css").read_text(encoding="utf-8")
    page, state = run_page(opened, None), opened.state
    return (
        templates()
        .get_template("run.html")
        .render(
            frozen=True,
            style=Markup(style),  # our own file  # noqa: S704
            style_sum=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            page=page,
            graphs=[(flow, run_graph(opened, flow, (), None)) for flow in page.flows],
            report=sections_of(report_of(opened)),
            details=[step_detail(opened, str(record.number), "evidence") for record in state.steps],
            detail=None,
            step=None,
            changed=file_diffs(opened.repository, state.base, state.tip),
            command=shlex.join(["git", *git_diff(state.base[:12], state.tip[:12])]),
        )
    )


def sections_of(report: RunReport) -> Markup:
    """A report as HTML, without its title and first line, which the page has."""
    found = _environment(lambda value: value if isinstance(value, Markup) else visible(str(value).strip()) or "-")
    for name in ("code", "strong"):
        found.filters[name] = partial(_tagged, name)
    found.filters["commands"] = _listing
    text = found.get_template("report.j2").render(report=report, total=_total(report), form="report_html.j2")
    return Markup(text)  # by a template that escapes  # noqa: S704


def _tagged(name: str, text: str) -> Markup:
    return Markup("<{0}>{1}</{0}>").format(name, visible(text)) if text.strip() else Markup("-")


def _listing(proofs: Sequence[Proof]) -> Markup:
    lines = (f"# {' '.join(each.claim.split())}\n{' '.join(each.command.splitlines())}\n" for each in proofs)
    return Markup("<pre>{}</pre>").format(visible("".join(lines)))


def _total(report: RunReport) -> CostLine:
    verdict = report.verdict
    executions = sum(line.executions for line in report.costs.flows)
    return CostLine("total", executions, verdict.duration_ms, verdict.tokens, verdict.cost_usd)


MOST_CHARS = 65_536
"""What GitHub takes for a description of a pull request."""

_BROKEN = "&#8203;"
"""A space without width: the forge sees no mention, number or address any more, and a reader sees no difference."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;", "|": "&#124;", "$": "&#36;"}
_SPECIAL = re.compile(r"[&<>\\|]|\$(?!\d+\.\d\d(?![\d$]))|[*`\[\]~^]|(?<![^\W_])_|_(?![^\W_])")
_LINKED = re.compile(r"(?<=[@#!%])(?=\w)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=\bGH)(?=-\d)", re.IGNORECASE)
_PLAIN_CODE = re.compile(r"[^`|\\\s](?:[^`|\\]*[^`|\\\s])?")
_BLANK_LINES = re.compile(r"\n{3,}")


class _Room(Struct, frozen=True):
    """`rows` of a table or list, `chars` of a piece of text."""

    rows: int
    chars: int


_ROOMS = (_Room(200, 2_000), _Room(60, 600), _Room(25, 300), _Room(10, 150), _Room(4, 80), _Room(2, 40))


def markdown_of(report: RunReport) -> str:
    """A report for a pull request: whole where a forge takes it; else with fewer rows and shorter texts, which say
    so."""
    texts = (_markdown(report, room) for room in _ROOMS)
    return next((text for text in texts if len(text) <= MOST_CHARS), "")


def _markdown(report: RunReport, room: _Room) -> str:
    found = _environment(partial(_text, room))
    found.filters.update(code=partial(_code, room), strong=partial(_strong, room), commands=partial(_fenced, room))
    title = next((line for line in report.task.splitlines() if line.strip()), ", ".join(report.flows))
    about = {"report": report, "total": _total(report), "title": title, "room": room}
    text = found.get_template("report.md.j2").render(about, form="report_markdown.j2")
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


def _text(room: _Room, value: object) -> Markup:
    """Text that is nothing but text in Markdown: no markup, link, mention or number of an issue. Ours stays."""
    if isinstance(value, Markup):
        return value
    broken = _LINKED.sub("\0", _one_line(str(value), room) or "-")
    escaped = _SPECIAL.sub(lambda found: _ENTITIES.get(found[0]) or f"\\{found[0]}", broken)
    return Markup(escaped.replace("\0", _BROKEN))  # noqa: S704


def _code(room: _Room, value: str) -> Markup:
    text = _one_line(value, room)
    if not text:
        return Markup("-")
    plain = _PLAIN_CODE.fullmatch(text)
    return Markup(f"`{text}`") if plain else Markup(f"<code>{_text(room, text)}</code>")  # noqa: S704


def _strong(room: _Room, value: str) -> Markup:
    return Markup(f"**{_text(room, value)}**")  # noqa: S704


def _fenced(room: _Room, proofs: Sequence[Proof]) -> Markup:
    """Each command in one line, behind what it shows: what is copied into a shell is what is seen."""
    lines = ((_one_line(each.claim, room), " ".join(harmless(each.command).split("\n"))) for each in proofs)
    text = "".join(f"# {claim}\n{command}\n" for claim, command in islice(lines, room.rows))
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return Markup(f"{fence}sh\n{text}{fence}")  # noqa: S704


def _one_line(text: str, room: _Room) -> str:
    """The text without control characters and line ends, and not longer than there is room."""
    line = " ".join(harmless(text.replace("\t", " ").replace("\r", " ")).split())
    return line if len(line) <= room.chars else f"{line[: room.chars - 1].rstrip()}…"
