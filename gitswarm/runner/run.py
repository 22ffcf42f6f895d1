"""The loop: decide, execute, again; and how a run ends."""

from __future__ import annotations

from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.message import Message
from gitswarm.ledger.state import RunState
from gitswarm.ledger.store import Draft, end_trailers
from gitswarm.records.base import timestamp
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.outcome import Result, RunStatus
from gitswarm.records.routing import Decision
from gitswarm.runner.plan import plan_step
from gitswarm.runner.route import decide_next, end_of, route_event
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step import execute_step
from gitswarm.worktree import snapshot

_END_KINDS = {
    RunStatus.SUCCEEDED: EventKind.RUN_COMPLETED,
    RunStatus.FAILED: EventKind.RUN_COMPLETED,
    RunStatus.PAUSED: EventKind.RUN_PAUSED,
    RunStatus.STOPPED: EventKind.RUN_STOPPED,
}


def carry_on(session: Session, place: Workplace, state: RunState, decision: Decision, *, resumed: bool) -> RunState:
    """Executes from `decision` until the run ends, however it ends; the state with its `end` commit."""
    observer = session.around.observer
    while True:
        observer.decided(decision)
        if decision.to_step is None:
            return end_run(session, place, state, end_of(state, decision), decision)
        if session.around.stop_requested():
            return end_run(session, place, state, RunStatus.STOPPED, decision)
        session.locks.hold_gc()
        plan = plan_step(session, place, state, decision, resumed=resumed)
        state = execute_step(session, place, plan)
        resumed = False
        observer.committed(state)
        decision = decide_next(session, state)


def end_run(session: Session, place: Workplace, state: RunState, status: RunStatus, decision: Decision) -> RunState:
    """The `end` commit: last decision and terminal event; it seals the notes of the step before it."""
    number = state.ends + 1
    events = _end_events(session, state, status, decision)
    path = session.layout.end_events(number)
    content = {path: b"".join(event.to_line() for event in events)}
    place.folder.write(content)
    blobs = session.store.stored(content)
    objects = session.repository.objects
    reason = _reason(state, status, decision)
    message = Message(f"run {status}: {reason}", reason, end_trailers(session.layout, status, number, len(events)))
    draft = Draft(
        message=message,
        author="kernel",
        code_tree=objects.with_subtree(state.tip_tree, RUNS_FOLDER, None),
        files=blobs,
        events_path=path,
    )
    after = session.store.commit(state, draft)
    snapshot.enter_in_index(place.shadow, blobs)
    for event in events:
        session.around.observer.event(event)
    return after


def _end_events(session: Session, state: RunState, status: RunStatus, decision: Decision) -> list[LoggedEvent]:
    succeeded = {(record.flow, record.step) for record in state.steps if record.result is not Result.FAILED}
    counts = {"steps_completed": len(succeeded), "total_steps_executed": len(state.steps)}
    reason = _reason(state, status, decision)
    if _END_KINDS[status] is EventKind.RUN_COMPLETED:
        error = reason if status is RunStatus.FAILED else None
        last = Event(EventKind.RUN_COMPLETED, {"status": status, "error": error, **counts})
    else:
        last = Event(_END_KINDS[status], {"reason": reason, "next_step": decision.to_step, **counts})
    now = timestamp(session.around.clock())
    return [
        LoggedEvent(
            run_id=session.layout.run_id,
            seq=seq,
            ts=now,
            kind=event.kind,
            flow_key=decision.flow_key,
            payload=dict(event.payload),
        )
        for seq, event in enumerate((route_event(decision), last), start=1)
    ]


def _reason(state: RunState, status: RunStatus, decision: Decision) -> str:
    record = state.last_step
    if status is RunStatus.FAILED and record is not None:
        return f"{record.flow}/{record.step} failed: {record.summary}"
    if status is RunStatus.STOPPED:
        return f"stopped before {decision.flow_key}/{decision.to_step}"
    return decision.reason
