"""A run that this process pushes to the hub: nobody else's push comes between two of ours unseen."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from gitswarm.errors import FencedError, GitFailedError, SwarmError
from gitswarm.git.remote import Move, Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, OnHub, look_at_hub, owner_here, refs_to_push
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.state import RunState
from gitswarm.records.base import Clock, timestamp

_PAUSES_S = (0.3, 1.0, 3.0)
"""Between attempts, when the hub cannot be reached or refuses."""


class SharedRun:
    """What the hub has of a run, as this process saw it there last or left it. `lease`: the one that stands there."""

    def __init__(self, remote: Remote, layout: RunLayout, found: OnHub, clock: Clock) -> None:
        self.remote = remote
        self.lease = found.leases.get(layout.run_id)
        self._layout = layout
        self._clock = clock
        self._there = dict(found.refs)
        self._own: set[str] = set()
        """Every lease that this process made: where one stands, its push arrived."""

    def take(self, repository: Repository, *, executes: bool, held: bool = False) -> None:
        """Makes this clone the owner, whoever was it; of the run nothing is pushed.

        :raises FencedError: somebody else was faster.
        :raises SwarmError: as `push`.
        """
        before = self.lease
        generation, how = (before.generation + 1, before.overview) if before is not None else (1, None)
        self._renew(repository, self._next(repository, generation, executes=executes, how=how, held=held), {})

    def push(self, repository: Repository, state: RunState, *, executes: bool) -> None:
        """Brings the hub's refs to where ours are, and the next lease with them, all or nothing. Only views go.

        :raises FencedError: there stands another lease.
        :raises GitFailedError: the hub could not be reached, or refused, at every attempt.
        :raises SwarmError: somebody moved a ref there without a lease.
        """
        how = replace(overview(repository, self._layout, state), worktree=None)
        generation, held = (self.lease.generation, self.lease.held) if self.lease is not None else (1, False)
        refs: dict[str, str | None] = {**refs_to_push(repository, state)}
        gone = dict.fromkeys(view for view in self._layout.views if view not in refs)
        lease = self._next(repository, generation, executes=executes, how=how, held=held)
        self._renew(repository, lease, {**refs, **gone})

    def _next(
        self, repository: Repository, generation: int, *, executes: bool, how: RunOverview | None, held: bool
    ) -> Lease:
        now = timestamp(self._clock())
        return Lease(self._layout.run_id, generation, owner_here(repository), now, executes, how, held)

    def _renew(self, repository: Repository, lease: Lease, refs: Mapping[str, str | None]) -> None:
        name = self._layout.lease_ref
        made = lease.write(repository, self._clock())
        self._own.add(made)
        wanted = {**refs, name: made}
        said = ""
        for pause in (*_PAUSES_S, 0.0):
            said = self._attempt(wanted)
            found = self._found(repository) if said else None
            if not said or (found is not None and found.refs.get(name) == made):
                there = {**self._there, **wanted}
                self._there, self.lease = {ref: to for ref, to in there.items() if to is not None}, lease
                return
            if found is not None and found.refs.get(name) in self._own:
                self._there = dict(found.refs)  # an earlier one had arrived, and its answer was lost
                continue
            if found is not None:
                self._refuse_other(found)
            time.sleep(pause)
        run = self._layout.run_id
        hint = f"git swarm resume {run} --hub   (when that is fixed; without --hub it continues here alone)"
        raise GitFailedError(f"{self.remote.name} did not take {run}: {said}", hint=hint)

    def _attempt(self, wanted: Mapping[str, str | None]) -> str:
        """Nothing: it is done; else what git said."""
        moves = [Move(name, self._there.get(name), to) for name, to in sorted(wanted.items())]
        try:
            return self.remote.push([move for move in moves if move.old != move.new]) or ""
        except GitFailedError as error:
            return error.message

    def _found(self, repository: Repository) -> OnHub | None:
        """None: it cannot be reached."""
        try:
            return look_at_hub(repository, self.remote, self._layout)
        except GitFailedError:
            return None

    def _refuse_other(self, found: OnHub) -> None:
        run, name = self._layout.run_id, self._layout.lease_ref
        if found.refs.get(name) != self._there.get(name):
            lease = found.leases.get(run)
            who = (
                f"belongs to {lease.owner} now, generation {lease.generation}"
                if lease
                else "has no lease of ours any more"
            )
            raise FencedError(f"{run} {who}, on {self.remote.name}", hint=f"git swarm status {run} --hub")
        moved = sorted(ref for ref in {*found.refs, *self._there} if found.refs.get(ref) != self._there.get(ref))
        if moved:
            hint = f"git swarm pull {run}   (what is only here is kept)"
            raise SwarmError(f"somebody moved {moved[0]} on {self.remote.name} by hand", hint=hint)
