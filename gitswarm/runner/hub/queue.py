"""The hub as a queue of runs: which entry of a file became which run, and which runs may be executed without a person
(docs/decisions/0023-fleet.md)."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gitswarm.errors import FencedError, GitFailedError
from gitswarm.git.remote import Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, OnHub, look_at_hub
from gitswarm.ledger.state import replay
from gitswarm.records.base import Clock
from gitswarm.records.execution import RunStatus
from gitswarm.runner.hub.leased_run import LeasedRun

MOST_ATTEMPTS = 3
"""Executions of a run without a new step, behind which a person has to look at it."""

_ENTRIES = "refs/swarm/fleet/"
_OPEN = frozenset({RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.STOPPED})


class Queue(Struct, frozen=True):
    """What a hub has. `runs`: by entry, without those that were removed from the hub; `refs`: of all entries."""

    there: OnHub
    runs: dict[str, str]
    refs: dict[str, str]


def read_queue(repository: Repository, remote: Remote) -> Queue:
    """
    :raises GitFailedError: the hub cannot be reached.
    """
    refs = remote.refs(f"{_ENTRIES}*")
    missing = [name for name, to in refs.items() if repository.objects.peeled(to) is None]
    if missing:
        remote.fetch(missing)
    there = look_at_hub(repository, remote)
    made = ((name.removeprefix(_ENTRIES), _run_of(repository, to)) for name, to in refs.items())
    return Queue(there, {entry: run for entry, run in made if run is not None and run in there.leases}, refs)


def read_for(repository: Repository, remote: Remote, entry: str, before: Queue) -> Queue:
    """The queue as far as an entry is concerned: nothing but its ref is asked for while nobody has moved that.

    :raises GitFailedError: the hub cannot be reached.
    """
    ref = f"{_ENTRIES}{entry}"
    return before if remote.refs(ref).get(ref) == before.refs.get(ref) else read_queue(repository, remote)


def _run_of(repository: Repository, commit: str) -> str | None:
    message = repository.objects.commit(commit).message
    try:
        return msgspec.json.decode(message.partition("\n\n")[2].encode(), type=Lease).run_id
    except msgspec.DecodeError:
        return None


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
        leased.there[ref] = queue.refs[ref]
    try:
        leased.push(replay(repository, layout), executes=False, entry=ref)
    except (GitFailedError, FencedError):
        other = read_queue(repository, remote).runs.get(name)
        if other is None:
            raise
        return other
    return layout.run_id


def is_open(lease: Lease) -> bool:
    """Whether the run can be continued without a person's answer."""
    return lease.executes or lease.overview is None or lease.overview.state in _OPEN


def is_given_up(lease: Lease) -> bool:
    return is_open(lease) and lease.attempts >= MOST_ATTEMPTS
