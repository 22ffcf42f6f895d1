"""`push`, `pull`, `hold`, `release`: runs go to the hub, and come from there. `fleet-exec`: one of them is executed
to its end; safe to be started again, whatever happened to it before."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import advise, complain, err, out, out_json, plural
from gitswarm.cli.invocation import now, repository_here, run_context
from gitswarm.cli.progress import NoticeObserver
from gitswarm.cli.run_execution import EXIT_CODES, continue_run, quiet_context
from gitswarm.cli.runs import JsonFlag, RunArgument
from gitswarm.engines.launch import signal_at_death_of
from gitswarm.errors import FencedError, GitFailedError, NotFoundError, RunHeldError, SwarmError, UsageError
from gitswarm.git.clone import clone_of_hub
from gitswarm.git.remote import Remote
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, find_on_hub, look_at_hub
from gitswarm.records.execution import RUN_ID, RunStatus
from gitswarm.records.record import Clock
from gitswarm.runner.hub.leased_run import LeasedRun
from gitswarm.runner.hub.queue import is_given_up, is_open
from gitswarm.runner.hub.transfer import (
    ask_on_hub,
    hold_on_hub,
    hub_for_runs,
    pull_run,
    push_run,
    release_on_hub,
    take_current,
    take_over,
)
from gitswarm.runner.human_steps import ResumeOptions
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_processes import RequestKind, refuse_agent
from gitswarm.runner.undo.discard import discard_worktree
from gitswarm.settings import load_config

HubArgument = Annotated[
    str | None, Argument(metavar="HUB", help="The remote; else the one that `git config swarm.hub` names.")
]


def push(run: RunArgument = None, hub: HubArgument = None, as_json: JsonFlag = False) -> None:
    """Push a run to the hub, a git remote: branch, notes and everything that was set aside. Nothing there is lost."""
    repository, remote = _with_hub("push", hub)
    layout = find_run(repository, run)
    moved = push_run(repository, remote, layout, now)
    if as_json:
        out_json({"run_id": layout.run_id, "hub": remote.name, "refs": moved})
        return
    out(
        f"{layout.run_id} is on {remote.name}: {plural(moved, 'ref')} moved"
        if moved
        else f"{remote.name} has all of {layout.run_id}"
    )
    out(f"elsewhere  git swarm resume {layout.run_id} --hub")


def pull(run: RunArgument = None, hub: HubArgument = None, as_json: JsonFlag = False) -> None:
    """Bring a run from the hub; commits that only this clone has are set aside."""
    repository, remote = _with_hub("pull", hub)
    layout = find_on_hub(repository, remote, run)
    pulled = pull_run(repository, remote, layout, context_for_hub(repository, layout))
    if as_json:
        out_json({"run_id": layout.run_id, "hub": remote.name, "came": pulled.came, "kept": pulled.kept})
        return
    out(
        f"{layout.run_id} is here as on {remote.name}"
        if pulled.came
        else f"{remote.name} has no more of {layout.run_id}"
    )
    if pulled.kept is not None:
        out(f"set aside  what only this clone had: git log {pulled.kept}")
    out(f"next       git swarm status {layout.run_id}")


def take_over_here(repository: Repository, layout: RunLayout) -> LeasedRun:
    """Makes this clone the one that continues a run, for `resume --hub`."""
    return take_over(repository, hub_for_runs(repository, os.environ), layout, context_for_hub(repository, layout))


def take_current_here(repository: Repository, layout: RunLayout) -> LeasedRun | None:
    """Makes this clone the one that continues a shared run, for `resume` and `skip`; None: it continues without the
    hub, which cannot be reached or does not take it.

    :raises SwarmError: another clone executes it, holds it or continued it.
    """
    run = layout.run_id
    try:
        leased = take_current(repository, hub_for_runs(repository, os.environ), layout, now)
    except (GitFailedError, NotFoundError) as error:
        err(f"{run} continues here alone: {error.message}")
        advise(f"git swarm push {run}   (brings it to the hub later)")
        return None
    err(f"{run} continues on {leased.remote.name}: each step is pushed (here alone: --no-hub)")
    return leased


def context_for_hub(repository: Repository, layout: RunLayout) -> RunContext:
    """The context of a run that may not be here yet: then only its clock is used."""
    if repository.refs.read(layout.branch) is not None:
        return quiet_context(repository, layout)
    return run_context(load_config(None, {}), NoticeObserver())


def lease_new_run(repository: Repository, layout: RunLayout) -> LeasedRun:
    """The lease of a new run, for `start --hub`: a hub that cannot be reached is found before the run exists."""
    return LeasedRun(repository, hub_for_runs(repository, os.environ), layout, now)


def hold(run: RunArgument = None) -> None:
    """Let nobody else continue a run on the hub, until `release`."""
    layout, remote = _settle(run, hold_on_hub)
    out(f"{layout.run_id} is held on {remote.name}: only this clone continues it")
    out(f"undo       git swarm release {layout.run_id}")


def release(run: RunArgument = None) -> None:
    """Let every clone continue a run again, whoever held it."""
    layout, remote = _settle(run, release_on_hub)
    out(f"{layout.run_id} is released on {remote.name}")
    out(f"anywhere   git swarm resume {layout.run_id} --hub")


def ask_over_hub(run: str | None, kind: RequestKind, *, at_once: bool) -> None:
    """Leaves a request on the hub, for `stop --hub` and `pause --hub`."""
    repository = repository_here()
    refuse_agent(os.environ, kind, repository.common_dir)
    if at_once:
        again = f"git swarm {kind} --hub" + (f" {run}" if run else "")
        raise UsageError("--now reaches a run of this machine, not one over the hub", hint=again)
    remote = hub_for_runs(repository, os.environ)
    layout = find_on_hub(repository, remote, run)
    lease = ask_on_hub(repository, remote, layout, now, kind)
    out(f"{layout.run_id} will {kind} after its current step ({lease.owner} executes it)")
    out(f"look       git swarm status {layout.run_id} --hub")


def _settle(
    run: str | None, settle: Callable[[Repository, Remote, RunLayout, Clock], None]
) -> tuple[RunLayout, Remote]:
    repository, remote = _with_hub(settle.__name__.partition("_")[0])
    layout = find_on_hub(repository, remote, run)
    settle(repository, remote, layout, now)
    return layout, remote


def _with_hub(command: str, hub: str | None = None) -> tuple[Repository, Remote]:
    """
    :raises SwarmError: an agent typed the command; there is no hub.
    """
    repository = repository_here()
    refuse_agent(os.environ, command, repository.common_dir)
    return repository, hub_for_runs(repository, os.environ, hub)


def fleet_exec(
    run: Annotated[str, Argument(help="A run on the hub.")],
    hub: Annotated[
        str | None, Option(metavar="HUB", help="The remote or its URL; else as `git config swarm.hub` says.")
    ] = None,
    folder: Annotated[
        str | None,
        Option("--dir", metavar="DIR", help="Execute in a clone of the hub in here; else in this repository."),
    ] = None,
    parent: Annotated[
        int | None, Option(metavar="PID", help="End as soon as this process, which started us, is gone.")
    ] = None,
) -> None:
    """Execute one run of the hub, as a fleet does. Exit code 75: somebody else has it; 5: it waits for a person."""
    if parent is not None and sys.platform == "linux":
        signal_at_death_of(parent, signal.SIGTERM)
    if folder is None:
        repository = repository_here()
    elif hub is None:
        raise SwarmError("--dir needs to know the hub", hint=f"git swarm fleet-exec {run} --hub URL --dir {folder}")
    else:
        here = Path(hub)
        repository = clone_of_hub(Path(folder), str(here.absolute()) if here.is_dir() else hub, os.environ)
    remote = hub_for_runs(repository, os.environ, hub if folder is None else None)
    layout = RunLayout(run) if RUN_ID.fullmatch(run) else find_on_hub(repository, remote, run)
    lease = look_at_hub(repository, remote, layout).leases.get(layout.run_id)
    if lease is not None:
        _end_early(lease)
    else:
        find_on_hub(repository, remote, run)  # is it there at all, or archived?
    context = context_for_hub(repository, layout)
    try:
        leased = take_over(repository, remote, layout, context)
        leased.asked = lease.asked if lease is not None else None  # of an owner that died before it could
    except RunHeldError as error:  # on this machine: it pushes by itself
        raise FencedError(error.message, hint=error.hint) from error
    try:
        options = ResumeOptions()
        # A signal says that this process is to end, not that the run has to wait for a person.
        continue_run(repository, layout, options, until=None, as_json=False, leased=leased, cut_off_means="stop")
    finally:
        if folder is not None:
            _tidy(repository, layout)


def _end_early(lease: Lease) -> None:
    """Ends the process with the exit code of a run that nobody may just continue."""
    run = lease.run_id
    if is_given_up(lease):
        complain(
            f"{run} was begun {lease.attempts} times without a new step: somebody has to look at it",
            f"git swarm pull {run} && git swarm log {run}   (to let a fleet try it again: git swarm release {run})",
        )
        raise SystemExit(EXIT_CODES[RunStatus.PAUSED])
    if lease.overview is not None and not is_open(lease):
        out(f"{run} {lease.overview.state.value} already")
        raise SystemExit(EXIT_CODES.get(lease.overview.state, 0))


def _tidy(repository: Repository, layout: RunLayout) -> None:
    """Removes the worktree of a run that has ended: a worker executes hundreds, and the hub has everything."""
    with suppress(SwarmError):
        context = quiet_context(repository, layout)
        with open_run(repository, layout, context, executes=False) as opened:
            if opened.state.end not in (None, RunStatus.STOPPED):
                discard_worktree(opened.session, opened.state, force=False)
