"""`fleet-exec`: one run of the hub, executed to its end; safe to be started again, whatever happened to it before."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import complain, out
from gitswarm.cli.exchange import context_for_hub
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.run_execution import EXIT_CODES, continue_run, quiet_context
from gitswarm.engines.launch import signal_at_death_of
from gitswarm.errors import FencedError, RunHeldError, SwarmError
from gitswarm.git.clone import clone_of_hub
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import Lease, find_on_hub, look_at_hub
from gitswarm.records.execution import RUN_ID, RunStatus
from gitswarm.runner.hub.queue import is_given_up, is_open
from gitswarm.runner.hub.transfer import hub_for_runs, take_over
from gitswarm.runner.human_steps import ResumeOptions
from gitswarm.runner.open_run import open_run
from gitswarm.runner.undo.discard import discard_worktree

WAITS = EXIT_CODES[RunStatus.PAUSED]
"""Exit code: a person has to do something."""


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
        raise SystemExit(WAITS)
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
