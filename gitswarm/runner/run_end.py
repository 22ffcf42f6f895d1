"""How a run ends."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.state import RunState
from gitswarm.ledger.store import end_trailers
from gitswarm.records.event import ANNOUNCED, END_KINDS, Event, EventKind, LoggedEvent, numbered
from gitswarm.records.execution import Result, RunStatus
from gitswarm.records.receipt import PartialHandoff
from gitswarm.records.record import timestamp
from gitswarm.records.routing import Decision
from gitswarm.runner.deciding.route import decide_next, end_of
from gitswarm.runner.run_processes import STATUS, Request
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.render import proposal_file
from gitswarm.runner.stored import route_event
from gitswarm.runner.undo.recovery import partial_path


class RunOutcome(Struct, frozen=True):
    """How a run ends, before which decision, and what an interrupted step left. `asked`: what somebody did to have it
    end; None: it ends by itself."""

    status: RunStatus
    decision: Decision
    partial: PartialHandoff | None = None
    asked: str | None = None


def ending_at(session: Session, state: RunState, request: Request) -> RunOutcome:
    """The end at a boundary, as a person requested. With nothing left to execute a run ends as it would by itself:
    after another end `resume` would execute its last step again."""
    decision = decide_next(session, state)
    if decision.to_step is None:
        return RunOutcome(end_of(decision), decision)
    return RunOutcome(STATUS[request.kind], decision, asked=request.reason)


def end_run(session: Session, worktree: RunWorktree, state: RunState, ending: RunOutcome) -> RunState:
    """The `end` commit: last decision and terminal event; it seals the notes of the step before it."""
    ending = replace(ending, status=_proven(state, ending.status))
    status = ending.status
    number = state.ends + 1
    events = _end_events(session, state, ending)
    path = session.layout.end_events(number)
    content = {path: b"".join(event.to_line() for event in events)}
    if ending.decision.proposal is not None:
        content.update(proposal_file(session.layout.run_id, ending.decision.proposal))
    if ending.partial is not None:
        content[partial_path(session, ending.partial.flow_key)] = ending.partial.to_json()
    reason = _reason(state, ending)
    message = CommitMessage(
        f"run {status}: {reason}", reason, end_trailers(session.layout, status, number, len(events))
    )
    staged = session.store.stage(message, state.tip_tree, content)
    worktree.folder.write(staged.contents)
    after = session.store.commit(state, staged)
    session.requests.clear()
    worktree.index.begin_aligning(after.tip_tree, staged.files)
    worktree.index.leave()
    for event in events:
        session.context.observer.event(event)
    return after


def _proven(state: RunState, status: RunStatus) -> RunStatus:
    """The status of a run without a next step: it has succeeded only if nothing that blocks is open."""
    if status not in (RunStatus.SUCCEEDED, RunStatus.UNPROVEN):
        return status
    return RunStatus.UNPROVEN if state.blocking else RunStatus.SUCCEEDED


def _end_events(session: Session, state: RunState, ending: RunOutcome) -> list[LoggedEvent]:
    status, decision = ending.status, ending.decision
    succeeded = {(record.flow, record.step) for record in state.steps if record.result is not Result.FAILED}
    counts = {"steps_completed": len(succeeded), "total_steps_executed": len(state.steps)}
    reason = _reason(state, ending)
    if END_KINDS[status] is EventKind.RUN_COMPLETED:
        error = reason if status is not RunStatus.SUCCEEDED else None
        result = RunStatus.FAILED if status is RunStatus.UNPROVEN else status
        last = Event(EventKind.RUN_COMPLETED, {"status": result, "error": error, **counts})
    else:
        last = Event(END_KINDS[status], {"reason": reason, "next_step": decision.to_step, **counts})
    asked = [Event(kind, {"reason": ending.asked}) for kind, end in ANNOUNCED.items() if end is last.kind]
    announced = asked if ending.asked is not None and state.format > 1 else []
    brought = decision.events if decision.to_step is None else ()  # else with the step
    events = (route_event(decision), *brought, *announced, last)
    return numbered(session.layout.run_id, timestamp(session.context.clock()), events, decision.flow_key)


def _reason(state: RunState, ending: RunOutcome) -> str:
    status, decision = ending.status, ending.decision
    record = state.last_step
    if ending.partial is not None:
        return ending.partial.summary
    if status is RunStatus.FAILED and record is not None and record.result is Result.FAILED:
        return f"{record.execution.name} failed: {record.summary}"
    if status is RunStatus.UNPROVEN:
        return f"not proven: {', '.join(concern.id for concern in state.blocking)}"
    if status is RunStatus.STOPPED:
        return f"stopped before {decision.next_flow}/{decision.to_step}"
    if status is RunStatus.PAUSED and decision.to_step is not None:
        return f"paused before {decision.next_flow}/{decision.to_step}"
    return decision.reason
