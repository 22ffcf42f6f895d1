"""`fleet run`, `fleet submit`, `fleet serve`, `fleet work`: runs by the hundred, on this machine or on many."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import urlsplit

from msgspec.structs import replace

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import INTERRUPTED, complain, err, out, out_lines, out_verbatim, plural
from gitswarm.cli.executing import log_of, said_budget
from gitswarm.cli.fleet import batch, slot
from gitswarm.cli.fleet.board import Board, board
from gitswarm.cli.fleet.cluster import (
    ALLOWED_FAILURES,
    NO_DASHBOARD,
    SLOT,
    WORKER_TTL,
    Tls,
    checked_tls,
    embedded,
    joined,
    need_dask,
    own_address,
    refuse_other_versions,
)
from gitswarm.cli.fleet.dispatching import Fleet, Job, bring_to_hub, jobs_of_entries, jobs_of_runs
from gitswarm.cli.fleet.entry_file import FleetEntry, StartOptions, read_entries
from gitswarm.cli.fleet.standing import DEFAULT_FLOW, GIVEN_UP, FlowOption, IssuesOption, Standing, counts, show
from gitswarm.cli.here import repository_here
from gitswarm.cli.run_result import EXIT_CODES
from gitswarm.cli.start import plan_run
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.clone import make_own_hub
from gitswarm.git.remote import Remote, configured_hub
from gitswarm.git.repository import Repository
from gitswarm.ledger.lease import find_on_hub
from gitswarm.records.outcome import RunStatus
from gitswarm.records.routing import RoutingMode
from gitswarm.runner.hub.queue import Queue, read_queue
from gitswarm.runner.hub.transfer import hub_for_runs
from gitswarm.runner.marks import refuse_agent

if TYPE_CHECKING:
    from distributed import Client

_ONE_KEYPRESS_S = 0.5

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
CaOption = Annotated[str | None, Option("--tls-ca", metavar="FILE", help="The authority that signed all of them.")]
CertOption = Annotated[str | None, Option("--tls-cert", metavar="FILE", help="This machine's certificate.")]
KeyOption = Annotated[str | None, Option("--tls-key", metavar="FILE", help="Its key.")]


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
    _refuse_both(runs, issues, "git swarm fleet run")
    if scheduler is not None and workers is not None:
        raise UsageError(
            "--workers is about this machine; the scheduler's workers have their own number",
            hint=f"git swarm fleet work {scheduler} --slots {workers}   (on a machine that is to work)",
        )
    tls = Tls(tls_ca, tls_cert, tls_key)
    if scheduler is not None:
        checked_tls(scheduler, tls, "git swarm fleet run --scheduler ")
    asked = (base, engine, mode, model, economy, script, allow_stub, routing, autopilot)
    usual = StartOptions(None, flow or DEFAULT_FLOW, *asked)  # as its fields come
    limit = said_budget(max_cost, None, None).get("cost_usd")
    repository = repository_here()
    refuse_agent(os.environ, "fleet run", repository.common_dir)
    entries = _entries(repository, issues, usual)
    engine_of: AbstractContextManager[Client] = (
        joined(scheduler, tls) if scheduler else embedded(workers or os.cpu_count() or 1)
    )
    remote = _hub(repository, here=scheduler is None)
    queued = read_queue(repository, remote)
    jobs = _jobs(repository, remote, queued, entries, runs)
    with board(as_json=as_json) as shown:
        fleet = Fleet(repository, remote, queued, jobs, shown, here=scheduler is None, limit_usd=limit)
        pressed = _execute(fleet, engine_of, shown)
    found = fleet.standings()
    if as_json:
        shown.event(
            "finished", None, "", {"states": dict(counts(found)), "runs": [each.to_plain() for each in found]}
        )
    else:
        show(found)
    if fleet.problem is not None:
        raise fleet.problem
    raise SystemExit(INTERRUPTED if pressed else _exit_code(found, fleet.jobs))


def _refuse_both(runs: Sequence[str] | None, issues: str | None, command: str) -> None:
    if bool(runs) == bool(issues):
        hint = f"{command} --issues FILE   (or: {command} RUN…)"
        raise UsageError("name a file with entries, or runs", hint=hint)


def _entries(repository: Repository, issues: str | None, usual: StartOptions) -> list[FleetEntry]:
    """Those of a file, of each of which a run can be made."""
    entries = read_entries(issues, usual) if issues else []
    for options in {replace(each.options, task="-") for each in entries}:
        plan_run(repository, options.asked())
    return entries


def _jobs(
    repository: Repository, remote: Remote, queued: Queue, entries: list[FleetEntry], runs: list[str] | None
) -> list[Job]:
    named = [find_on_hub(repository, remote, each).run_id for each in runs or ()]
    return jobs_of_runs(list(dict.fromkeys(named)), queued) if runs else jobs_of_entries(entries, queued)


def _execute(fleet: Fleet, engine: AbstractContextManager[Client], shown: Board) -> bool:
    """Whether it was asked to stop. Without work no engine is needed."""
    if all(job.ended for job in fleet.jobs):
        shown.notice("nothing to do: each run has ended, or waits for a person")
        return False
    with _presses() as presses, engine as client:
        refuse_other_versions(client)
        fleet.work(client, presses)
        return presses() > 0


def _hub(repository: Repository, *, here: bool) -> Remote:
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


def _exit_code(found: Sequence[Standing], jobs: Sequence[Job]) -> int:
    """The worst: something failed, something waits for a person or was not begun."""
    states = {each.state for each in found}
    if states & {"failed", "not proven"}:
        return EXIT_CODES[RunStatus.FAILED]
    waits = states & {"paused", GIVEN_UP} or not all(job.ended for job in jobs)
    return EXIT_CODES[RunStatus.PAUSED] if waits else 0


@contextmanager
def _presses() -> Iterator[Callable[[], int]]:
    """How often it was asked to stop: Ctrl-C counts once, SIGTERM and a terminal that closes twice."""
    pressed: list[float] = []

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # The terminal sends Ctrl-C to `git` and to us, and `git` hands on what it got.
        if not pressed or time.monotonic() - pressed[-1] > _ONE_KEYPRESS_S:
            pressed.append(time.monotonic())

    def terminate(_number: int, _frame: FrameType | None) -> None:
        pressed.extend([time.monotonic()] * 2)

    wanted = {signal.SIGINT: interrupt, signal.SIGTERM: terminate}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        wanted[signal.SIGHUP] = terminate
    before = {number: signal.signal(number, answer) for number, answer in wanted.items()}
    try:
        yield lambda: min(len(pressed), 2)
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)


def submit(
    runs: RunsArgument = None,
    on: Annotated[batch.BatchSystem | None, Option(help="Where to: slurm, or k8s (Kubernetes).")] = None,
    issues: IssuesOption = None,
    flow: FlowOption = None,
    hub: Annotated[str | None, Option(metavar="URL", help="The hub, as it is reached from there.")] = None,
    slots: Annotated[int, Option("--slots", metavar="N", min=1, help="Runs at the same time.")] = 4,
    folder: Annotated[str | None, Option("--dir", metavar="DIR", help="Where clones of the hub are there.")] = None,
    image: Annotated[str | None, Option(metavar="IMAGE", help="k8s: has git, git-swarm and the engines.")] = None,
    secret: Annotated[list[str] | None, Option(metavar="NAME", help="k8s: becomes environment variables.")] = None,
    print_only: Annotated[bool, Option("--print", help="Print the script or manifest; nobody gets it.")] = False,
    base: BaseOption = None,
    engine: EngineOption = None,
    mode: ModeOption = None,
    model: ModelOption = None,
    economy: EconomyFlag = False,
    script: ScriptOption = None,
    allow_stub: AllowStubFlag = False,
    routing: RoutingOption = None,
    autopilot: AutopilotFlag = False,
) -> None:
    """Give a run for every entry of a file, or runs of the hub, to Slurm or Kubernetes."""
    again = f"git swarm fleet submit --on {on or 'slurm|k8s'}"
    if on is None:
        raise UsageError("name the system that is to execute them", hint=f"{again} --issues FILE")
    _refuse_both(runs, issues, again)
    batch.refuse_unready(on, image, secret, is_given=not print_only)
    asked = (base, engine, mode, model, economy, script, allow_stub, routing, autopilot)
    usual = StartOptions(None, flow or DEFAULT_FLOW, *asked)  # as its fields come
    repository = repository_here()
    refuse_agent(os.environ, "fleet submit", repository.common_dir)
    entries = _entries(repository, issues, usual)
    remote = _hub(repository, here=False)
    url = batch.hub_for(on, remote, hub)
    queued, notices = read_queue(repository, remote), dict[str, None]()
    jobs = _jobs(repository, remote, queued, entries, runs)
    left = [job for job in jobs if not job.ended]
    for job in left:
        bring_to_hub(repository, remote, job, queued, notices.setdefault)
    ids = tuple(job.run_id for job in left if job.run_id is not None)
    for line in notices:
        err(line)
    if len(ids) < len(jobs):
        err(f"{len(jobs) - len(ids)} of {plural(len(jobs), 'run')} ended, or need a person: git swarm fleet status")
    if not ids:
        return
    name = batch.job_name(url, issues, runs or ())
    whole = batch.Batch(name, ids, min(slots, len(ids)), url, folder)
    logs = log_of(repository, ids[0]).parent
    text = batch.job_manifest(whole, image, secret or ()) if image else batch.slurm_script(whole, logs)
    if print_only:
        out_verbatim(text.rstrip())
        return
    given, shown = batch.give(on, text, name)
    out(f"job {given}: {plural(len(ids), 'run')}, {whole.slots} at a time")
    out_lines([f"next       {shown}", "           git swarm fleet status"])


def serve(
    host: Annotated[
        str, Option(metavar="HOST", help="The address that workers reach; other than loopback needs TLS.")
    ] = ("127.0.0.1"),
    port: Annotated[int, Option(metavar="PORT", min=1, help="Its port.")] = 8786,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Run a scheduler until Ctrl-C: it gives runs to workers, and forgets everything when it ends."""
    tls = Tls(tls_ca, tls_cert, tls_key)
    again = f"git swarm fleet serve --host {host} --port {port} --tls-ca ca.pem --tls-cert cert.pem --tls-key key.pem"
    try:
        is_tls = checked_tls(f"tcp://{host}:{port}", tls, "")
    except UsageError as error:
        raise UsageError(error.message, hint=again) from error
    words = ["scheduler", "--host", host, "--port", str(port), "--dashboard-address", NO_DASHBOARD]
    words += ["--protocol", "tls", *tls.words] if is_tls else []
    url = f"{'tls' if is_tls else 'tcp'}://{host}:{port}"
    err(f"a worker     git swarm fleet work {url}")
    err(f"the runs     git swarm fleet run --issues FILE --scheduler {url}")
    _become(
        words,
        {
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": WORKER_TTL,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(ALLOWED_FAILURES),
        },
    )


