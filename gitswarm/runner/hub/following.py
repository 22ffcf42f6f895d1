"""What a clone does when the hub has what it has not: it keeps what is only here, and stands where the hub stands."""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.errors import FencedError, GitFailedError
from gitswarm.git.remote import Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.hub_archive import archived_on_hub
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import look_at_hub, refs_here, refs_to_push
from gitswarm.ledger.reading import live_journals
from gitswarm.ledger.state import RunState, replay
from gitswarm.runner.session import Session
from gitswarm.runner.undo.recovery import take_place
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import find_shadow

_LOOKS = 10
"""How often refs may move on the hub while we fetch them."""


def share(session: Session, state: RunState, *, executes: bool = True) -> None:
    """Pushes the run, where it is shared. `executes`: this process goes on with it.

    :raises FencedError: another clone has taken it over: what only this one has is kept, and it stands where the hub
        stands.
    """
    shared = session.around.shared
    if shared is None:
        return
    try:
        shared.push(state, executes=executes)
    except FencedError as error:
        what, look = "this clone had nothing that is not there", f"git swarm log {session.layout.run_id}"
        try:
            kept = follow(session, state, shared.remote, keeps_ahead=False)
        except GitFailedError as failed:
            what, look = f"nothing was moved here ({failed.message})", f"git swarm pull {session.layout.run_id}"
        else:
            if kept is not None:
                what, look = f"what only this clone had is kept in {kept}", f"git log {kept}"
        raise FencedError(f"{error.message}: {what}", hint=f"{look}   (do not resume it: somebody does)") from error


def follow(session: Session, state: RunState, remote: Remote, *, keeps_ahead: bool) -> str | None:
    """Brings the run here to where the hub's is. Safe to repeat after a crash.

    :param keeps_ahead: a run that has all that the hub has, and more, stays as it is.
    :return: the ref that keeps commits which the hub does not have; None: there was none, or they stay.
    :raises GitFailedError: the hub cannot be reached.
    """
    repository, layout, swap = session.repository, session.layout, session.repository.refs.swap
    theirs = fetched(repository, remote, layout)
    if layout.branch not in theirs or (keeps_ahead and is_had(repository, theirs.values(), state)):
        return None
    shadow = find_shadow(repository, layout.branch)
    if shadow is not None or live_journals(repository, layout):
        shadow = take_place(session, state).shadow
    for name, commit in _renamed(layout, refs_here(repository, layout), theirs).items():
        swap(name, None, commit, why="the hub has another one of that name")
    ours = refs_here(repository, layout)
    for name, commit in _kept_apart(layout, theirs).items():
        swap(name, ours.get(name), commit, why="from the hub")
    kept = None
    if not _reach(repository, [state.tip], theirs.values()):
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


def fetched(repository: Repository, remote: Remote, layout: RunLayout) -> dict[str, str]:
    """The hub's refs of a run, without its lease; all that they reach is here. Of one that has no branch there those
    that its archive has.

    :raises GitFailedError: it cannot be reached, or its refs move all the time.
    """
    for _ in range(_LOOKS):
        refs = {
            name: to for name, to in look_at_hub(repository, remote, layout).refs.items() if name != layout.lease_ref
        }
        if layout.branch not in refs:
            with archived_on_hub(repository, remote, layout) as archive:
                return archive.bring_run(layout, repository, remote) if archive is not None else refs
        remote.fetch(refs)
        if all(map(repository.objects.has, refs.values())):
            return refs
    raise GitFailedError(
        f"{layout.run_id} moves on {remote.name} all the time", hint=f"git swarm pull {layout.run_id}"
    )


def is_had(repository: Repository, commits: Iterable[str], state: RunState) -> bool:
    """Whether the run's refs here reach all of these commits."""
    return _reach(repository, commits, refs_to_push(repository, state).values())


def _reach(repository: Repository, commits: Iterable[str], tips: Iterable[str]) -> bool:
    listed = "".join([*(f"{commit}\n" for commit in commits), *(f"^{tip}\n" for tip in tips)])
    done = repository.git.run("rev-list", "--max-count=1", "--stdin", stdin=listed.encode())
    return done.returncode == 0 and not done.stdout


def _kept_apart(layout: RunLayout, refs: dict[str, str]) -> dict[str, str]:
    """Those that only ever become more: what was set aside, and commits of steps beside others."""
    return {name: to for name, to in refs.items() if name.startswith((layout.rollback_prefix, layout.fork_prefix))}


def _renamed(layout: RunLayout, ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    """Where ours go whose names the hub uses for something else: numbers that neither has."""
    taken, found = {*ours, *theirs}, dict[str, str]()
    for name, to in _kept_apart(layout, ours).items():
        if theirs.get(name, to) != to and to not in theirs.values():
            stem = layout.rollback_prefix if name.startswith(layout.rollback_prefix) else f"{name.partition('@')[0]}@"
            ends = (other.removeprefix(stem) for other in taken if other.startswith(stem))
            new = f"{stem}{1 + max((int(end) for end in ends if end.isdecimal()), default=0)}"
            taken.add(new)
            found[new] = to
    return found
