"""The commits of parallel steps: which of them count for a fork that is to be executed."""

from __future__ import annotations

from functools import reduce

from gitswarm.ledger.siblings import siblings
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord, Tally
from gitswarm.records.routing import ForkState
from gitswarm.runner.session import Session
from gitswarm.runner.step.position import incoming_decision


def fork_commit(fork: ForkState) -> str:
    """Where its branches start. Every recorded decision says it."""
    if fork.commit is None:
        raise ValueError("the fork was not recorded yet")
    return fork.commit


def finished(session: Session, fork: ForkState) -> dict[str, StepRecord]:
    """The fork's targets that have a commit of their own, by step, whether it was replayed on the branch or not.

    Only those of the same round: after a rollback of a target only later executions count.
    """
    found: dict[str, StepRecord] = {}
    for record in siblings(session.repository, session.layout, fork_commit(fork)):
        if record.step in fork.targets and record.step not in found and _round(session, record) == fork.void:
            found[record.step] = record
    return found


def has_begun(session: Session, state: RunState, fork: ForkState) -> bool:
    """Whether any step of the fork was committed, on the branch or not."""
    on_branch = any(record.fork == fork.commit for record in state.steps)
    return on_branch or bool(siblings(session.repository, session.layout, fork.commit))


def taken_back(session: Session, state: RunState, fork: ForkState) -> tuple[str, ...]:
    """Commits that no longer count when the fork begins again after a rollback: all that are not on the branch."""
    standing = {record.sibling for record in state.steps}
    known = siblings(session.repository, session.layout, fork.commit) if fork.commit else []
    gone = (record.commit for record in known if record.commit not in standing)
    return tuple(dict.fromkeys((*fork.void, *gone)))


def state_at(session: Session, state: RunState, commit: str) -> RunState:
    """The run as it was when `commit` was its tip."""
    if commit == state.tip:
        return state
    number = next((record.number for record in state.steps if record.commit == commit), None)
    if number is None:
        return replay(session.repository, session.layout, commit)
    steps = state.steps[:number]
    last = steps[-1]
    return RunState(
        layout=state.layout,
        run_commit=state.run_commit,
        ground=state.ground,
        tip=commit,
        tip_tree=last.tree,
        tip_events=last.execution.events,
        steps=steps,
        tally=reduce(Tally.after, steps, Tally()),
        shared=min(state.shared, number),
        format=state.format,
    )


def _round(session: Session, record: StepRecord) -> tuple[str, ...] | None:
    fork = incoming_decision(session, record).fork
    return fork.void if fork is not None else None
