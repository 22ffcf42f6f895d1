"""The commits of steps that were executed beside others: which of them count for a fork that is to be carried out."""

from __future__ import annotations

from functools import reduce

from gitswarm.ledger.siblings import siblings
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord, Tally
from gitswarm.records.routing import Fork
from gitswarm.runner.session import Session
from gitswarm.runner.step.position import led_by


def fork_commit(fork: Fork) -> str:
    """Where its branches start. Every recorded decision says it."""
    if fork.commit is None:
        raise ValueError("the fork was not recorded yet")
    return fork.commit


def finished(session: Session, fork: Fork) -> dict[str, StepRecord]:
    """The fork's targets that are committed beside the branch, on it or not, by step.

    Only those of this very round: since a target was taken back, what stands is what was executed afterwards.
    """
    found: dict[str, StepRecord] = {}
    for record in siblings(session.repository, session.layout, fork_commit(fork)):
        if record.step in fork.targets and record.step not in found and _round(session, record) == fork.void:
            found[record.step] = record
    return found


def has_begun(session: Session, state: RunState, fork: Fork) -> bool:
    """Whether there is anything of the fork already, on the branch or beside it."""
    on_branch = any(record.fork == fork.commit for record in state.steps)
    return on_branch or bool(siblings(session.repository, session.layout, fork.commit))


def taken_back(session: Session, state: RunState, fork: Fork) -> tuple[str, ...]:
    """What counts no more when the fork begins anew after a rollback: all of it that is not on the branch."""
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
        base=state.base,
        tip=commit,
        tip_tree=last.tree,
        tip_events=last.execution.events,
        steps=steps,
        tally=reduce(Tally.after, steps, Tally()),
        shared=min(state.shared, number),
    )


def _round(session: Session, record: StepRecord) -> tuple[str, ...] | None:
    led = led_by(session, record).fork
    return led.void if led is not None else None
