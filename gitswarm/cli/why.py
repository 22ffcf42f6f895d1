"""`why`: which step wrote a line, what it answered, and what shows that it is right; `blame`: every line of a
file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import (
    advise,
    err,
    field,
    harmless,
    money,
    next_lines,
    out,
    out_json,
    out_lines,
    out_verbatim,
    padded,
    with_short_ids,
)
from gitswarm.cli.runs import JsonFlag, Opened, RunOption, executed_by, plain_step, reader_here
from gitswarm.cli.terminal import is_screen, terminal_width
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import newest_landing
from gitswarm.ledger.archive import discarded_runs
from gitswarm.ledger.blame import Origin, origins
from gitswarm.ledger.finding import all_runs, find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import current_decision, step_files
from gitswarm.ledger.state import replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import command_summary, evidence_of_command, is_of_tests
from gitswarm.records.execution import RUN_ID
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Action
from gitswarm.records.text import columns, shorten

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
        files = [layout for layout in all_runs(repository) if _has(repository, layout, path, None)]
        runs = [layout for layout in files if _has(repository, layout, path, line)]
        if not runs and files and not _is_in_head(repository, path):
            return origins(repository, files[0].branch, path, line)  # which says how many lines it has
        if not runs:
            raise
    where = file if line is None else f"{file}:{line}"
    others = f", and {len(runs) - 1} older ones have it" if len(runs) > 1 else ""
    err(f"{where} is not in HEAD; this is how {runs[0].run_id} has it{others}")
    advise(f"git swarm {command} {_typed(where)} --run {runs[0].run_id}")
    return origins(repository, runs[0].branch, path, line)


def file_and_line(what: str, command: str) -> tuple[str, int | None]:
    """
    :raises UsageError: lines are counted from 1.
    """
    file, colon, number = what.rpartition(":")
    if not colon or not number.isdecimal() or Path(what).exists():
        return what, None
    if not int(number):
        raise UsageError(f"{what}: lines are counted from 1", hint=f"git swarm {command} {_typed(file)}:1")
    return file, int(number)


def _typed(file: str) -> str:
    """A file as it is typed behind a command: its name may begin as an option does."""
    return shlex.quote(f"./{file}" if file.startswith("-") else file)


def from_the_top(repository: RepositoryReader, file: str) -> str:
    if repository.checkout is None:
        return file
    return os.path.relpath(Path.cwd().resolve() / file, repository.checkout.resolve())


def _has(repository: RepositoryReader, layout: RunLayout, path: str, line: int | None) -> bool:
    tip = repository.refs.read(layout.branch)
    content = repository.objects.file(repository.objects.commit(tip).tree, path) if tip is not None else None
    return content is not None and (line or 0) <= len(content.splitlines())


def _is_in_head(repository: RepositoryReader, path: str) -> bool:
    return repository.objects.file(repository.objects.commit(repository.resolve("HEAD")).tree, path) is not None


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
    name = step.name if with_flow else step.name.partition("/")[2]
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


_BACK = (Action.LOOP, Action.REPEAT, Action.BRANCH)


class Answered(Struct, frozen=True):
    """The step whose findings had this one executed again, and what it found."""

    step: str
    found: tuple[str, ...]


class StepOrigin(Struct, frozen=True):
    """All that is known of a step that wrote lines. `run`: the one that is here with its number, a fork where the
    step's own is gone; `number` None: there is none. `tested`: the next test run of it, and what it said."""

    record: StepRecord
    run: str = ""
    number: int | None = None
    answered: Answered | None = None
    tested: tuple[str, str] | None = None


