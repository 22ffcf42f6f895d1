"""`start` and `resume`: the commands that execute."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

import typer

from gitswarm.cli.console import err, money, out
from gitswarm.cli.here import config_at, now, placement, read_text, repository_here
from gitswarm.cli.progress import JsonProgress, LiveProgress, PlainProgress
from gitswarm.errors import NotFoundError, RunInterruptedError, UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RUNS_FOLDER
from gitswarm.ledger.reading import find_run, run_spec
from gitswarm.ledger.state import RunState
from gitswarm.records.base import timestamp
from gitswarm.records.outcome import RunStatus
from gitswarm.records.routing import RoutingMode
from gitswarm.records.run_spec import RunSpec, new_run_id
from gitswarm.resources import bundled
from gitswarm.runner.begin import NewRun, start_run
from gitswarm.runner.observer import Observer
from gitswarm.runner.resume import resume_run
from gitswarm.runner.session import Surroundings
from gitswarm.runner.specs import checked_flow, freeze, parse_script, user_files
from gitswarm.settings import CommandLine, Config, freeze_settings
from gitswarm.specs.library import load_library

EXIT_CODES = {RunStatus.FAILED: 4, RunStatus.PAUSED: 5}
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `start`."""

    flow: str
    task: str
    base: str
    engines: CommandLine
    script: str | None
    allow_stub: bool
    routing: RoutingMode


@dataclass(frozen=True, slots=True)
class Executed:
    """Where a run stands after this process executed it. `stopped_by_hand`: Ctrl-C asked it to stop."""

    state: RunState
    stopped_by_hand: bool


def start(
    flows: Annotated[list[str], typer.Argument(metavar="FLOW", help="The flow to run: git swarm flows list")],
    message: Annotated[str | None, typer.Option("-m", "--message", help="The task, in your words.")] = None,
    issue: Annotated[str | None, typer.Option(help="A file with the task; - reads standard input.")] = None,
    base: Annotated[str, typer.Option(help="The commit that the run branches off.")] = "HEAD",
    engine: Annotated[str | None, typer.Option(help="claude-step or gemini-step.")] = None,
    mode: Annotated[str | None, typer.Option(help="The engine's mode: stub.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's id.")] = None,
    script: Annotated[str | None, typer.Option(help="A script for the stub to play.")] = None,
    allow_stub: Annotated[bool, typer.Option("--allow-stub", help="A stub run may land.")] = False,
    routing: Annotated[RoutingMode, typer.Option(help="How next steps are chosen.")] = RoutingMode.ASSIST,
    as_json: Annotated[bool, typer.Option("--json", help="Events as JSON lines on stdout.")] = False,
) -> None:
    """Create a run and execute it: one commit per step on its own branch and worktree."""
    if len(flows) != 1:
        raise UsageError("this version executes one flow per run", hint=f"git swarm start {flows[0]}")
    repository = repository_here()
    played = script or os.environ.get("SWARM_STUB_SCRIPT") or None
    asked = Asked(
        flows[0], _task(message, issue), base, CommandLine(engine, mode, model), played, allow_stub, routing
    )
    done = execute(repository, asked, as_json=as_json)
    finish(repository, done.state, stopped_by_hand=done.stopped_by_hand, as_json=as_json)


def execute(repository: Repository, asked: Asked, *, as_json: bool = False) -> Executed:
    """Creates the run that was asked for and executes it, with progress on stderr.

    :raises SwarmError: something that was asked for cannot be.
    """
    new, config = _plan(repository, asked)
    _apply_durability(repository, config)
    stub = new.spec.settings.default_engine.mode == "stub"
    with _watching(as_json=as_json) as observer, _stop_signals(observer) as stop:
        if stub:
            observer.notice(_STUB_LINE)
        _mention_uncommitted(repository, new.spec, observer)
        around = Surroundings(os.environ, now, placement(config), observer, stop.requested)
        state = start_run(repository, new, around)
    return Executed(state, stop.requested())


def resume(
    run: Annotated[
        str | None, typer.Argument(help="The run; without it the one you stand in, else the newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Events as JSON lines on stdout.")] = False,
) -> None:
    """Go on from the tip of a run, whatever ended it."""
    repository = repository_here()
    layout = find_run(repository, run)
    config = config_at(repository, repository.objects.commit(_tip(repository, layout.branch)).tree)
    _apply_durability(repository, config)
    with _watching(as_json=as_json) as observer, _stop_signals(observer) as stop:
        around = Surroundings(os.environ, now, placement(config), observer, stop.requested)
        resumed = resume_run(repository, layout, around)
    if resumed.was_complete:
        err(f"{layout.run_id} succeeded already: nothing to do")
        err(f"hint: git swarm diff {layout.run_id}")
        return
    finish(repository, resumed.state, stopped_by_hand=stop.requested(), as_json=as_json)


