"""Folds runs that have ended into the archive, ours or that of a hub, and brings them back. After each move a run is
whole in one of the two places: what has a branch is a run, what has none and is in the archive is read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct

from gitswarm.errors import GitFailedError, NotFoundError, SwarmError
from gitswarm.git.locks import Locks
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Move, Remote, refusal_of
from gitswarm.git.repository import Repository, open_repository
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.archive import COMMITS, archived_file, archived_refs, archived_runs, bring_commits_back
from gitswarm.ledger.archive_store import ArchiveStore, PackedRun
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.layout import RunLayout, run_of
from gitswarm.ledger.lease import OnHub, fetch_archive, look_at_hub
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import OVER
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


_AT_ONCE = 200
"""Runs in one push: each of their refs is two words of its command line."""
_RACES = 10


class Folded(Struct, frozen=True):
    """A run that has ended there. `refused`: why it is not in the archive."""

    run: RunOverview
    refused: SwarmError | None = None


def fold_on_hub(
    repository: Repository, remote: Remote, clock: Clock, before: datetime, *, dry_run: bool
) -> Iterator[Folded]:
    """Runs that have ended, and were pushed last before a moment; each when it is in the archive.

    Safe to repeat after a crash, and while others do the same.

    :raises GitFailedError: the hub cannot be reached, or does not take it.
    """
    refused: set[str] = set()
    races = 0
    while races < _RACES:
        found = look_at_hub(repository, remote, everything=True)
        ended = [how for how in _ended(found, before) if how.run_id not in refused]
        if dry_run or not ended:
            yield from map(Folded, ended)
            return
        refs = _by_run(found.refs, [run.run_id for run in ended[:_AT_ONCE]])
        done, said = _fold(repository, remote, clock, ended[:_AT_ONCE], refs)
        if said is None:
            refused.update(each.run.run_id for each in done if each.refused is not None)
            yield from done
            continue
        now = look_at_hub(repository, remote, everything=True)
        if _by_run(now.refs, refs) == refs and now.refs.get(ARCHIVE_REF) == found.refs.get(ARCHIVE_REF):
            raise refusal_of(remote, "the archive", said, again="git swarm gc --hub")
        races += 1
    raise GitFailedError(f"others keep moving runs on {remote.name}", hint="git swarm gc --hub")


def _by_run(refs: Mapping[str, str], runs: Iterable[str]) -> dict[str, dict[str, str]]:
    """Id by ref, of each of the runs."""
    found: dict[str, dict[str, str]] = {run: {} for run in runs}
    for name, to in refs.items():
        run = run_of(name)
        if run in found:
            found[run][name] = to
    return found


def _ended(found: OnHub, before: datetime) -> list[RunOverview]:
    """The runs whose lease tells how they are now: neither executed, nor held, nor moved by hand."""
    known = (
        lease.overview
        for lease in found.leases.values()
        if not (lease.executes or lease.held) and lease.time < before and lease.overview is not None
    )
    return [how for how in known if how.state in OVER and found.refs.get(RunLayout(how.run_id).branch) == how.tip]


def _fold(
    repository: Repository,
    remote: Remote,
    clock: Clock,
    runs: Sequence[RunOverview],
    refs: Mapping[str, Mapping[str, str]],
) -> tuple[list[Folded], str | None]:
    """The outcome for each; and what git said, where nothing was moved."""
    with scratch_repository(repository) as folder:
        there = remote.seen_from(folder)
        scratch = open_repository(folder, repository.env)
        there.fetch(dict.fromkeys(chain.from_iterable(each.values() for each in refs.values())))
        fetch_archive(scratch, there)
        before = scratch.refs.read(ARCHIVE_REF)
        done, packed = list[Folded](), list[PackedRun]()
        store = ArchiveStore(scratch, clock, chained=True)
        for run in runs:
            layout = RunLayout(run.run_id)
            try:
                packed.append(store.packed(run, layout.without_lease(refs[run.run_id])))
                done.append(Folded(run))
            except SwarmError as error:
                done.append(Folded(run, error))
        if not packed:
            return done, None
        store.put(*packed)
        moves = [Move(ARCHIVE_REF, before, scratch.refs.read(ARCHIVE_REF))]
        moves += [Move(name, to, None) for run in packed for name, to in refs[run.layout.run_id].items()]
        return done, there.push([move for move in moves if move.old != move.new])
