"""Folds runs that have ended into the archive of a hub, by pushes that do all or nothing: a run is always whole, as
refs or in the archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct

from gitswarm.errors import GitFailedError, SwarmError
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Move, Remote, refusal_of
from gitswarm.git.repository import Repository, open_repository
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.archive_store import ArchiveStore, PackedRun
from gitswarm.ledger.hub_archive import fetch_archive
from gitswarm.ledger.layout import RunLayout, run_of
from gitswarm.ledger.lease import OnHub, look_at_hub
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import OVER
from gitswarm.records.record import Clock

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
    """Those whose lease tells how they are now: neither executed, nor held, nor moved by hand."""
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
    """What became of each; and what git said, where nothing was moved."""
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
            kept = {name: to for name, to in refs[run.run_id].items() if name != layout.lease_ref}
            try:
                packed.append(store.packed(run, kept))
                done.append(Folded(run))
            except SwarmError as error:
                done.append(Folded(run, error))
        if not packed:
            return done, None
        store.put(*packed)
        moves = [Move(ARCHIVE_REF, before, scratch.refs.read(ARCHIVE_REF))]
        moves += [Move(name, to, None) for run in packed for name, to in refs[run.layout.run_id].items()]
        return done, there.push([move for move in moves if move.old != move.new])
