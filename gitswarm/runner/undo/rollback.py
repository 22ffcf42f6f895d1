"""Moves a run's branch: to an earlier step and back, or onto a new base; what goes is kept under `rollback/<n>`."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.merging import write_copies
from gitswarm.ledger.reading import current_decision, decisions
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import DecisionOrigin
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import prepare_worktree
from gitswarm.runner.undo.recovery import (
    Leftover,
    Restoring,
    SetAsideReason,
    look,
    lost_to,
    retire_sides,
    set_aside_before,
)
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import Shadow, find_shadow

ROLLED_BACK = "rollback"


def keep_rolled_back(session: Session, went: RunState, target: str) -> str:
    """Keeps commits that somebody took off the branch, as `rollback` would have; `rollback --undo` brings them back.

    :param went: the run as it was before.
    """
    trailers = {"Swarm-Reason": ROLLED_BACK, "Swarm-Target": target}
    tree = session.repository.objects.commit(went.tip).tree
    kept = session.store.set_aside(went, tree, f"moved back by hand to {target[:12]}", trailers)
    session.store.supersede(target, kept, f"moved back to here by hand: what followed is kept in {kept}")
    return kept


UNDONE = "rollback undone"


class RollbackPlan(Struct, frozen=True):
    """What a rollback would do. `files` change in the code; `dirty` are uncommitted and would be kept aside;
    `overwritten` are ignored files that the target has under version control, kept aside too. `left`: the worktree as
    it was seen; looking through a big one again takes as long as restoring it."""

    target: str
    target_name: str
    undone: tuple[StepRecord, ...]
    files: tuple[str, ...]
    dirty: tuple[str, ...]
    overwritten: tuple[str, ...]
    left: Leftover

    @property
    def is_nothing(self) -> bool:
        """Whether nothing would be undone, changed or set aside."""
        return not (self.undone or self.files or self.dirty or self.overwritten or self.left.journals)


class RolledBack(Struct, frozen=True):
    """`kept` is the ref under which everything that went can be reached."""

    state: RunState
    kept: str


def plan_rollback(session: Session, state: RunState, target: StepRecord | None) -> RollbackPlan:
    """
    :param target: the step that becomes the last one; None: before the first of the run's own.
    :raises SwarmError: the step belongs to the run that this one was forked from, or it would delete a repository
        that git ignores.
    """
    commit = _commit_after(state, target)
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    repository = session.repository
    code, clean = session.store.code(repository.objects.commit(commit).tree), session.store.code(state.tip_tree)
    undone = state.steps[target.number if target else state.shared :]
    return RollbackPlan(
        target=commit,
        target_name=f"{target.execution.name}@{target.execution.iteration}" if target else "the start",
        undone=undone,
        files=tuple(delta.path for delta in repository.diffs.between(clean, code)),
        dirty=tuple(delta.path for delta in repository.diffs.between(clean, left.code)),
        overwritten=tuple(lost_to(shadow, code)),
        left=left,
    )


def _commit_after(state: RunState, target: StepRecord | None) -> str:
    """The run's own commit in which the code is as after `target`; a fork's first one is as its last shared step."""
    if target is None or target.number == state.shared:
        return state.run_commit
    if target.number < state.shared:
        last = state.steps[state.shared - 1]
        raise SwarmError(
            f"{state.layout.run_id} was forked after {last.execution.name}: it cannot be rolled back further",
            hint=f"git swarm fork {target.number} --run {state.layout.run_id}",
        )
    return target.commit


def roll_back(session: Session, state: RunState, plan: RollbackPlan) -> RolledBack:
    """Keeps, moves the branch, restores the worktree, marks the decisions; safe to repeat after a crash.

    :param plan: made just now, under the same lock.
    """
    shadow = prepare_worktree(session)
    left = look(session, state, shadow) if retire_sides(session, state) else plan.left
    trailers = {"Swarm-Reason": ROLLED_BACK, "Swarm-Target": plan.target}
    reason = SetAsideReason(f"before the rollback to {plan.target_name}", trailers)
    tree = session.repository.objects.commit(plan.target).tree
    kept = _keep(session, state, shadow, left, Restoring(tree, reason))
    after = _move(session, state, plan.target)
    snapshot.restore(shadow, tree, session.layout.base)
    what = f"rolled back to here: what followed is kept in {kept}"
    session.store.supersede(plan.target, kept, what)
    return RolledBack(after, kept)


class LastRollback(Struct, frozen=True):
    """A rollback that was not undone: what it kept, where it started, where it led."""

    kept: str
    old_tip: str
    target: str


def last_rollback(session: Session, state: RunState) -> LastRollback:
    """
    :raises NotFoundError: there was none, or all were undone.
    """
    store = session.store
    undone = {trailers.get("Swarm-Undoes") for _name, trailers in store.kept_work()}
    for name, trailers in reversed(store.kept_work()):
        if trailers.get("Swarm-Reason") == ROLLED_BACK and name not in undone:
            kept = session.repository.refs.read(name) or ""
            return LastRollback(name, session.repository.objects.commit(kept).parents[0], trailers["Swarm-Target"])
    raise NotFoundError(f"{state.layout.run_id} has no rollback to undo", hint=f"git swarm log {state.layout.run_id}")


def undo_rollback(session: Session, state: RunState) -> RolledBack:
    """Back to exactly the state before the last rollback, uncommitted files included.

    :raises NotFoundError: nothing to undo.
    """
    last = last_rollback(session, state)
    objects = session.repository.objects
    shadow = prepare_worktree(session)
    reason = SetAsideReason(f"before the undo of {last.kept}", {"Swarm-Reason": UNDONE})
    dirty_tree = objects.commit(session.repository.refs.read(last.kept) or "").tree
    retire_sides(session, state)
    kept = _keep(session, state, shadow, look(session, state, shadow), Restoring(dirty_tree, reason))
    own = objects.entry(objects.commit(last.old_tip).tree, RUNS_FOLDER)
    after = _move(session, state, last.old_tip)
    snapshot.restore(shadow, objects.with_subtree(dirty_tree, RUNS_FOLDER, own), session.layout.base)
    snapshot.align_index(shadow, after.tip_tree)
    _reinstate_decision(session, last.target)
    # Last: who is killed before this can ask for the same undo again.
    session.store.set_aside(after, after.tip_tree, f"{last.kept} is undone", {"Swarm-Undoes": last.kept})
    return RolledBack(after, kept)


def _reinstate_decision(session: Session, target: str) -> None:
    """What was decided after the rollback's target holds again."""
    taken = decisions(session.repository, session.layout, target)
    if taken and current_decision(session.repository, session.layout, target) is None:
        last = taken[-1]
        origin = DecisionOrigin(last.flow_key, last.from_step, last.iteration, last.routing_mode)
        session.store.decide(target, last.choice, origin)


