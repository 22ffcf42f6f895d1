"""`compare`: runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Struct, to_builtins

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import advise, duration, hanging, money, out, out_json, out_lines, plural, table
from gitswarm.cli.report_model import RunReport
from gitswarm.cli.run_report import report_of
from gitswarm.cli.runs import JsonFlag, Opened, plain_step, reader_here, step_outcome, understood
from gitswarm.cli.terminal import terminal_width
from gitswarm.errors import UsageError
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.state import replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, spec_fields
from gitswarm.ledger.work import changed_files
from gitswarm.records.execution import FORK_OF
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import shorten

_NO_MODEL = "none"
_LABEL, _GAP, _LEAST = 10, 2, 18
"""Columns of the names of rows, between two runs, and that a run has at least."""


class Compared(Struct, frozen=True):
    opened: Opened
    report: RunReport

    @property
    def run_id(self) -> str:
        return self.report.run_id

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(step.model for step in self.opened.state.own_steps if step.model not in ("", _NO_MODEL))
        )

    @property
    def proven(self) -> int:
        return sum(1 for criterion in self.report.criteria if criterion.proof == "proven" and criterion.current)


class Parting(Struct, frozen=True):
    """Two runs with a common history. `last`: the last step of it."""

    run: str
    other: str
    last: StepRecord


class SameStep(Struct, frozen=True):
    """The step after the common history, as one of two runs executed it. Milliseconds."""

    record: StepRecord
    files: int
    insertions: int
    deletions: int
    duration_ms: int


STEP_ROWS: tuple[tuple[str, Callable[[SameStep], str]], ...] = (
    ("step", lambda step: step.record.name),
    ("engine", lambda step: f"{step.record.engine}/{step.record.mode}"),
    ("model", lambda step: step.record.model),
    ("status", lambda step: step_outcome(step.record)),
    ("code", lambda step: _changed(step.files, step.insertions, step.deletions)),
    ("time", lambda step: duration(step.duration_ms)),
    ("tokens", lambda step: str(step.record.tokens)),
    ("cost", lambda step: money(step.record.cost_usd)),
)
ROWS: tuple[tuple[str, Callable[[Compared], str]], ...] = (
    ("state", lambda run: run.report.verdict.state),
    ("task", lambda run: next(iter(run.report.task.splitlines()), "-")),
    ("flows", lambda run: " ".join(run.report.flows)),
    ("base", lambda run: run.report.base[:12]),
    ("model", lambda run: ", ".join(run.models) or "-"),
    ("code", lambda run: _code(run.report)),
    ("tests", lambda run: run.report.verdict.tests),
    ("criteria", lambda run: f"{run.proven} of {len(run.report.criteria)} proven" if run.report.criteria else "-"),
    ("doubts", lambda run: str(len(run.report.verdict.unproven))),
    ("steps", lambda run: str(run.report.verdict.steps)),
    ("off path", lambda run: plural(len(run.report.off_path), "decision")),
    ("time", lambda run: duration(run.report.verdict.duration_ms)),
    ("tokens", lambda run: str(run.report.verdict.tokens)),
    ("cost", lambda run: money(run.report.verdict.cost_usd)),
)
_ONLY_WHERE_DIFFERENT = ("task", "flows", "base", "model")


def compare(
    runs: Annotated[list[str] | None, Argument(metavar="RUN", help="Two runs or more.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Runs side by side: code, tests, criteria, time, cost."""
    repository = reader_here()
    layouts = list(dict.fromkeys(find_run(repository, run) for run in runs or ()))
    if len(layouts) < 2:
        raise UsageError("compare needs two runs", hint="git swarm list   (then: git swarm compare RUN RUN)")
    opened = [Opened(repository, layout, replay(repository, layout)) for layout in layouts]
    found = [Compared(each, report_of(each)) for each in opened]
    parted, same = _partings(opened), _same_step(opened)
    if as_json:
        plain: dict[str, JsonValue] = {
            "runs": [_plain(each) for each in found],
            "parted": [_parting(each) for each in parted],
        }
        out_json({**plain, **({"step": [_plain_step(each) for each in same]} if same else {})})
        return
    rows = [(name, [cell(run) for run in found]) for name, cell in ROWS]
    shown = [row for row in rows if row[0] not in _ONLY_WHERE_DIFFERENT or len(set(row[1])) > 1]
    names = [run.report.name for run in found]
    _show(names, shown)
    if same:
        _show(names, [(name, [cell(each) for each in same]) for name, cell in STEP_ROWS])
    for each in parted:
        where = f"{each.run} and {each.other} parted after {each.last.name} (#{each.last.number})"
        out_lines(hanging("", where))
    advise(f"git swarm diff {found[0].run_id} {found[1].run_id}")


