"""A run whose lease another clone has taken over: it stands where the hub stands, and what is only here is kept."""

from __future__ import annotations

from gitswarm.errors import FencedError, GitFailedError
from gitswarm.git.remote import Remote
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import refs_here
from gitswarm.ledger.reading import live_journals
from gitswarm.ledger.state import RunState, replay
from gitswarm.runner.hub.leased_run import LeasedRun, fetch_run, reached_by, reaches_all
from gitswarm.runner.run_processes import Request
from gitswarm.runner.run_session import Session
from gitswarm.runner.undo.recovery import restore_worktree
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import find_shadow


def push_leased(session: Session, state: RunState, leased: LeasedRun, *, executes: bool) -> None:
    """Pushes a leased run, for `push_to_hub`."""
    try:
        leased.push(state, executes=executes)
        if leased.asked is not None and executes:
            session.requests.put(Request(kind=leased.asked, reason="asked on the hub"))
            leased.asked = None
    except FencedError as error:
        what, look = "this clone had nothing that is not there", f"git swarm log {session.layout.run_id}"
        try:
            kept = reset_to_hub(session, state, leased.remote, keeps_ahead=False)
        except GitFailedError as failed:
            what, look = f"nothing was moved here ({failed.message})", f"git swarm pull {session.layout.run_id}"
        else:
            if kept is not None:
                what, look = f"what only this clone had is kept in {kept}", f"git log {kept}"
        raise FencedError(f"{error.message}: {what}", hint=f"{look}   (do not resume it: somebody does)") from error


def reset_to_hub(session: Session, state: RunState, remote: Remote, *, keeps_ahead: bool) -> str | None:
    """Brings the run here to where the hub's is. Safe to repeat after a crash.

    :param keeps_ahead: a run that has all that the hub has, and more, stays as it is.
    :return: the ref that keeps commits which the hub does not have; None: there was none, or they stay.
    :raises GitFailedError: the hub cannot be reached.
    """
    repository, layout, swap = session.repository, session.layout, session.repository.refs.swap
    theirs = fetch_run(repository, remote, layout)
    if layout.branch not in theirs or (keeps_ahead and reaches_all(repository, theirs.values(), state)):
        return None
    shadow = find_shadow(repository, layout.branch)
    if shadow is not None or live_journals(repository, layout):
        shadow = restore_worktree(session, state).shadow
    for name, commit in _renamed(layout, refs_here(repository, layout), theirs).items():
        swap(name, None, commit, why="the hub has another one of that name")
    ours = refs_here(repository, layout)
    for name, commit in _append_only(layout, theirs).items():
        swap(name, ours.get(name), commit, why="from the hub")
    kept = None
    if not reached_by(repository, [state.tip], theirs.values()):
        trailers = {"Swarm-Reason": "fenced", "Swarm-Target": theirs[layout.branch]}
        kept = session.store.set_aside(state, state.tip_tree, f"what {remote.name} does not have", trailers)
    ours = refs_here(repository, layout)
    names = [layout.branch, *sorted({*theirs, *layout.views} - {layout.branch})]
    for name in names:
        if ours.get(name) != theirs.get(name):
            swap(name, ours.get(name), theirs.get(name), why="from the hub")
    if shadow is not None:
        snapshot.restore(shadow, replay(repository, layout).tip_tree, layout.base)
    return kept


def _append_only(layout: RunLayout, refs: dict[str, str]) -> dict[str, str]:
    """The refs to which others are only added: what was set aside, and commits of parallel steps."""
    return {name: to for name, to in refs.items() if name.startswith((layout.rollback_prefix, layout.fork_prefix))}


def _renamed(layout: RunLayout, ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    """Where ours go whose names the hub uses for something else: numbers that neither has."""
    taken, found = {*ours, *theirs}, dict[str, str]()
    for name, to in _append_only(layout, ours).items():
        if theirs.get(name, to) != to and to not in theirs.values():
            stem = layout.rollback_prefix if name.startswith(layout.rollback_prefix) else f"{name.partition('@')[0]}@"
            ends = (other.removeprefix(stem) for other in taken if other.startswith(stem))
            new = f"{stem}{1 + max((int(end) for end in ends if end.isdecimal()), default=0)}"
            taken.add(new)
            found[new] = to
    return found
