"""The hub as a queue of runs: which entry of a file became which run, and which runs may be executed without a person
(docs/decisions/0023-fleet.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import FencedError, GitFailedError, SwarmError
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, OnHub, look_at_hub, overviews_on_hub
from gitswarm.ledger.state import replay
from gitswarm.records.execution import RunStatus
from gitswarm.records.record import Clock
from gitswarm.runner.hub.leased_run import LeasedRun

MOST_ATTEMPTS = 3
"""Executions of a run without a new step, behind which a person has to look at it."""

_ENTRIES = "refs/swarm/fleet/"
_OPEN = frozenset({RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.STOPPED})


class Queue(Struct, frozen=True):
    """What a hub has. `runs`: by entry, without those that were removed from the hub; `leases`: by run, of archived
    ones that entries were asked about too; `refs`: of all entries."""

    leases: Mapping[str, Lease]
    runs: dict[str, str]
    refs: dict[str, str]
    unreadable: tuple[SwarmError, ...]


def read_queue(repository: Repository, remote: Remote, entries: Collection[str] = ()) -> Queue:
    """
    :param entries: those whose runs count as there when they are archived too.
    :raises GitFailedError: the hub cannot be reached.
    """
    refs = remote.refs(f"{_ENTRIES}*")
    missing = [name for name, to in refs.items() if repository.objects.peeled(to) is None]
    if missing:
        remote.fetch(missing)
    on_hub = look_at_hub(repository, remote)
    made = {name.removeprefix(_ENTRIES): _first_lease(repository, to) for name, to in refs.items()}
    gone = (made.get(entry) for entry in entries)
    archived = _archived(repository, remote, on_hub, {each.run_id: each for each in gone if each is not None})
    leases = {**archived, **on_hub.leases}
    runs = {entry: lease.run_id for entry, lease in made.items() if lease is not None and lease.run_id in leases}
    return Queue(leases, runs, refs, on_hub.unreadable)


def read_for(repository: Repository, remote: Remote, entry: str, before: Queue) -> Queue:
    """The queue as far as an entry is concerned: nothing but its ref is asked for while nobody has moved that.

    :raises GitFailedError: the hub cannot be reached.
    """
    is_same = remote.refs(ref := f"{_ENTRIES}{entry}").get(ref) == before.refs.get(ref)
    return before if is_same else read_queue(repository, remote, [entry])


def _first_lease(repository: Repository, commit: str) -> Lease | None:
    message = repository.objects.commit(commit).message
    try:
        return msgspec.json.decode(message.partition("\n\n")[2].encode(), type=Lease)
    except msgspec.DecodeError:
        return None


def _archived(repository: Repository, remote: Remote, on_hub: OnHub, first: Mapping[str, Lease]) -> dict[str, Lease]:
    """Leases of those runs that the hub has in its archive alone, as if they were there with how they stood at last.

    :param first: by run, the lease with which it came.
    """
    tip, gone = on_hub.refs.get(ARCHIVE_REF), first.keys() - on_hub.leases.keys()
    if tip is None or not gone:
        return {}
    found = overviews_on_hub(repository, remote, tip, lambda runs: [run for run in runs if run.run_id in gone])
    return {how.run_id: replace(first[how.run_id], overview=how) for how in found}


def put_in_queue(
    repository: Repository, remote: Remote, layout: RunLayout, clock: Clock, entry: tuple[str, Queue]
) -> str:
    """Brings a new run to the hub as that of an entry, in one push; the run that the entry has then.

    :raises GitFailedError: the hub cannot be reached.
    """
    name, queue = entry
    ref = f"{_ENTRIES}{name}"
    leased = LeasedRun(repository, remote, layout, clock)
    if ref in queue.refs:
        leased.hub_refs[ref] = queue.refs[ref]
    try:
        leased.push(replay(repository, layout), executes=False, entry=ref)
    except (GitFailedError, FencedError):
        other = read_queue(repository, remote, [name]).runs.get(name)
        if other is None:
            raise
        return other
    return layout.run_id


def is_open(lease: Lease) -> bool:
    """Whether the run can be continued without a person's answer."""
    return lease.executes or lease.overview is None or lease.overview.state in _OPEN


def is_given_up(lease: Lease) -> bool:
    return is_open(lease) and lease.attempts >= MOST_ATTEMPTS
