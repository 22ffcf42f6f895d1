"""`push`, `pull`, and taking over: a run goes to the hub, and comes from there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import FencedError, NotFoundError, SwarmError
from gitswarm.git.locks import Locks
from gitswarm.git.owners import owner_of
from gitswarm.git.remote import Remote, configured_hub, own_hub, remote_of
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import (
    Lease,
    archived_on_hub,
    look_at_hub,
    mark_shared,
    owner_here,
    refs_here,
    refs_to_push,
)
from gitswarm.ledger.state import replay
from gitswarm.records.record import Clock, timestamp
from gitswarm.runner.hub.fenced import reset_to_hub
from gitswarm.runner.hub.leased_run import LeasedRun, fetch_run, reaches_all
from gitswarm.runner.hub.queue import is_open
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_processes import RequestKind
from gitswarm.safety.guard import may_hold_runs

_RACES = 10
_PATIENCE_S = 20.0
"""A hub that does not answer keeps nobody from continuing a run here."""


def hub_for_runs(repository: Repository, env: Mapping[str, str], name: str | None = None) -> Remote:
    """The remote that runs may go to.

    :param name: None: the configured one.
    :raises SwarmError: the push guard lets no run go there.
    """
    remote = remote_of(repository, name or configured_hub(repository), env)
    if remote.url != str(own_hub(repository)) and not may_hold_runs(remote.users, remote.name, remote.url):
        raise SwarmError(
            f"{remote.name} is not the hub: runs go nowhere else before they have landed",
            hint=f"git config --add swarm.hub {remote.name}   (if runs may go there)",
        )
    return remote


def push_run(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> int:
    """How many refs moved there; 0: it had everything.

    :raises SwarmError: somebody executes it, or pushed what is not here.
    :raises FencedError: somebody was faster.
    """
    leased = LeasedRun(repository, remote, layout, clock)
    _refuse_executed(repository, leased.lease)
    _refuse_held(repository, leased.lease)
    pushed = layout.without_lease(leased.hub_refs)
    state = replay(repository, layout)
    if not reaches_all(repository, _refs_there(repository, leased, layout).values(), state):
        raise SwarmError(
            f"{remote.name} has commits of {layout.run_id} that are not here",
            hint=f"git swarm pull {layout.run_id}   (keeps what is only here)",
        )
    ours = refs_to_push(repository, state)
    moved = sum(pushed.get(name) != ours.get(name) for name in {*pushed, *ours})
    if moved or leased.lease is None or leased.lease.executes:
        leased.push(state, executes=False)
    return moved


def hold_on_hub(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> None:
    """Makes this clone the only one that may continue the run, until it is released.

    :raises SwarmError: somebody executes it, or holds it, or it was never pushed.
    """
    leased = _pushed(repository, remote, layout, clock)
    _refuse_executed(repository, leased.lease)
    _refuse_held(repository, leased.lease)
    leased.take(executes=False, held=True)


def release_on_hub(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> None:
    """Lets every clone continue the run again, whoever holds it. Who executes it is fenced.

    :raises SwarmError: it was never pushed.
    """
    _pushed(repository, remote, layout, clock).take(executes=False)


def ask_on_hub(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock, kind: RequestKind) -> Lease:
    """Asks whoever executes the run to end it at the next boundary; the lease that was found, which says who that is.

    :raises SwarmError: nobody executes it, or it was never pushed.
    :raises FencedError: its owner pushes all the time.
    """
    for _ in range(_RACES):
        leased = _pushed(repository, remote, layout, clock)
        lease = leased.lease
        if lease is None or not lease.executes:
            run, how = layout.run_id, lease.overview if lease is not None else None
            waits = lease is None or is_open(lease)
            hint = (
                f"git swarm hold {run}   (so that nobody else begins it)"
                if waits
                else f"git swarm status {run} --hub"
            )
            raise SwarmError(f"{run} is {how.state.value if how else 'not begun'}: nobody executes it", hint=hint)
        with suppress(FencedError):
            leased.ask(kind)
            return lease
    raise FencedError(
        f"{layout.run_id} moves on {remote.name} all the time", hint=f"git swarm {kind} {layout.run_id} --hub"
    )


def refuse_elsewhere(repository: Repository, env: Mapping[str, str], layout: RunLayout, kind: RequestKind) -> None:
    """Before `stop` or `pause` changes a run that no process here executes. A hub out of reach refuses nothing.

    :raises SwarmError: by its lease on the hub another clone executes it.
    """
    try:
        remote = replace(remote_of(repository, configured_hub(repository), env), patience_s=_PATIENCE_S)
        lease = look_at_hub(repository, remote, layout).leases.get(layout.run_id)
    except SwarmError:
        return
    _refuse_other(repository, remote, lease, kind)


def _pushed(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> LeasedRun:
    leased = LeasedRun(repository, remote, layout, clock)
    if leased.lease is None:
        raise NotFoundError(f"{remote.name} has no lease of {layout.run_id}", hint=f"git swarm push {layout.run_id}")
    return leased


def _refuse_executed(repository: Repository, lease: Lease | None) -> None:
    if lease is None or not lease.executes:
        return
    run, here = lease.run_id, lease.owner == owner_here(repository)
    if here and owner_of(repository.common_dir, run) is None:
        return  # it was killed
    way = "status" if here else "resume"
    about = "it pushes every step itself" if here else "takes it over at once"
    raise SwarmError(
        f"{run} is executed by {lease.owner} since {timestamp(lease.time)}",
        hint=f"git swarm {way} {run} --hub   ({about})",
    )


def _refuse_other(repository: Repository, remote: Remote, lease: Lease | None, command: str) -> None:
    """
    :param command: the one that reaches that clone with `--hub`.
    :raises SwarmError: another clone executes the run.
    """
    if lease is not None and lease.executes and lease.owner != owner_here(repository):
        raise SwarmError(
            f"{lease.owner} executes {lease.run_id}, by its lease on {remote.name} of {timestamp(lease.time)}",
            hint=f"git swarm {command} {lease.run_id} --hub",
        )


def _refuse_held(repository: Repository, lease: Lease | None) -> None:
    """
    :raises FencedError: another clone holds the run.
    """
    if lease is not None and lease.held and lease.owner != owner_here(repository):
        hint = f"git swarm release {lease.run_id}   (if you may decide that)"
        raise FencedError(f"{lease.run_id} is held by {lease.owner} since {timestamp(lease.time)}", hint=hint)


class Pulled(Struct, frozen=True):
    """`came`: a ref moved, or the run was not here. `kept`: the ref of what only this clone had."""

    came: bool
    kept: str | None = None


def pull_run(repository: Repository, remote: Remote, layout: RunLayout, context: RunContext) -> Pulled:
    """
    :raises RunHeldError: a process executes it here.
    :raises NotFoundError: the hub has no such run.
    """
    before = refs_here(repository, layout)
    if layout.branch not in before:
        with Locks(repository.common_dir).own_run(layout.run_id, timestamp(context.clock())):
            theirs = fetch_run(repository, remote, layout)
            if layout.branch not in theirs:
                raise NotFoundError(f"{remote.name} has no {layout.run_id}", hint="git swarm list --hub")
            # The branch last: it is what makes it a run.
            for name in sorted(theirs, key=lambda ref: (ref == layout.branch, ref)):
                repository.refs.swap(name, repository.refs.read(name), theirs[name], why="from the hub")
        mark_shared(repository, layout)
        return Pulled(came=True)
    with open_run(repository, layout, context, executes=False) as opened:
        kept = reset_to_hub(opened.session, opened.state, remote, keeps_ahead=True)
    mark_shared(repository, layout)
    return Pulled(refs_here(repository, layout) != before, kept)


def take_over(repository: Repository, remote: Remote, layout: RunLayout, context: RunContext) -> LeasedRun:
    """Makes this clone the owner of a run, and brings here what the hub has: nobody else moves that any more.

    :raises RunHeldError: a process executes it here.
    :raises FencedError: others were faster, again and again.
    """
    for _ in range(_RACES):
        with Locks(repository.common_dir).own_run(layout.run_id, timestamp(context.clock())):
            leased = LeasedRun(repository, remote, layout, context.clock)
            _refuse_held(repository, leased.lease)
            try:
                leased.take(executes=True, held=leased.lease is not None and leased.lease.held)
            except FencedError:
                continue  # a step came between our look and our lease
        try:
            theirs = _refs_there(repository, leased, layout)
            if layout.branch in theirs and theirs != refs_here(repository, layout):
                pull_run(repository, remote, layout, context)
        except SwarmError:
            leased.let_go()
            raise
        return leased
    raise FencedError(f"others keep taking {layout.run_id} over", hint=f"git swarm status {layout.run_id} --hub")


def take_current(repository: Repository, remote: Remote, layout: RunLayout, clock: Clock) -> LeasedRun:
    """Makes this clone the owner of a run that nobody else executes, and that has nothing there which is not here.

    :raises SwarmError: another clone executes it, or continued it.
    :raises NotFoundError: the hub does not have it.
    :raises GitFailedError: the hub cannot be reached, or does not take the lease.
    :raises RunHeldError: a process executes it here.
    :raises FencedError: another clone holds it, or was faster.
    """
    leased = LeasedRun(repository, replace(remote, patience_s=_PATIENCE_S), layout, clock)
    leased.remote = remote
    run, lease = layout.run_id, leased.lease
    _refuse_held(repository, lease)
    _refuse_other(repository, remote, lease, "resume")
    theirs = _refs_there(repository, leased, layout)
    if lease is None and not theirs:
        raise NotFoundError(f"{remote.name} does not have {run}", hint=f"git swarm push {run}")
    if not reaches_all(repository, theirs.values(), replay(repository, layout)):
        raise SwarmError(
            f"{lease.owner if lease else 'somebody'} continued {run}: the hub has commits of it that are not here",
            hint=f"git swarm pull {run}   (or: git swarm resume {run} --hub)",
        )
    with Locks(repository.common_dir).own_run(run, timestamp(clock())):
        leased.take(executes=True, held=lease is not None and lease.held)
    return leased


def _refs_there(repository: Repository, leased: LeasedRun, layout: RunLayout) -> dict[str, str]:
    """Refs of the run on the hub; of one that has no branch there those that its archive has."""
    pushed = layout.without_lease(leased.hub_refs)
    if layout.branch in pushed:
        return pushed
    with archived_on_hub(repository, leased.remote, layout) as archive:
        return archive.refs(layout) if archive is not None else pushed
