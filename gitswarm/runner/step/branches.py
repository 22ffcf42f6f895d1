"""The outcomes of the branches of a fork, read from the commits of the run."""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.outcome import Result
from gitswarm.records.routing import JoinOutcome
from gitswarm.routing.joins import judge
from gitswarm.routing.situation import ForkBranch
from gitswarm.specs.flow import Flow, Join, Step


def newest_at(state: RunState, flow: str, targets: Iterable[str], fork: str) -> dict[str, StepRecord]:
    """The newest execution of each target, where it started from the commit `fork`."""
    found = (state.tally.steps.get((flow, target)) for target in targets)
    return {tally.newest.step: tally.newest for tally in found if tally is not None and tally.newest.fork == fork}


def branch_of(record: StepRecord) -> ForkBranch:
    waived = record.by_human and record.result is Result.SKIPPED
    return ForkBranch(record.result, record.status, record.sibling or record.commit, waived)


def joined(state: RunState, flow: Flow, step: Step) -> dict[str, StepRecord]:
    """What comes together in a step; nothing if that is no join, or if nothing of its fork was executed."""
    if not isinstance(step.routing, Join) or not flow.has_step(step.id):
        return {}
    targets = step.routing.join_from
    tallies = (state.tally.steps.get((flow.id, target)) for target in targets)
    newest = max((tally.newest for tally in tallies if tally), key=lambda record: record.number, default=None)
    return newest_at(state, flow.id, targets, newest.fork) if newest is not None and newest.fork else {}


def outcome_at(state: RunState, flow: Flow, step: Step) -> JoinOutcome | None:
    """How the branches stand that come together in a step; None for any other step."""
    records = joined(state, flow, step)
    if not records or not isinstance(step.routing, Join):
        return None
    return judge(step.routing, {name: branch_of(record) for name, record in records.items()})
