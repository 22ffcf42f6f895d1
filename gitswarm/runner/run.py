"""The loop: decide, execute, again; and how a run ends."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import RunInterruptedError, StorageError
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.store import end_trailers
from gitswarm.records.event import ANNOUNCED, END_KINDS, Event, EventKind, LoggedEvent, numbered
from gitswarm.records.execution import Result, RunStatus
from gitswarm.records.receipt import PartialHandoff
from gitswarm.records.record import timestamp
from gitswarm.records.routing import Action, Decision
from gitswarm.runner.deciding.preflight import allowance, within_budget
from gitswarm.runner.deciding.route import decide_next, end_of
from gitswarm.runner.run_processes import STATUS, Request, end_orphans
from gitswarm.runner.run_session import Session, push_to_hub
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.execute import execute_step
from gitswarm.runner.step.plan import Resumption, plan_step
from gitswarm.runner.step.render import proposal_file
from gitswarm.runner.stored import route_event
from gitswarm.runner.undo.recovery import keep_partial, partial_fork, partial_path, restore_worktree


def carry_on(
    session: Session, worktree: RunWorktree, state: RunState, decision: Decision, resumption: Resumption | None = None
) -> RunState:
    """Executes from `decision` until the run ends, however it ends; the state with its `end` commit."""
    push_to_hub(session, state)
    reached = state
    try:
        while True:
            decision = within_budget(session, reached, decision)
            session.context.observer.decided(decision)
            ending = _end_here(session, reached, decision, executed=reached is not state)
            if ending is not None:
                return end_run(session, worktree, reached, ending)
            session.locks.hold_gc()
            if decision.decision is Action.FORK:
                from gitswarm.runner.branching import execute_fork  # noqa: PLC0415 - few flows fork

                branched = execute_fork(session, worktree, reached, decision, resumption)
                reached = branched.state
                resumption = None if branched.executed else resumption
            else:
                plan = plan_step(session, worktree, reached, decision, resumption)
                allowed = allowance(session, reached, plan.flow.id, {plan.step.id: decision})
                plan = replace(plan, allowed=allowed[plan.step.id])
                if plan.step.is_kernel:
                    from gitswarm.runner.operations.catalog import execute_kernel_step  # noqa: PLC0415 - as above

                    reached = execute_kernel_step(session, worktree, plan)
                else:
                    reached = execute_step(session, worktree, plan)
                resumption = None
            session.context.observer.committed(reached)
            decision = decide_next(session, reached)
            push_to_hub(session, reached)
    except RunInterruptedError:
        # Ended below: as long as an exception is handled, its traceback holds on to locks that it came out of.
        pass
    except (OSError, StorageError) as error:
        error.add_note(f"git swarm resume {session.layout.run_id}")
        raise
    finally:
        for thread in session.removing:
            thread.join()
    return _end_now(session, worktree, reached, decision)


def _end_here(session: Session, state: RunState, decision: Decision, *, executed: bool) -> RunOutcome | None:
    """Whether the run ends at this boundary: by its decision, because a person asked, because of `--until`."""
    if decision.to_step is None:
        return RunOutcome(end_of(decision), decision)
    if session.context.stop_requested():
        return RunOutcome(RunStatus.STOPPED, decision, asked="Ctrl-C")
    request = session.requests.read()
    if request is not None:
        return RunOutcome(STATUS[request.kind], decision, asked=request.reason)
    last = state.last_step
    again = decision.fork.pending if decision.fork is not None else (decision.to_step,)
    if decision.findings and last is not None and last.step in again:
        return None  # the step is not over: what was found in its work sends it back
    until = session.context.until
    if executed and last is not None and until in (last.step, last.execution.name):
        return RunOutcome(RunStatus.STOPPED, decision, asked=f"--until {until}")
    return None


def _end_now(session: Session, worktree: RunWorktree, state: RunState, decision: Decision) -> RunState:
    """Ends the run in the middle of a step. What was paid for is finished; what was not stays in the worktree."""
    end_orphans(session)
    finished = session.store.finish_next(replay(session.repository, session.layout))
    if finished.tip != state.tip:
        restore_worktree(session, finished)
        return end_run(session, worktree, finished, ending_at(session, finished, _request(session)))
    if decision.decision is Action.FORK:
        partial = partial_fork(session, finished)
        worktree = restore_worktree(session, finished)
    else:
        partial = keep_partial(session, worktree, finished)
    request = _request(session)
    return end_run(session, worktree, finished, RunOutcome(STATUS[request.kind], decision, partial, request.reason))


def _request(session: Session) -> Request:
    """What was asked for when the step was cut off."""
    return session.requests.read() or Request(kind=session.context.cut_off_means, reason="ended by a signal")


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
    """A run that comes to its end has succeeded only if nothing that blocks is open."""
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
