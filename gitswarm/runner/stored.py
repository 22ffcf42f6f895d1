"""What commits of a run hold, read again: envelopes, evidence, decisions, forks, what is open, texts of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from gitswarm.errors import SwarmError
from gitswarm.evidence.declarations import CaseCounts, TextChange, compare_cases
from gitswarm.git.objects import Objects
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.next_command import is_played
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern, StepRecord
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.evidence import Concern, DiffSummary, Evidence
from gitswarm.records.execution import Result
from gitswarm.records.routing import AUDITED, Choice, Decision, Frame, JoinOutcome
from gitswarm.routing.choices import ForkBranch
from gitswarm.routing.forks import judge
from gitswarm.runner.run_session import Session
from gitswarm.specs.flow import Flow, Join, Step
from gitswarm.specs.sidequest import NODE_PREFIX
from gitswarm.specs.station import Station

T = TypeVar("T")


def envelope_of(session: Session, record: StepRecord) -> Envelope | None:
    """
    :raises CorruptError: it is not what git-swarm wrote there.
    """
    return _read_record(session, record, record.execution.envelope, Envelope.from_json)


def evidence_of(session: Session, record: StepRecord) -> Evidence | None:
    """
    :raises CorruptError: as `envelope_of`.
    """
    return _read_record(session, record, record.execution.evidence, Evidence.from_json)


def _read_record(session: Session, record: StepRecord, path: str, parse: Callable[[bytes], T]) -> T | None:
    content = session.repository.objects.file(record.tree, path)
    return parsed(parse, content, session.layout, f"{record.commit[:12]}:{path}") if content is not None else None


def was_played(session: Session, state: RunState) -> bool:
    """Whether something in the run is not what a model or the project itself did."""
    return session.spec.scripted or is_played(state)


def is_rehearsal(session: Session, state: RunState) -> bool:
    """Whether the run is one that can neither be approved nor land."""
    return was_played(session, state) and not session.spec.allow_stub


def open_concerns(session: Session, state: RunState, *, blocking: bool = False) -> tuple[Concern, ...]:
    """The oldest first.

    :param blocking: only those that keep the run from being proven.
    """
    chosen = state.blocking if blocking else state.concerns
    return tuple(stored_concern(session, concern) for concern in chosen)


def stored_concern(session: Session, concern: OpenConcern) -> Concern:
    """What the evidence of the step that opened it says of a concern."""
    evidence = evidence_of(session, concern.opened_by)
    for each in evidence.opened if evidence is not None else ():
        if each.id == concern.id:
            return each
    return Concern(id=concern.id, flag=concern.id.partition("@")[0], blocking=concern.blocking, fact="")


def cases_between(objects: Objects, before: str, after: str, diff: DiffSummary) -> CaseCounts:
    """Declared test cases of the files in `diff`, which is the difference of these two trees."""
    return compare_cases(text_changes(objects, before, after, diff))


def text_changes(objects: Objects, before: str, after: str, diff: DiffSummary) -> Iterator[TextChange]:
    """Binary files are left out."""
    for changed in diff.files:
        if changed.insertions is not None:
            old = text_of(objects, before, changed.old_path or changed.path)
            yield TextChange(changed.path, old, text_of(objects, after, changed.path), changed.old_path)


def text_of(objects: Objects, tree: str, path: str) -> str | None:
    """None: there is no such file."""
    content = objects.file(tree, path)
    return content.decode(errors="replace") if content is not None else None


def entry_at(objects: Objects, tree: str, path: str) -> tuple[str, int] | None:
    """Id and mode of what lies at a path of a tree; None: nothing does."""
    folder, _slash, name = path.rpartition("/")
    above = objects.entry(tree, folder) if folder else tree
    if above is None or (folder and not objects.is_folder(tree, folder)):
        return None
    return objects.entries(above).get(name)


def route_event(decision: Decision) -> Event:
    """The audit event of a decision (seed 000)."""
    return Event(EventKind.ROUTE_DECISION, decision.audit_fields())


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
    fields = {name: event.payload[name] for name in AUDITED if name in event.payload}
    return Choice.from_plain({**fields, "candidates": ()})


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
    found = session.specs.sidequests[frame.id].step_of(step)
    return Step(id=step, station=found.station, objective=found.objective)


def station_at(session: Session, step: Step, stack: tuple[Frame, ...]) -> Station | None:
    """Who executes the step: its station, with what a sidequest says about tier and turns; None for a command."""
    station = session.specs.stations.get(step.station or "")
    frame = stack[-1] if stack else None
    if station is None or frame is None or frame.kind != "sidequest":
        return station
    found = session.specs.sidequests[frame.id].step_of(step.id)
    overrides = {"tier": found.tier, "max_turns": found.max_turns}
    return replace(station, **({name: value for name, value in overrides.items() if value is not None}))


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
