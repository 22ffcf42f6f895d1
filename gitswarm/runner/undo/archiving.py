"""Folds runs that have ended into the archive, and brings them back. After each move a run is whole in one of the two
places: what has a branch is a run, what has none and is in the archive is read from there."""

from __future__ import annotations

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository
from gitswarm.ledger.archive import COMMITS, archived_file, archived_refs, archived_runs, bring_commits_back
from gitswarm.ledger.archive_store import ArchiveStore
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import overview
from gitswarm.ledger.state import RunState
from gitswarm.records.record import Clock, timestamp
from gitswarm.runner.containing import caches_of
from gitswarm.runner.run_processes import remove_ref_locks
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.unfinished import conversations_of
from gitswarm.runner.undo.discard import discard_worktree, own_refs
from gitswarm.untrusted import remove_tree


def archive_run(session: Session, state: RunState) -> None:
    """Safe to repeat after a crash.

    :raises SwarmError: the worktree holds uncommitted work; or refs of the run lead elsewhere.
    """
    repository, layout = session.repository, session.layout
    discard_worktree(session, state, force=False)
    found = overview(repository, layout, state)
    refs = {name: repository.refs.read(name) or "" for name in own_refs(repository, layout)}
    store = ArchiveStore(repository, session.context.clock)
    store.put(store.packed(found, refs))
    # From here on the archive has all of it, and without its branch it is read from there.
    repository.refs.swap(layout.branch, refs[layout.branch], None, why="archived")
    _sweep(repository, layout)
    for folder in (caches_of(repository, layout.run_id), conversations_of(repository, layout.run_id)):
        remove_tree(folder)
    session.requests.clear()


def sweep_archived(repository: Repository, clock: Clock) -> list[RunLayout]:
    """Removes the refs of archived runs that a killed process has left; of which runs.

    :raises RunHeldError: somebody brings one back at this moment.
    """
    live = set(all_runs(repository))
    left = [layout for layout in archived_runs(repository) if layout not in live and _others(repository, layout)]
    for layout in left:
        with Locks(repository.common_dir).own_run(layout.run_id, timestamp(clock())):
            remove_ref_locks(repository, layout)
            _sweep(repository, layout)
    return left


def _others(repository: Repository, layout: RunLayout) -> list[str]:
    return [name for name in own_refs(repository, layout) if name != layout.branch]


def _sweep(repository: Repository, layout: RunLayout) -> None:
    archived = archived_refs(repository, layout)
    for name in _others(repository, layout):
        if repository.refs.read(name) == archived.get(name):
            repository.refs.swap(name, archived[name], None, why="archived")


def find_archived(repository: Repository, text: str) -> RunLayout | None:
    """The one archived run that `text` names; None: there is none.

    :raises NotFoundError: several.
    """
    found = [layout for layout in archived_runs(repository) if text.removeprefix("shadow/") in layout.run_id]
    if len(found) > 1:
        some = ", ".join(layout.run_id for layout in found[:4])
        raise NotFoundError(f"'{text}' matches {len(found)} archived runs: {some}", hint="give more of the id")
    return found[0] if found else None


def restore_archived(repository: Repository, layout: RunLayout, clock: Clock) -> None:
    """Makes it a run again, with all its refs; `resume` makes its worktree. Safe to repeat after a crash.

    :raises SwarmError: another run's branch is in the way.
    """
    with Locks(repository.common_dir).own_run(layout.run_id, timestamp(clock())):
        remove_ref_locks(repository, layout)
        if repository.refs.read(layout.branch) is None:
            bring_commits_back(repository, archived_file(repository, layout, COMMITS))
            refs = archived_refs(repository, layout)
            branch = refs.pop(layout.branch, None)
            if branch is None:
                raise SwarmError(f"the archive has no branch of {layout.run_id}", hint="git swarm list --all")
            for name, commit_id in refs.items():
                repository.refs.swap(name, repository.refs.read(name), commit_id, why="restored from the archive")
            repository.refs.swap(layout.branch, None, branch, why="restored from the archive")
        ArchiveStore(repository, clock).drop(layout)
