"""What reading commands share: their arguments, the run that is meant, one entry of its log."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Struct

from gitswarm.cli.arguments import Argument, Option
from gitswarm.errors import NotARepositoryError
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.ledger.finding import find_run, parsed
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import Timing, existing, standing_after
from gitswarm.records.execution import Result

if TYPE_CHECKING:
    from pydantic import JsonValue

RunArgument = Annotated[
    str | None,
    Argument(metavar="RUN", help="An id or a part of it; else the run of this worktree, or the newest."),
]
StepArgument = Annotated[
    str | None,
    Argument(metavar="STEP", help="step, flow/step, step@2, 7, or a commit; else the last one."),
]
RunOption = Annotated[str | None, Option("--run", metavar="RUN", help="The run; else as for `log`.")]
CountOption = Annotated[
    str | None, Option("-n", "--max-count", metavar="NUMBER", help="At most this many, the newest.")
]
JsonFlag = Annotated[bool, Option("--json", help="One JSON document.")]


T = TypeVar("T")


class Opened(Struct, frozen=True):
    """A run that a command is about."""

    repository: RepositoryReader
    layout: RunLayout
    state: RunState


def folder_here() -> Path:
    """
    :raises NotARepositoryError: the folder that we stand in is gone or was thrown away.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise NotARepositoryError("the current folder no longer exists", hint="cd") from error
    if ".trash" in folder.parts and not (folder / ".git").exists():
        hint = "cd into the repository, then: git swarm list"
        raise NotARepositoryError(f"{folder} belongs to a discarded run", hint=hint)
    return folder


def reader_here() -> RepositoryReader:
    """The repository that we stand in, to read from.

    :raises NotARepositoryError: as `folder_here`, or there is none.
    """
    return open_reader(folder_here(), os.environ)


def open_run(run: str | None) -> Opened:
    repository = reader_here()
    layout = find_run(repository, run)
    return Opened(repository, layout, replay(repository, layout))


def step_name(record: StepRecord) -> str:
    iteration = record.execution.iteration
    return f"{record.flow}/{record.step}" + (f"@{iteration}" if iteration > 1 else "")


def step_outcome(record: StepRecord) -> str:
    return record.status.value if record.result is Result.SUCCEEDED else record.result.value


def log_entry(opened: Opened, record: StepRecord, took: Timing) -> dict[str, JsonValue]:
    """One entry of `log --json` (design section 8)."""
    last = standing_after(opened.repository, opened.layout, record.commit)
    return {
        "n": record.number,
        **plain_step(record),
        "started_at": took.started_at,
        "duration_ms": took.duration_ms,
        "tokens": record.tokens,
        "cost_usd": record.cost_usd,
        "routing": None if last is None else _routing(last.plain),
    }


def plain_step(record: StepRecord) -> dict[str, JsonValue]:
    """What every command says about a step in JSON."""
    return {
        "commit": record.commit,
        "flow": record.flow,
        "step": record.step,
        "iteration": record.execution.iteration,
        "agent": record.execution.agent,
        "engine": record.engine,
        "mode": record.mode,
        "model": record.model,
        "result": record.result.value,
        "status": record.status.value,
        "summary": record.summary,
    }


def _routing(decision: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Without `to_flow` where the next step lies in the same flow."""
    names = ("decision", "to_step", "to_flow", "routing_source", "reason")
    return {name: decision[name] for name in names if name != "to_flow" or decision.get(name)}


def understood(opened: Opened, record: StepRecord, path: str, parse: Callable[[bytes], T]) -> T:
    """A file of the step's commit, parsed.

    :raises GarbledError: it holds something else.
    """
    return parsed(parse, stored_file(opened, record, path), opened.layout, f"{record.commit[:12]}:{path}")


def stored_file(opened: Opened, record: StepRecord, path: str) -> bytes:
    return existing(opened.repository.objects.file(record.tree, path), record, path)
