"""Moves a run whose rebase is settled: old chain kept, notes copied, branch and base moved. Safe to repeat."""

from __future__ import annotations

from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.copies import write_copies
from gitswarm.ledger.state import RunState, replay
from gitswarm.runner.session import Session
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import find_shadow

RESET = "reset"
"""`Swarm-Reason` of the old chain."""


def stand_on_new_ground(session: Session, state: RunState) -> RunState:
    """The run on the base that its commits say it belongs on; whoever was killed in between asks again.

    :raises SwarmError: the run shares commits with another one.
    """
    repository, store = session.repository, session.store
    if not state.ground.is_moved or state.shared or repository.refs.read(session.layout.branch) != state.tip:
        return state
    copies = write_copies(repository, state)
    _keep(session, state)
    store.copy_notes(copies)
    store.move_branch(state.tip, copies[state.tip], "reset")
    after = replay(repository, session.layout)
    store.complete_creation(after)
    follow_approval(repository, after)
    shadow = find_shadow(repository, session.layout.branch)
    if shadow is not None and after.tip_tree != state.tip_tree:
        snapshot.restore(shadow, after.tip_tree, session.layout.base)  # what other runs landed
    return after


def _keep(session: Session, state: RunState) -> None:
    """The old chain with its notes."""
    objects, refs = session.repository.objects, session.repository.refs
    for name, kept in session.store.kept_work():
        if kept.get("Swarm-Reason") == RESET and objects.commit(refs.read(name) or "").parents[0] == state.tip:
            return
    trailers = {"Swarm-Reason": RESET, "Swarm-Base": state.ground.root}
    title = f"before the reset onto {state.base[:12]}"
    session.store.set_aside(state, state.tip_tree, title, trailers)
