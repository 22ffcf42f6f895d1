"""A run that this process pushes to the hub under a lease: nobody else's push comes between two of ours unseen. A
clone whose lease was taken over keeps what is only here, and stands where the hub stands."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gitswarm.errors import FencedError, GitFailedError, SwarmError
from gitswarm.git.remote import Move, Remote, is_declined, refusal_of
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import (
    Lease,
    OnHub,
    archived_on_hub,
    look_at_hub,
    mark_shared,
    owner_here,
    refs_to_push,
)
from gitswarm.ledger.overview import overview
from gitswarm.ledger.state import RunState
from gitswarm.records.record import Clock
from gitswarm.runner.run_processes import RequestKind

_LOOKS = 10
"""How often refs may move on the hub while we fetch them."""
_PAUSES_S = (0.3, 1.0, 3.0)
"""Between attempts, when the hub cannot be reached or refuses."""


class LeasedRun:
    """What the hub has of a run, as this process saw it last or left it: `hub_refs` and `lease`.
    `asked`: what somebody wants of it, to be done at the next boundary."""

    def __init__(self, repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> None:
        """
        :raises GitFailedError: the hub cannot be reached.
        """
        self._repository = repository
        self.remote = remote
        self._layout = layout
        self._clock = clock
        self._owner = owner_here(repository)
        found = look_at_hub(repository, remote, layout)
        self.lease = found.leases.get(layout.run_id)
        self.hub_refs = dict(found.refs)
        self.asked: RequestKind | None = None
        self._own: set[str] = set()
        """Every lease that this process made: where one stands, its push arrived."""

    def take(self, *, executes: bool, held: bool = False) -> None:
        """Makes this clone the owner, whoever was it; of the run nothing is pushed.

        :raises FencedError: somebody else was faster.
        :raises SwarmError: as `push`.
        """
        before = self.lease
        generation, attempts = (before.generation, before.attempts) if before else (0, 0)
        lease = replace(self._next(), generation=1 + generation, executes=executes, held=held)
        self._renew(replace(lease, attempts=1 + attempts if executes else 0), {})

    def push(self, state: RunState, *, executes: bool, entry: str | None = None) -> None:
        """Brings the hub's refs to where ours are, and the next lease with them, all or nothing. Only views go.

        :param entry: a ref that is to name this lease as well; it has to be as it was in `hub_refs`.
        :raises FencedError: there stands another lease.
        :raises GitFailedError: the hub could not be reached, or refused, at every attempt.
        :raises SwarmError: somebody moved a ref there without a lease.
        """
        how = overview(self._repository, self._layout, state)
        again = f"git swarm resume {self._layout.run_id}"
        # Where the lease is read the run need not be, nor belong to who reads it.
        how = replace(how, worktree=None, hint=how.hint.replace(again, f"{again} --hub"))
        refs: dict[str, str | None] = {**refs_to_push(self._repository, state)}
        gone = dict.fromkeys(view for view in self._layout.views if view not in refs)
        before = self.lease.overview if self.lease else None
        lease = replace(self._next(), executes=executes, overview=how)
        if before is not None and before.steps_executed != how.steps_executed:
            lease = replace(lease, attempts=0)
        self._renew(lease, {**refs, **gone}, entry)

    def ask(self, kind: RequestKind) -> None:
        """Leaves a request for the owner, who finds it when it pushes its step.

        :raises FencedError: the owner, or a new one, was faster.
        :raises SwarmError: as `push`.
        """
        assert self.lease is not None  # noqa: S101
        self._renew(replace(self.lease, asked=kind, chance=secrets.token_hex(4)), {})

    def let_go(self) -> None:
        """Takes back that this process continues the run, unless it said so; one that cannot be told is not."""
        if self.lease is None or not self.lease.executes:
            return
        lease = replace(self._next(), executes=False)
        made = lease.write(self._repository)
        if not self._attempt({self._layout.lease_ref: made}):
            self.hub_refs[self._layout.lease_ref] = made
            self.lease = lease

    def _next(self) -> Lease:
        now, chance = self._clock(), secrets.token_hex(4)
        if self.lease is not None:
            return replace(self.lease, owner=self._owner, time=now, chance=chance, asked=None)
        return Lease(self._layout.run_id, 1, self._owner, now, executes=False, chance=chance)

    def _renew(self, lease: Lease, refs: Mapping[str, str | None], entry: str | None = None) -> None:
        name, run = self._layout.lease_ref, self._layout.run_id
        made = lease.write(self._repository)
        self._own.add(made)
        wanted = {**refs, name: made, **({entry: made} if entry is not None else {})}
        said = ""
        for pause in (*_PAUSES_S, 0.0):
            said = self._attempt(wanted)
            found = self._found() if said else None
            if not said or (found is not None and found.refs.get(name) == made):
                self.hub_refs = {ref: to for ref, to in {**self.hub_refs, **wanted}.items() if to is not None}
                self.lease = lease
                mark_shared(self._repository, self._layout)
                return
            if found is not None and found.refs.get(name) in self._own:
                self.hub_refs = dict(found.refs)  # an earlier one had arrived, and its answer was lost
                continue
            if found is not None and self._is_asked(found, wanted):
                continue
            if found is not None:
                self._refuse_other(found)
            if is_declined(said):
                raise refusal_of(self.remote, run, said, again=f"git swarm {'push' if refs else 'pull'} {run}")
            time.sleep(pause)
        hint = f"git swarm resume {run}{'' if refs else ' --hub'}   (when that is fixed; here alone: --no-hub)"
        raise GitFailedError(f"{self.remote.name} did not take {run}: {said}", hint=hint)

    def _attempt(self, wanted: Mapping[str, str | None]) -> str:
        """Nothing: it is done; else what git said."""
        moves = [Move(name, self.hub_refs.get(name), to) for name, to in sorted(wanted.items())]
        try:
            return self.remote.push([move for move in moves if move.old != move.new]) or ""
        except GitFailedError as error:
            return error.message

    def _found(self) -> OnHub | None:
        """What the hub has now; None: it cannot be reached."""
        try:
            return look_at_hub(self._repository, self.remote, self._layout)
        except GitFailedError:
            return None

    def _is_asked(self, found: OnHub, wanted: Mapping[str, str | None]) -> bool:
        """Whether the lease there is ours with a request of somebody who moved nothing else; the request is noted."""
        name, lease, ours = self._layout.lease_ref, found.leases.get(self._layout.run_id), self.lease
        if lease is None or ours is None or lease.asked is None:
            return False
        arrived = {ref: to for ref, to in {**self.hub_refs, **wanted}.items() if to is not None}
        is_ours = (lease.owner, lease.generation) == (ours.owner, ours.generation)
        if not is_ours or {**found.refs, name: ""} not in ({**self.hub_refs, name: ""}, {**arrived, name: ""}):
            return False
        self.hub_refs, self.asked = dict(found.refs), lease.asked
        return True

    def _refuse_other(self, found: OnHub) -> None:
        run, name = self._layout.run_id, self._layout.lease_ref
        if found.refs.get(name) != self.hub_refs.get(name):
            lease = found.leases.get(run)
            who = f"belongs to {lease.owner} now, generation {lease.generation}" if lease else "has lost its lease"
            raise FencedError(f"{run} {who}, on {self.remote.name}", hint=f"git swarm status {run} --hub")
        moved = sorted(ref for ref in {*found.refs, *self.hub_refs} if found.refs.get(ref) != self.hub_refs.get(ref))
        if moved:
            hint = f"git swarm pull {run}   (what is only here is kept)"
            raise SwarmError(f"somebody moved {moved[0]} on {self.remote.name} by hand", hint=hint)


def fetch_run(repository: Repository, remote: Remote, layout: RunLayout) -> dict[str, str]:
    """The hub's refs of a run, without its lease; all that they reach is here. Of one that has no branch there those
    that its archive has.

    :raises GitFailedError: it cannot be reached, or its refs move all the time.
    """
    for _ in range(_LOOKS):
        refs = layout.without_lease(look_at_hub(repository, remote, layout).refs)
        if layout.branch not in refs:
            with archived_on_hub(repository, remote, layout) as archive:
                return archive.bring_run(layout, repository, remote) if archive is not None else refs
        remote.fetch(refs)
        if all(map(repository.objects.has, refs.values())):
            return refs
    raise GitFailedError(
        f"{layout.run_id} moves on {remote.name} all the time", hint=f"git swarm pull {layout.run_id}"
    )


def reaches_all(repository: Repository, commits: Iterable[str], state: RunState) -> bool:
    """Whether the run's refs here reach all of these commits."""
    return reached_by(repository, commits, refs_to_push(repository, state).values())


def reached_by(repository: Repository, commits: Iterable[str], tips: Iterable[str]) -> bool:
    listed = "".join([*(f"{commit}\n" for commit in commits), *(f"^{tip}\n" for tip in tips)])
    done = repository.git.run("rev-list", "--max-count=1", "--stdin", stdin=listed.encode())
    return done.returncode == 0 and not done.stdout
