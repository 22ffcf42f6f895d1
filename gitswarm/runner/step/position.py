"""Where a step stands in a run: the interruptions and the fork that it belongs to, and how the fork's branches
ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.errors import SwarmError
from gitswarm.ledger.events import read_lines
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.outcome import Result
from gitswarm.records.routing import TOLD, Choice, Decision, Frame, JoinOutcome
from gitswarm.routing.forks import judge
from gitswarm.routing.situation import ForkBranch
from gitswarm.runner.session import Session
from gitswarm.specs.flow import Flow, Join, Step
from gitswarm.specs.sidequest import NODE_PREFIX, SidequestStep
from gitswarm.specs.station import Station


def route_event(decision: Decision) -> Event:
    """The audit event of a decision (seed 000)."""
    return Event(EventKind.ROUTE_DECISION, decision.told())


def incoming_decision(session: Session, record: StepRecord) -> Choice:
    """The decision that led to an execution, read from its first event: the note may belong to another run.

    :raises SwarmError: its commit has no such event.
    """
    content = session.repository.objects.file(record.tree, record.execution.events) or b""
    event = _first_decision(content)
    if event is None:
        raise SwarmError(f"{record.parent[:12]} lost its decision", hint=f"git swarm rollback {record.number - 1}")
    return _choice(event)


def final_decision(session: Session, tree: str, path: str) -> tuple[str | None, Choice] | None:
    """The decision that the run ended with, and its flow, read from the events file of its `end` commit."""
    event = _first_decision(session.repository.objects.file(tree, path) or b"")
    return (event.flow_key, _choice(event)) if event is not None else None


def _first_decision(content: bytes) -> LoggedEvent | None:
    """The event of the decision that an events file starts with."""
    first = read_lines(content.partition(b"\n")[0])
    return first[0] if first and first[0].kind is EventKind.ROUTE_DECISION else None


def _choice(event: LoggedEvent) -> Choice:
    fields = {name: event.payload[name] for name in TOLD if name in event.payload}
    return Choice.model_validate({**fields, "candidates": ()})


def step_at(session: Session, flow: str, step: str, stack: tuple[Frame, ...]) -> Step:
    """A step of the flow; or, inside an interruption, of the sidequest or of the nodes that it consists of.

    :raises KeyError: there is no such step.
    """
    frame = stack[-1] if stack else None
    if frame is None or frame.kind == "flow":
        return session.specs.flows[flow].step(step)
    if frame.kind == "nodes":
        node = next(node for node in frame.nodes if NODE_PREFIX + node.id == step)
        return Step(id=step, station=node.station, objective=node.objective)
    found = _quest_step(session, frame, step)
    return Step(id=step, station=found.station, objective=found.objective)


def station_at(session: Session, step: Step, stack: tuple[Frame, ...]) -> Station | None:
    """Who executes the step: its station, with what a sidequest says about tier and turns; None for a command."""
    station = session.specs.stations.get(step.station or "")
    frame = stack[-1] if stack else None
    if station is None or frame is None or frame.kind != "sidequest":
        return station
    found = _quest_step(session, frame, step.id)
    overrides = {"tier": found.tier, "max_turns": found.max_turns}
    return station.model_copy(update={name: value for name, value in overrides.items() if value is not None})


def _quest_step(session: Session, frame: Frame, step: str) -> SidequestStep:
    quest = session.specs.sidequests[frame.id]
    names = [quest.step_name(index) for index in range(len(quest.steps))]
    return quest.steps[names.index(step)]


def newest_at(state: RunState, flow: str, targets: Iterable[str], fork: str) -> dict[str, StepRecord]:
    """The newest execution of each target, where it started from the commit `fork`."""
    found = (state.tally.steps.get((flow, target)) for target in targets)
    return {tally.newest.step: tally.newest for tally in found if tally is not None and tally.newest.fork == fork}


def branch_of(record: StepRecord) -> ForkBranch:
    waived = record.by_human and record.result is Result.SKIPPED
    return ForkBranch(record.result, record.status, record.sibling or record.commit, waived)


def joined(state: RunState, flow: Flow, step: Step) -> dict[str, StepRecord]:
    """Outcomes of the branches that a join brings together; empty if the step is no join, or nothing of its fork was
    executed.
    """
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
