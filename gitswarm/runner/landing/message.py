"""The message of a landed commit: the task, what the steps did, and where it came from."""

from __future__ import annotations

from gitswarm.ledger.landed import TRAILER
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.message import Message
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.outcome import Result
from gitswarm.records.text import shorten

_MOST_STEPS = 12
_WIDTH = 72


def landed_message(state: RunState, task: str, approved: str) -> str:
    """
    :param approved: the commit of the run that an approval is about.
    """
    records = _told(state)
    last = records[-1] if records else None
    subject = shorten(task, _WIDTH) or (shorten(f"{last.flow}: {last.summary}", _WIDTH) if last else "land a run")
    lines = [shorten(f"- {record.flow}/{record.step}: {record.summary}", _WIDTH) for record in records[-_MOST_STEPS:]]
    if len(records) > _MOST_STEPS:
        lines.insert(0, f"- {len(records) - _MOST_STEPS} steps before")
    run = state.layout.run_id
    trailers = {"Swarm-Run": run, TRAILER: f"{run} {approved}"}
    return Message(subject, "\n".join(lines), trailers).render()


def _told(state: RunState) -> list[StepRecord]:
    """The newest execution of each step that did something, in the order of those."""
    newest = {
        (record.flow, record.step): record
        for record in state.steps
        if record.result is Result.SUCCEEDED and record.engine != KERNEL
    }
    return sorted(newest.values(), key=lambda record: record.number)
