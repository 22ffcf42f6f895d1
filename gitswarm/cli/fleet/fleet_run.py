"""`fleet run`: runs by the hundred, on this machine or on many; and what it has in common with `fleet submit`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import INTERRUPTED, err
from gitswarm.cli.fleet.cluster import (
    CaOption,
    CertOption,
    KeyOption,
    Tls,
    checked_tls,
    embedded,
    joined,
    refuse_other_versions,
)
from gitswarm.cli.fleet.dispatching import Fleet, Job, job_of
from gitswarm.cli.fleet.entry_file import FleetEntry, StartOptions, read_entries
from gitswarm.cli.fleet.fleet_status import (
    DEFAULT_FLOW,
    GIVEN_UP,
    Display,
    FleetRun,
    FlowOption,
    IssuesOption,
    counts,
    display,
    show,
)
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.run_execution import EXIT_CODES, budget_of_options
from gitswarm.cli.start import plan_run
from gitswarm.cli.terminal import on_signals
from gitswarm.engines.registry import adapters
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.clone import make_own_hub
from gitswarm.git.remote import Remote, configured_hub
from gitswarm.git.repository import Repository
from gitswarm.ledger.lease import find_on_hub
from gitswarm.records.execution import RunStatus
from gitswarm.records.routing import RoutingMode
from gitswarm.records.text import nearest
from gitswarm.runner.hub.queue import Queue, read_queue
from gitswarm.runner.hub.transfer import hub_for_runs
from gitswarm.runner.run_processes import refuse_agent

if TYPE_CHECKING:
    from distributed import Client

RunsArgument = Annotated[list[str] | None, Argument(metavar="RUN", help="Runs on the hub, to be continued.")]
BaseOption = Annotated[str | None, Option(help="The commit that the runs branch off.")]
EngineOption = Annotated[str | None, Option(help="The engine that executes steps: git swarm engines")]
ModeOption = Annotated[str | None, Option(help="stub, or a mode of the engine.")]
ModelOption = Annotated[str | None, Option(help="The model's id.")]
EconomyFlag = Annotated[bool, Option("--economy", help="The cheapest tier of models for every step.")]
ScriptOption = Annotated[str | None, Option(help="A script for the stub: what it answers instead of a model.")]
AllowStubFlag = Annotated[bool, Option("--allow-stub", help="Let rehearsals (mode stub, or a script) land.")]
RoutingOption = Annotated[RoutingMode | None, Option(help="How much the navigator may choose.")]
AutopilotFlag = Annotated[bool, Option("--autopilot", help="Never pause for a person.")]
WorkersOption = Annotated[
    int | None,
    Option("--workers", metavar="N", min=1, help="Runs at the same time; as many as there are processors."),
]


def run(
    runs: RunsArgument = None,
    issues: IssuesOption = None,
    flow: FlowOption = None,
    workers: WorkersOption = None,
    scheduler: Annotated[
        str | None,
        Option(metavar="URL", help="A scheduler: git swarm fleet serve. Else all is done on this machine."),
    ] = None,
    max_cost: Annotated[
        str | None, Option("--max-cost", metavar="USD", help="When all runs have cost this, no more are begun.")
    ] = None,
    at_once: Annotated[
        list[str] | None,
        Option("--at-once", metavar="PROVIDER=N", help="At most N runs that ask this provider at the same time."),
    ] = None,
    base: BaseOption = None,
    engine: EngineOption = None,
    mode: ModeOption = None,
    model: ModelOption = None,
    economy: EconomyFlag = False,
    script: ScriptOption = None,
    allow_stub: AllowStubFlag = False,
    routing: RoutingOption = None,
    autopilot: AutopilotFlag = False,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    as_json: Annotated[bool, Option("--json", help="What happens, as JSON lines on stdout.")] = False,
) -> None:
    """Execute a run for every entry of a file, or runs of the hub. The same line once more finishes what is left."""
    refuse_both(runs, issues, "git swarm fleet run")
    if scheduler is not None and workers is not None:
        raise UsageError(
            "--workers is about this machine; the scheduler's workers have their own number",
            hint=f"git swarm fleet work {scheduler} --slots {workers}   (on a machine that is to work)",
        )
    tls = Tls(tls_ca, tls_cert, tls_key)
    if scheduler is not None:
        checked_tls(scheduler, tls, "git swarm fleet run --scheduler ")
    options = (base, engine, mode, model, economy, script, allow_stub, routing, autopilot)
    usual = usual_options(runs, flow, options, "git swarm fleet run")
    rooms = _rooms(at_once or ())
    limit = budget_of_options(max_cost, None, None).get("cost_usd")
    repository = repository_here()
    refuse_agent(os.environ, "fleet run", repository.common_dir)
    entries = planned_entries(repository, issues, usual)
    engine_of: AbstractContextManager[Client] = (
        joined(scheduler, tls) if scheduler else embedded(workers or os.cpu_count() or 1)
    )
    remote = fleet_hub(repository, here=scheduler is None)
    queued, jobs = fleet_jobs(repository, remote, entries, runs)
    with display(as_json=as_json) as shown:
        fleet = Fleet(repository, remote, queued, jobs, shown, here=scheduler is None, limit_usd=limit, at_once=rooms)
        pressed = _execute(fleet, engine_of, shown)
    found = fleet.fleet_runs()
    if as_json:
        shown.event(
            "finished", None, "", {"states": dict(counts(found)), "runs": [each.to_plain() for each in found]}
        )
    else:
        show(repository, found)
    if fleet.problem is not None:
        raise fleet.problem
    raise SystemExit(INTERRUPTED if pressed else _exit_code(found, fleet.jobs))


def _rooms(typed: Iterable[str]) -> dict[str, int]:
    """How many runs may ask a provider at the same time.

    :raises UsageError: no provider of ours, or no number.
    """
    known = sorted({provider for adapter in adapters() for provider in adapter.providers} - {"none"})
    found = {}
    for each in typed:
        provider, _is, number = each.partition("=")
        if provider not in known:
            hint = f"--at-once {nearest(provider, known) or known[0]}=4"
            raise UsageError(f"--at-once {each}: providers are {', '.join(known)}", hint=hint)
        if not number.isdecimal() or not int(number):
            raise UsageError(f"--at-once {each}: how many runs, at least 1?", hint=f"--at-once {provider}=4")
        found[provider] = int(number)
    return found


def refuse_both(runs: Sequence[str] | None, issues: str | None, command: str) -> None:
    if bool(runs) == bool(issues):
        hint = f"{command} --issues FILE   (or: {command} RUN…)"
        raise UsageError("name a file with entries, or runs", hint=hint)


def usual_options(
    runs: Sequence[str] | None, flow: str | None, options: Sequence[object], command: str
) -> StartOptions:
    """What the command line says for all entries.

    :param options: as the fields of `StartOptions` come, behind the flow.
    :raises UsageError: it says something about runs, which have what they were begun with.
    """
    if runs and (flow is not None or any(options)):
        raise UsageError(
            "runs have the flow, engine and mode that they were begun with: such options are for entries",
            hint=shlex.join([*command.split(), *runs]),
        )
    return StartOptions(None, flow or DEFAULT_FLOW, *options)  # type: ignore[arg-type]


def planned_entries(repository: Repository, issues: str | None, usual: StartOptions) -> list[FleetEntry]:
    """The entries of a file, each checked to make a run."""
    entries = read_entries(issues, usual) if issues else []
    for options in {replace(each.options, task="-", priority=0) for each in entries}:
        plan_run(repository, options.run_options())
    return entries


def fleet_jobs(
    repository: Repository, remote: Remote, entries: list[FleetEntry], runs: list[str] | None
) -> tuple[Queue, list[Job]]:
    """What the hub has, and the jobs: of runs on it, or of entries, by priority."""
    queued = read_queue(repository, remote, [entry.name for entry in entries])
    if runs:
        named = dict.fromkeys(find_on_hub(repository, remote, each).run_id for each in runs)
        return queued, [job_of(None, run, queued) for run in named]
    ordered = sorted(entries, key=lambda entry: -entry.options.priority)
    return queued, [job_of(entry, queued.runs.get(entry.name), queued) for entry in ordered]


def _execute(fleet: Fleet, engine: AbstractContextManager[Client], shown: Display) -> bool:
    """Whether it was asked to stop. Without work no engine is needed."""
    if all(job.ended for job in fleet.jobs):
        shown.notice("nothing to do: each run has ended, or waits for a person")
        return False
    with _presses() as presses, engine as client:
        refuse_other_versions(client)
        fleet.work(client, presses)
        return presses() > 0


def fleet_hub(repository: Repository, *, here: bool) -> Remote:
    """The configured one; on one machine one is made when there is none."""
    try:
        configured_hub(repository)
    except NotFoundError as error:
        if not here:
            raise NotFoundError(
                "no hub is configured: workers on other machines get their runs from one",
                hint="git config swarm.hub REMOTE   (a bare repository that all of them reach)",
            ) from error
        err(f"no hub is configured: the runs are kept in {make_own_hub(repository, os.environ)}")
    return hub_for_runs(repository, os.environ)


def _exit_code(found: Sequence[FleetRun], jobs: Sequence[Job]) -> int:
    """The worst: something failed, something waits for a person or was not begun."""
    states = {each.state for each in found}
    if states & {"failed", "not proven"}:
        return EXIT_CODES[RunStatus.FAILED]
    waits = states & {"paused", GIVEN_UP} or not all(job.ended for job in jobs)
    return EXIT_CODES[RunStatus.PAUSED] if waits else 0


@contextmanager
def _presses() -> Iterator[Callable[[], int]]:
    """How often it was asked to stop: Ctrl-C counts once, SIGTERM and a terminal that closes twice."""
    pressed: list[int] = []
    with on_signals(
        lambda number, _frame: pressed.append(number), lambda number, _frame: pressed.extend([number] * 2)
    ):
        yield lambda: min(len(pressed), 2)