def _show(names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Prints as many runs side by side as there is room for, and the others below them."""
    room = terminal_width() - _LABEL
    most = max(room // _LEAST, 1)
    for first in range(0, len(names), most):
        some = names[first : first + most]
        wide = room // len(some) - _GAP
        cells = [(name, *(shorten(cell, wide) for cell in row[first : first + most])) for name, row in rows]
        if first:
            out()
        table(("", *some), cells)


def _code(report: RunReport) -> str:
    changes = report.changes
    return _changed(len(changes.files), changes.insertions, changes.deletions)


def _changed(files: int, insertions: int, deletions: int) -> str:
    return f"{plural(files, 'file')}, +{insertions} -{deletions}" if files else "no changes"


def _partings(runs: Sequence[Opened]) -> list[Parting]:
    """Of each run but the first, with the one before it that it has most in common with."""
    found = []
    for index, run in enumerate(runs):
        common = [(_shared(run, other), other) for other in runs[:index]]
        steps, other = max(common, key=lambda each: each[0], default=(0, run))
        if steps:
            found.append(Parting(other.layout.run_id, run.layout.run_id, run.state.steps[steps - 1]))
    return found


def _shared(run: Opened, other: Opened) -> int:
    """How many steps both have."""
    pairs = enumerate(zip(run.state.steps, other.state.steps, strict=False))
    shortest = min(len(run.state.steps), len(other.state.steps))
    return next((number for number, (one, two) in pairs if one.commit != two.commit), shortest)


def _same_step(runs: Sequence[Opened]) -> list[SameStep]:
    """The step after the common history of two runs, where it is the same one; else nothing."""
    if len(runs) != 2:
        return []
    shared = _shared(*runs)
    if not shared and not any(_is_fork_of(*pair) for pair in (runs, runs[::-1])):
        return []
    records = [run.state.steps[shared] for run in runs if len(run.state.steps) > shared]
    if len({record.execution.name for record in records}) != 1 or len(records) != 2:
        return []
    return [_as_executed(run, record) for run, record in zip(runs, records, strict=True)]


def _is_fork_of(run: Opened, other: Opened) -> bool:
    """Whether a run is a fork of another one, at its base."""
    return spec_fields(run.repository, run.state).initiator == f"{FORK_OF}{other.layout.run_id}"


def _as_executed(run: Opened, record: StepRecord) -> SameStep:
    files = changed_files(run.repository, record.parent, record.commit)
    took = understood(run, record, record.execution.receipt, Timing.from_json)
    added, deleted = (sum(getattr(file, name) or 0 for file in files) for name in ("insertions", "deletions"))
    return SameStep(record, len(files), added, deleted, took.duration_ms)


def _plain_step(step: SameStep) -> dict[str, JsonValue]:
    counts: dict[str, JsonValue] = to_builtins(step)
    del counts["record"]
    record = step.record
    return {**plain_step(record), **counts, "tokens": record.tokens, "cost_usd": record.cost_usd}


def _plain(run: Compared) -> dict[str, JsonValue]:
    report = run.report
    verdict = {name: value for name, value in to_builtins(report.verdict).items() if name != "unproven"}
    return {
        "run_id": report.run_id,
        "task": report.task,
        "flows": list(report.flows),
        "base": report.base,
        "tip": report.tip,
        **verdict,
        "models": list(run.models),
        "files": len(report.changes.files),
        "insertions": report.changes.insertions,
        "deletions": report.changes.deletions,
        "criteria": len(report.criteria),
        "criteria_proven": run.proven,
        "unproven": [to_builtins(each) for each in report.verdict.unproven],
        "off_path": [to_builtins(each) for each in report.off_path],
    }


def _parting(parting: Parting) -> dict[str, JsonValue]:
    last = parting.last
    return {
        "runs": [parting.run, parting.other],
        "n": last.number,
        "commit": last.commit,
        "flow": last.flow,
        "step": last.step,
        "iteration": last.execution.iteration,
    }