_STUB_LINE = "*** STUB MODE: no model is asked, the work is scripted or empty. This run never lands. ***"


def _plan(repository: Repository, asked: Asked) -> tuple[NewRun, Config]:
    """Everything that can be wrong is found here, before anything exists."""
    base = repository.resolve(asked.base)
    tree = repository.objects.commit(base).tree
    _refuse_uncommitted_flow(repository, tree, asked.flow)
    library = load_library(bundled("flows"), user_files(repository, tree))
    flow = checked_flow(library, asked.flow)
    script = parse_script(asked.script, read_text(asked.script), (flow,)) if asked.script else None
    config = config_at(repository, tree)
    moment = now()
    spec = RunSpec(
        run_id=new_run_id(moment, os.urandom(2)),
        created_at=timestamp(moment),
        flows=(asked.flow,),
        base=base,
        base_ref=repository.head_branch() if asked.base == "HEAD" else asked.base,
        task=asked.task,
        routing_mode=asked.routing,
        allow_stub=asked.allow_stub,
        scripted=script is not None,
        initiator="cli",
        settings=freeze_settings(config, os.environ, asked.engines, scripted=script is not None),
    )
    return NewRun(spec, freeze(library, (asked.flow,), script)), config


def _refuse_uncommitted_flow(repository: Repository, tree: str, flow: str) -> None:
    """A flow that lies in the checkout but not in the base commit would be silently ignored."""
    if repository.checkout is None:
        return
    for suffix in (".yaml", ".yml", ".json"):
        name = f".swarm/flows/{flow}{suffix}"
        if (repository.checkout / name).is_file() and repository.objects.file(tree, name) is None:
            raise NotFoundError(
                f"{name} is not committed: a run reads its flow from the base commit",
                hint=f"git add {name} && git commit -m 'flow {flow}'",
            )


def _apply_durability(repository: Repository, config: Config) -> None:
    if config.durability == "full":
        repository.survive_power_loss()


def _task(message: str | None, issue: str | None) -> str:
    if message is not None and issue is not None:
        raise UsageError("-m and --issue both give the task", hint="leave one of them out")
    if issue is None:
        return message or ""
    return sys.stdin.read() if issue == "-" else read_text(issue)


def _mention_uncommitted(repository: Repository, spec: RunSpec, observer: Observer) -> None:
    if repository.checkout is None:
        return
    git = repository.checkout_git
    dirty = git.run("--no-optional-locks", "status", "--porcelain", "-z", "-uno").stdout
    if dirty:
        observer.notice(f"note: the run starts from {spec.base[:8]}; uncommitted changes here are not in it")


def _tip(repository: Repository, branch: str) -> str:
    return repository.refs.read(branch) or ""


@dataclass(slots=True)
class StopFlag:
    """Set by the first Ctrl-C: stop after this step."""

    is_set: bool = False

    def requested(self) -> bool:
        return self.is_set


@contextmanager
def _stop_signals(observer: Observer) -> Iterator[StopFlag]:
    """Ctrl-C once: stop after the step. Twice, or SIGTERM: now; the step is set aside by `resume`."""
    flag = StopFlag()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if flag.is_set:
            raise RunInterruptedError
        flag.is_set = True
        observer.notice("stopping after this step; Ctrl-C again stops now")

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise RunInterruptedError

    before = (signal.signal(signal.SIGINT, interrupt), signal.signal(signal.SIGTERM, terminate))
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


@contextmanager
def _watching(*, as_json: bool) -> Iterator[Observer]:
    if as_json:
        yield JsonProgress()
    elif sys.stderr.isatty():
        with LiveProgress() as live:
            yield live
    else:
        yield PlainProgress()


def finish(repository: Repository, state: RunState, *, stopped_by_hand: bool, as_json: bool) -> None:
    """The result on stdout, the exit code of the contract."""
    status = state.end or RunStatus.INTERRUPTED
    if not as_json:
        _summarize(repository, state, status)
    if status is RunStatus.STOPPED and stopped_by_hand:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(EXIT_CODES.get(status, 0))


def _summarize(repository: Repository, state: RunState, status: RunStatus) -> None:
    spec = run_spec(repository, state)
    run = state.layout.run_id
    steps = f"{len(state.steps)} step{'' if len(state.steps) == 1 else 's'}"
    out(f"{run} {status}: {steps}, {state.tokens} tokens, {money(state.cost_usd)}")
    if status is not RunStatus.SUCCEEDED:
        last = state.last_step
        if last is not None and status is not RunStatus.STOPPED:
            out(f"last step  {last.flow}/{last.step}: {last.summary.splitlines()[0]}")
        out(f"go on      git swarm resume {run}")
    out(f"look       git swarm log {run}")
    out(f"review     git swarm diff {run}")
    out(f"with git   git diff {spec.base[:12]}...{spec.branch} -- ':(top,exclude){RUNS_FOLDER}'")