def work(
    url: Annotated[str, Argument(metavar="URL", help="The scheduler: tcp://127.0.0.1:8786, tls://HOST:8786.")],
    slots: Annotated[
        int | None, Option("--slots", metavar="N", min=1, help="Runs at the same time; as many as processors.")
    ] = None,
    folder: Annotated[
        str | None,
        Option("--dir", metavar="DIR", help="Where clones of hubs are; ~/.local/state/git-swarm/fleet unless given."),
    ] = None,
    host: Annotated[
        str | None,
        Option(
            metavar="HOST", help="This machine's address, as others reach it; else the one by which it reaches URL."
        ),
    ] = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Execute runs that a scheduler gives, each in a process and a worktree of its own, until Ctrl-C."""
    tls = Tls(tls_ca, tls_cert, tls_key)
    is_tls = checked_tls(url, tls, "git swarm fleet work ")
    place = Path(folder).absolute() if folder is not None else None
    number = slots or os.cpu_count() or 1
    words = ["worker", url, "--no-nanny", "--nthreads", str(number), "--resources", f"{SLOT}={number}"]
    words += ["--memory-limit", "0", "--death-timeout", "60", "--dashboard-address", NO_DASHBOARD]
    words += tls.words if is_tls else []
    words += ["--host", host or own_address(urlsplit(url).hostname or "")]
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
        words += ["--local-directory", str(place / "dask")]
    env = {"DASK_DISTRIBUTED__WORKER__PRELOAD": slot.__name__}
    _become(words, {**env, **({slot.FOLDER: str(place)} if place is not None else {})})


def _become(words: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Takes the place of this process: there is nothing to do for us above Dask's own command."""
    need_dask()
    line = [sys.executable, "-P", "-m", "dask", *words]
    out(shlex.join([*(f"{name}={value}" for name, value in env.items()), *line]))
    sys.stdout.flush()
    try:
        os.execve(line[0], line, {**env, **os.environ})  # noqa: S606 - no shell is wanted
    except OSError as error:
        complain(f"cannot start {line[0]}: {error.strerror}")
        raise SystemExit(1) from error