def _keep(session: Session, state: RunState, shadow: Shadow, left: Leftover, before: Restoring) -> str:
    """The journals go too: one that stayed would say that the branch belongs where its step began."""
    kept = set_aside_before(session, state, shadow, left, before)
    for journal in left.journals:
        journal.path.unlink(missing_ok=True)
    return kept


def _move(session: Session, state: RunState, target: str) -> RunState:
    session.store.move_branch(state.tip, target, "rollback")
    after = replay(session.repository, session.layout)
    session.store.complete_creation(after)
    follow_approval(session.repository, after)
    return after


RESET = "reset"
"""`Swarm-Reason` of the old chain."""


def move_to_new_base(session: Session, state: RunState) -> RunState:
    """The run on the base that its commits say it belongs on; whoever was killed in between asks again.

    :raises SwarmError: the run shares commits with another one.
    """
    repository, store = session.repository, session.store
    if not state.bases.is_moved or state.shared or repository.refs.read(session.layout.branch) != state.tip:
        return state
    copies = write_copies(repository, state)
    _keep_old_chain(session, state)
    store.copy_notes(copies)
    store.move_branch(state.tip, copies[state.tip], "reset")
    after = replay(repository, session.layout)
    store.complete_creation(after)
    follow_approval(repository, after)
    shadow = find_shadow(repository, session.layout.branch)
    if shadow is not None and after.tip_tree != state.tip_tree:
        snapshot.restore(shadow, after.tip_tree, session.layout.base)  # what other runs landed
    return after


def _keep_old_chain(session: Session, state: RunState) -> None:
    """The old chain with its notes."""
    objects, refs = session.repository.objects, session.repository.refs
    for name, kept in session.store.kept_work():
        if kept.get("Swarm-Reason") == RESET and objects.commit(refs.read(name) or "").parents[0] == state.tip:
            return
    trailers = {"Swarm-Reason": RESET, "Swarm-Base": state.bases.root}
    title = f"before the reset onto {state.base[:12]}"
    session.store.set_aside(state, state.tip_tree, title, trailers)
