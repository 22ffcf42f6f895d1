"""The loop: decide, execute, again."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.errors import RunInterruptedError, StorageError
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.execution import RunStatus
from gitswarm.records.routing import Action, Decision
from gitswarm.runner.deciding.preflight import allowance, within_budget
from gitswarm.runner.deciding.route import decide_next, end_of
from gitswarm.runner.run_end import RunOutcome, end_run, ending_at
from gitswarm.runner.run_processes import STATUS, Request
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.execute import execute_step
from gitswarm.runner.step.plan import Resumption, plan_step
from gitswarm.runner.undo.recovery import end_orphans, keep_partial, partial_fork, restore_worktree


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


def push_to_hub(session: Session, state: RunState, *, executes: bool = True) -> None:
    """Pushes the run, where it is leased. `executes`: this process continues it.

    :raises FencedError: another clone has taken it over: what only this one has is kept, and it stands where the hub
        stands.
    """
    leased = session.context.leased
    if leased is not None:
        from gitswarm.runner.hub.fenced import push_leased  # noqa: PLC0415 - few runs are shared

        push_leased(session, state, leased, executes=executes)
