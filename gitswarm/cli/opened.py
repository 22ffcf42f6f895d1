"""What reading commands share: their arguments, the run that is meant, one entry of its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer
from pydantic import JsonValue

from gitswarm.cli.here import repository_here
from gitswarm.errors import NotFoundError
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import find_run, parsed, standing_decision
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.outcome import Result
from gitswarm.records.receipt import Receipt
from gitswarm.records.routing import Decision

RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="An id or a part of it; else the run you stand in, or the newest."),
]
StepArgument = Annotated[
    str | None,
    typer.Argument(metavar="STEP", help="step, flow/step, step@2, 7, or a commit; else the last one."),
]
RunOption = Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run; else as for `log`.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document.")]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that a command is about."""

    repository: Repository
    layout: RunLayout
    state: RunState


def open_run(run: str | None) -> Opened:
    repository = repository_here()
    layout = find_run(repository, run)
    return Opened(repository, layout, replay(repository, layout))


def step_name(record: StepRecord) -> str:
    iteration = record.execution.iteration
    return f"{record.flow}/{record.step}" + (f"@{iteration}" if iteration > 1 else "")


def step_outcome(record: StepRecord) -> str:
    return record.status.value if record.result is Result.SUCCEEDED else record.result.value


def log_entry(opened: Opened, record: StepRecord) -> dict[str, JsonValue]:
    """One entry of `log --json` (design section 8)."""
    path = record.execution.receipt
    receipt = understood(opened, record, path, Receipt.from_json)
    last = standing_decision(opened.repository, opened.layout, record.commit)
    return {
        "n": record.number,
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
        "started_at": receipt.started_at,
        "duration_ms": receipt.duration_ms,
        "tokens": record.tokens,
        "cost_usd": record.cost_usd,
        "routing": None if last is None else _routing(last),
    }


def _routing(decision: Decision) -> dict[str, JsonValue]:
    """Without `to_flow` where the next step lies in the same flow."""
    return {
        "decision": decision.decision.value,
        "to_step": decision.to_step,
        **({"to_flow": decision.to_flow} if decision.to_flow else {}),
        "routing_source": decision.routing_source.value,
        "reason": decision.reason,
    }


def understood(opened: Opened, record: StepRecord, path: str, parse: Callable[[bytes], T]) -> T:
    """A file of the step's commit, parsed.

    :raises GarbledError: it holds something else.
    """
    return parsed(parse, stored_file(opened, record, path), opened.layout, f"{record.commit[:12]}:{path}")


def stored_file(opened: Opened, record: StepRecord, path: str) -> bytes:
    content = opened.repository.objects.file(record.tree, path)
    if content is None:
        raise NotFoundError(f"{record.commit[:12]} has no {path}", hint=f"git show --stat {record.commit[:12]}")
    return content
