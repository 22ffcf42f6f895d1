"""`blame`: every line of a file with the step that wrote it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import advise, err, harmless, out_json, out_verbatim
from gitswarm.cli.lines import padded
from gitswarm.cli.opened import JsonFlag, RunOption, plain_step, reader_here, step_name
from gitswarm.cli.short_ids import with_short_ids
from gitswarm.cli.terminal import is_screen, terminal_width
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.blame import Origin, origins
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.text import columns

if TYPE_CHECKING:
    from pydantic import JsonValue

_STEP, _MODEL, _RUN, _STATION = "step", "model", "run", "station"
_ORDER = (_RUN, _STEP, _STATION, _MODEL)
_ROOM = ((100, _ORDER), (72, (_STEP, _MODEL)), (0, (_STEP,)))
"""From that many columns on, what there is room for beside the text."""


def blame(
    file: Annotated[str, Argument(metavar="FILE[:LINE]", help="A file of this checkout, or one line of it.")],
    run: RunOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Every line of a file, with the step that wrote it.

    Run, step, iteration, station and model, laid out as `git blame` does it.
    """
    repository = reader_here()
    name, line = file_and_line(file, "blame")
    found = lines_of(repository, name, line, run, command="blame")
    if as_json:
        out_json([plain_origin(origin) for origin in found])
    else:
        show_lines(repository, found)


def lines_of(
    repository: RepositoryReader, file: str, line: int | None, run: str | None, *, command: str
) -> list[Origin]:
    """One line of a file, or all: as HEAD has it, else as the newest run has it that does.

    :param command: what to type for the same again.
    :raises NotFoundError: there is no such file or line.
    """
    path = from_the_top(repository, file)
    if run is not None:
        return origins(repository, find_run(repository, run).branch, path, line)
    try:
        return origins(repository, repository.resolve("HEAD"), path, line)
    except NotFoundError:
        runs = [layout for layout in all_runs(repository) if _has(repository, layout, path, line)]
        if not runs:
            raise
    where = file if line is None else f"{file}:{line}"
    others = f", and {len(runs) - 1} older ones have it" if len(runs) > 1 else ""
    err(f"{where} is not in HEAD; this is how {runs[0].run_id} has it{others}")
    advise(f"git swarm {command} {where} --run {runs[0].run_id}")
    return origins(repository, runs[0].branch, path, line)


def file_and_line(what: str, command: str) -> tuple[str, int | None]:
    """
    :raises UsageError: lines are counted from 1.
    """
    file, colon, number = what.rpartition(":")
    if not colon or not number.isdecimal() or Path(what).exists():
        return what, None
    if not int(number):
        raise UsageError(f"{what}: lines are counted from 1", hint=f"git swarm {command} {file}:1")
    return file, int(number)


def from_the_top(repository: RepositoryReader, file: str) -> str:
    if repository.checkout is None:
        return file
    return os.path.relpath(Path.cwd().resolve() / file, repository.checkout.resolve())


def _has(repository: RepositoryReader, layout: RunLayout, path: str, line: int | None) -> bool:
    tip = repository.refs.read(layout.branch)
    content = repository.objects.file(repository.objects.commit(tip).tree, path) if tip is not None else None
    return content is not None and (line or 0) <= len(content.splitlines())


def show_lines(repository: RepositoryReader, found: Sequence[Origin]) -> None:
    """`4f2a9c1e (write@2 claude-sonnet-4-5 12) text`; in a pipe with every column."""
    width = terminal_width() if is_screen() else _ROOM[0][0]
    names = next(names for least, names in _ROOM if width >= least)
    several = len({origin.step.flow for origin in found if origin.step is not None}) > 1
    authors: dict[str, str] = {}
    rows = []
    for origin in found:
        if origin.run is None and origin.commit not in authors:
            authors[origin.commit] = repository.objects.author(origin.commit).name
        cells = _cells(origin, authors.get(origin.commit, ""), with_flow=several)
        rows.append([harmless(cells[name]) for name in names])
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    number = len(str(max((origin.line for origin in found), default=0)))
    for origin, row in zip(found, rows, strict=True):
        source = " ".join(padded(cell, room) for cell, room in zip(row, widths, strict=True) if room)
        text = harmless(origin.text.removesuffix("\r"))
        out_verbatim(f"{origin.commit[:8]} ({source} {origin.line:>{number}}) {text}".rstrip())


def _cells(origin: Origin, author: str, *, with_flow: bool) -> dict[str, str]:
    """The columns of a line; of one that no run wrote, its author."""
    step = origin.step
    if step is None:
        return {_RUN: with_short_ids(origin.run or ""), _STEP: author or "?", _STATION: "", _MODEL: ""}
    name = step_name(step) if with_flow else step_name(step).partition("/")[2]
    model = "" if step.model == "none" else step.model
    return {_RUN: with_short_ids(origin.run or ""), _STEP: name, _STATION: step.execution.agent, _MODEL: model}


def plain_origin(origin: Origin) -> dict[str, JsonValue]:
    return {
        "line": origin.line,
        "text": origin.text,
        "commit": origin.commit,
        "run_id": origin.run,
        "landing": origin.landing,
        "step": plain_step(origin.step) if origin.step is not None else None,
    }