def why(
    what: Annotated[str, Argument(metavar="FILE[:LINE]", help="A line of a file; without LINE as `blame`.")],
    run: RunOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Which step wrote a line, what it answered, and what shows that it is right."""
    repository = reader_here()
    file, line = file_and_line(what, "why")
    found = lines_of(repository, file, line, run, command="why")
    if as_json:
        reasons = _reasons(repository, found)
        out_json([_plain(origin, reasons) for origin in found])
    elif line is None:
        show_lines(repository, found)
    else:
        _show_line(repository, file, found[0], _reasons(repository, found))


def _reasons(repository: RepositoryReader, found: Iterable[Origin]) -> dict[str, StepOrigin]:
    """Why steps were executed, by their commits."""
    runs = {layout.run_id: layout for layout in all_runs(repository)}
    steps = {origin.step.commit: origin.step for origin in found if origin.step is not None}
    reasons = {commit: StepOrigin(record) for commit, record in steps.items()}
    for commit, step in steps.items():
        layout = runs.get(step.execution.run_id) or _fork_with(repository, commit)
        if reasons[commit].number is not None or layout is None:
            continue
        opened = Opened(repository, layout, replay(repository, layout))
        for record in opened.state.steps:
            if record.commit in reasons:
                reasons[record.commit] = _reason(opened, record)
    return reasons


def _fork_with(repository: RepositoryReader, commit: str) -> RunLayout | None:
    """A run that was forked behind a step of another one, which is gone."""
    prefix = RunLayout("").branch
    listed = repository.git.run("for-each-ref", f"--contains={commit}", "--format=%(refname)", prefix)
    runs = (name.removeprefix(prefix) for name in listed.stdout.decode().splitlines())
    return next((RunLayout(run) for run in runs if RUN_ID.fullmatch(run)), None)


def _reason(opened: Opened, record: StepRecord) -> StepOrigin:
    run = opened.layout.run_id
    return StepOrigin(record, run, record.number, _answered(opened, record), _tested(opened, record))


def _tested(opened: Opened, record: StepRecord) -> tuple[str, str] | None:
    """The next test run, and what it said."""
    for each in opened.state.steps[record.number :]:
        evidence = evidence_of_command(opened.repository, opened.state, each)
        if evidence is not None and is_of_tests(opened.repository, opened.state, each, evidence):
            return each.name, command_summary(each, evidence)
    return None


def _answered(opened: Opened, record: StepRecord) -> Answered | None:
    """What sent the run back to this step."""
    if record.number < 2 or record.execution.iteration < 2:
        return None
    before = opened.state.steps[record.number - 2]
    decision = current_decision(opened.repository, opened.layout, before.commit)
    if decision is None or decision.decision not in _BACK or decision.to_step != record.step:
        return None
    (stored,) = step_files(opened.repository, opened.state, [before])
    concerns = stored.envelope.concerns if stored.envelope is not None else ()
    facts = [concern.fact for concern in stored.evidence.opened] if stored.evidence is not None else []
    return Answered(before.name, tuple(dict.fromkeys((before.summary, *concerns, *facts))))


def _show_line(repository: RepositoryReader, file: str, origin: Origin, reasons: dict[str, StepOrigin]) -> None:
    out(f"{from_the_top(repository, file)}:{origin.line}  {shorten(origin.text, 200)}")
    if origin.step is not None:
        _show_step(reasons[origin.step.commit])
    elif origin.run is None:
        message = repository.objects.commit(origin.commit).message
        out_lines(field("commit", f"{origin.commit[:12]}: {_first(message)}"))
        out_lines(field("by", f"{repository.objects.author(origin.commit).name}, no run wrote it"))
        _hint_at_runs(repository, file, origin.line)
        return
    if origin.landing is not None:
        out_lines(field("landed", f"{origin.run} as {origin.landing[:12]}"))
    if origin.step is None and origin.run is not None:
        _show_missing(repository, origin.run)
    elif (
        origin.step is not None
        and reasons[origin.step.commit].number is None
        and origin.run in {layout.run_id for layout in discarded_runs(repository)}
    ):
        out_lines(field("discarded", "in the trash, with what this answered, its tests and evidence"))
        out_lines(next_lines(f"  {'restore':<9} ", f"git swarm discard --restore {origin.run}"))


def _hint_at_runs(repository: RepositoryReader, file: str, line: int) -> None:
    """The newest run that changed the file and has not landed."""
    path = from_the_top(repository, file)
    for layout in all_runs(repository):
        tip = repository.refs.read(layout.branch)
        if tip is None or repository.objects.entry(repository.objects.commit(tip).tree, path) is None:
            continue
        state = replay(repository, layout)
        before, after = repository.objects.commit(state.base).tree, state.tip_tree
        is_changed = repository.objects.entry(before, path) != repository.objects.entry(after, path)
        if is_changed and newest_landing(repository, state) is None:
            err(f"{layout.run_id} changed {path} and has not landed")
            advise(f"git swarm why {_typed(f'{file}:{line}')} --run {layout.run_id}")
            return


def _show_missing(repository: RepositoryReader, run: str) -> None:
    if run in {layout.run_id for layout in all_runs(repository)}:
        out_lines(field("step", "none: the line comes from merging the run with its target"))
        return
    out_lines(field("step", "not known: the commits of the run are not here"))
    refs = (f"refs/heads/shadow/{run}", f"refs/swarm/{run}/*", f"refs/notes/swarm/{run}/*")
    out("  fetch     git fetch origin \\")
    for name in refs:
        out(f"      '{name}:{name}'" + ("" if name is refs[-1] else " \\"))


def _show_step(reason: StepOrigin) -> None:
    record = reason.record
    number = f" (#{reason.number})" if reason.number is not None else ""
    out_lines(field("step", f"{record.name}, commit {record.commit[:12]}{number}"))
    out_lines(field("by", executed_by(record)))
    out_lines(field("summary", f"{record.status.value}: {_first(record.summary)}"))
    if reason.answered is not None:
        for index, fact in enumerate(reason.answered.found):
            text = f"{reason.answered.step}: {fact}" if not index else fact
            out_lines(field("" if index else "answers", text))
    if reason.tested is not None:
        out_lines(field("tests", f"{reason.tested[1]} ({reason.tested[0]})"))
    out_lines(field("cost", f"{record.tokens} tokens, {money(record.cost_usd)}"))
    if reason.number is not None:
        out(f"  evidence  git swarm show {reason.number} --run {reason.run}")


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _plain(origin: Origin, reasons: dict[str, StepOrigin]) -> dict[str, JsonValue]:
    reason = reasons.get(origin.step.commit) if origin.step is not None else None
    step: dict[str, JsonValue] | None = None
    if reason is not None:
        answered = reason.answered
        step = {
            "n": reason.number,
            **plain_step(reason.record),
            "tokens": reason.record.tokens,
            "cost_usd": reason.record.cost_usd,
            "answers": {"step": answered.step, "found": list(answered.found)} if answered is not None else None,
            "tests": {"step": reason.tested[0], "summary": reason.tested[1]} if reason.tested is not None else None,
        }
    return {**plain_origin(origin), "step": step}
