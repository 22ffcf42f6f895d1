"""Takes steps back, and takes that back again. Nothing is lost: what goes is kept under `rollback/<n>`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gitswarm.errors import NotFoundError
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.reading import decisions, standing_decision
from gitswarm.ledger.state import RunState, StepRecord, replay
from gitswarm.ledger.store import DecisionPlace
from gitswarm.runner.recovery import Reason, journal_files, look, set_aside
from gitswarm.runner.rolled_back import ROLLED_BACK
from gitswarm.runner.session import Session
from gitswarm.runner.workplace import prepare_worktree
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import Shadow

UNDONE = "rollback undone"


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What a rollback would do. `files` change in the code; `dirty` are uncommitted and would be kept aside;
    `overwritten` are ignored files that the target has under version control, kept aside too."""

    target: str
    target_name: str
    undone: tuple[StepRecord, ...]
    files: tuple[str, ...]
    dirty: tuple[str, ...]
    overwritten: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RolledBack:
    """`kept` is the ref under which everything that went can be reached."""

    state: RunState
    kept: str


def plan_rollback(session: Session, state: RunState, target: StepRecord | None) -> RollbackPlan:
    """
    :param target: the step that becomes the last one; None: before the first.
    """
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    repository = session.repository
    commit = target.commit if target else state.run_commit
    code = _code(repository, repository.objects.commit(commit).tree)
    clean = _code(repository, state.tip_tree)
    in_target = {path for path, _blob in repository.objects.files(code)}
    undone = state.steps[target.number if target else state.shared :]
    return RollbackPlan(
        target=commit,
        target_name=f"{target.flow}/{target.step}@{target.execution.iteration}" if target else "the start",
        undone=undone,
        files=tuple(delta.path for delta in repository.diffs.between(clean, code)),
        dirty=tuple(delta.path for delta in repository.diffs.between(clean, left.code)),
        overwritten=tuple(snapshot.in_the_way(shadow, in_target)),
    )


def roll_back(session: Session, state: RunState, plan: RollbackPlan) -> RolledBack:
    """Keeps, moves the branch, restores the worktree, marks the decisions; safe to repeat after a crash."""
    shadow = prepare_worktree(session)
    trailers = {"Swarm-Reason": ROLLED_BACK, "Swarm-Target": plan.target}
    kept = _keep(session, state, shadow, plan, Reason(f"before the rollback to {plan.target_name}", trailers))
    after = _move(session, state, shadow, plan.target)
    what = f"rolled back to here: what followed is kept in {kept}"
    session.store.take_back(plan.target, kept, what)
    return RolledBack(after, kept)


@dataclass(frozen=True, slots=True)
class LastRollback:
    """A rollback that was not undone: what it kept, where it started, where it led."""

    kept: str
    old_tip: str
    target: str


def last_rollback(session: Session, state: RunState) -> LastRollback:
    """

    :raises NotFoundError: the tip was not reached by a rollback.
    """
    store = session.store
    undone = {said.get("Swarm-Undoes") for _name, said in store.kept_work()}
    for name, said in reversed(store.kept_work()):
        if said.get("Swarm-Reason") == ROLLED_BACK and name not in undone:
            kept = session.repository.refs.read(name) or ""
            return LastRollback(name, session.repository.objects.commit(kept).parents[0], said["Swarm-Target"])
    raise NotFoundError(f"{state.layout.run_id} has no rollback to undo", hint=f"git swarm log {state.layout.run_id}")


def undo_rollback(session: Session, state: RunState) -> RolledBack:
    """Back to exactly the state before the last rollback, uncommitted files included.

    :raises NotFoundError: nothing to undo.
    """
    last = last_rollback(session, state)
    repository = session.repository
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    trailers = {"Swarm-Reason": UNDONE, "Swarm-Undoes": last.kept}
    kept = set_aside(session, state, shadow, left.code, Reason(f"before the undo of {last.kept}", trailers))
    dirty_tree = repository.objects.commit(repository.refs.read(last.kept) or "").tree
    after = _move(session, state, shadow, last.old_tip)
    _reinstate_decision(session, last.target)
    if _code(repository, dirty_tree) != _code(repository, after.tip_tree):
        snapshot.restore(shadow, dirty_tree, session.layout.base)
        snapshot.align_index(shadow, after.tip_tree)
    return RolledBack(after, kept)


def _reinstate_decision(session: Session, target: str) -> None:
    """What was decided after the rollback's target holds again."""
    taken = decisions(session.repository, session.layout, target)
    if taken and standing_decision(session.repository, session.layout, target) is None:
        last = taken[-1]
        place = DecisionPlace(last.flow_key, last.from_step, last.iteration, last.routing_mode)
        session.store.decide(target, last.choice, place)


def _keep(session: Session, state: RunState, shadow: Shadow, plan: RollbackPlan, reason: Reason) -> str:
    left = look(session, state, shadow)
    code = left.code
    if plan.overwritten:
        blobs = session.store.stored(
            {name: (shadow.path / name).read_bytes() for name in plan.overwritten if (shadow.path / name).is_file()}
        )
        code = session.repository.objects.with_files(code, blobs)
    whole = replace(reason, files=journal_files(session, left.journals))
    kept = set_aside(session, state, shadow, code, whole)
    for journal in left.journals:
        journal.path.unlink(missing_ok=True)
    return kept


def _move(session: Session, state: RunState, shadow: Shadow, target: str) -> RunState:
    session.store.move_branch(state.tip, target, "rollback")
    tree = session.repository.objects.commit(target).tree
    snapshot.restore(shadow, tree, session.layout.base)
    return replay(session.repository, session.layout)


def _code(repository: Repository, tree: str) -> str:
    return repository.objects.with_subtree(tree, RUNS_FOLDER, None)
