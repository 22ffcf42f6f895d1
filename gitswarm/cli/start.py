"""`start`: creates a run and executes it, or says with `--dry-run` what would be executed, by whom, at what cost."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err, out
from gitswarm.cli.invocation import config_at, now, read_text, repository_here, run_context
from gitswarm.cli.progress import JsonProgress, NoticeObserver
from gitswarm.cli.run_execution import (
    Executed,
    FeedbackOption,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    apply_durability,
    budget_of_options,
    execute_in_background,
    feedback_of,
    finish,
    stop_signals,
    watching,
)
from gitswarm.cli.uncommitted import mention_uncommitted, refuse_uncommitted_flow
from gitswarm.errors import NotFoundError, UsageError
from gitswarm.git.repository import Repository, refuse_unready
from gitswarm.ledger.finding import newest_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.scent_trail import read_wisdom, scent_trail
from gitswarm.records.execution import new_run_id
from gitswarm.records.guidance import ScentTrail
from gitswarm.records.record import timestamp
from gitswarm.records.routing import HumanPolicy, RoutingMode
from gitswarm.records.run_spec import BudgetRules, RunSpec
from gitswarm.records.text import did_you_mean
from gitswarm.resources import bundled
from gitswarm.routing.macro import ALL, sequence_problem
from gitswarm.runner.begin import NewRun, create_run, read_instructions, refuse_run, start_run
from gitswarm.runner.run_context import Observer
from gitswarm.runner.run_engines import choice_of, without_effect
from gitswarm.runner.specs import freeze, parse_script, user_files
from gitswarm.settings import CommandLine, Config, freeze_settings
from gitswarm.specs.flow import Flow
from gitswarm.specs.library import Library, load_library


class RunOptions(Struct, frozen=True):
    """The options of `start`."""

    flows: tuple[str, ...]
    task: str
    base: str
    engines: CommandLine
    script: str | None
    allow_stub: bool
    routing: RoutingMode | None = None
    autopilot: bool = False
    first: str | None = None
    until: str | None = None
    feedback: str | None = None
    budget: Mapping[str, float | None] = field(default_factory=dict)
    hub: bool = False


def start(
    flows: Annotated[list[str], Argument(metavar="FLOW", help="Flows in order, or all: git swarm flows list")],
    message: Annotated[str | None, Option("-m", "--message", help="The task, in your words.")] = None,
    issue: Annotated[str | None, Option(help="A file with the task; - reads standard input.")] = None,
    base: Annotated[str, Option(help="The commit that the run branches off.")] = "HEAD",
    engine: Annotated[str | None, Option(help="The engine that executes steps: git swarm engines")] = None,
    mode: Annotated[
        str | None, Option(help="stub, or a mode of the engine; always: git swarm config engines.NAME.mode MODE.")
    ] = None,
    model: Annotated[str | None, Option(help="The model's id.")] = None,
    economy: Annotated[bool, Option("--economy", help="The cheapest tier of models for every step.")] = False,
    script: Annotated[str | None, Option(help="A script for the stub: what it answers instead of a model.")] = None,
    allow_stub: Annotated[
        bool, Option("--allow-stub", help="Let a rehearsal (mode stub, or a script) land.")
    ] = False,
    routing: Annotated[
        RoutingMode | None, Option(help="How much the navigator may choose; assist unless configured.")
    ] = None,
    autopilot: Annotated[
        bool, Option("--autopilot", help="Never pause for a person: the clarifier answers instead.")
    ] = False,
    first: Annotated[str | None, Option("--from", metavar="STEP", help="Begin at this step.")] = None,
    until: Annotated[str | None, Option(metavar="STEP", help="Stop after this step.")] = None,
    feedback: FeedbackOption = None,
    max_cost: MaxCostOption = None,
    max_tokens: MaxTokensOption = None,
    max_time: MaxTimeOption = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only show steps, prompts and the highest cost; nothing is created.")
    ] = False,
    hub: Annotated[bool, Option("--hub", help="Push the run to the hub after each step.")] = False,
    detach: Annotated[bool, Option("--detach", help="Execute in the background, with a log file.")] = False,
    as_json: Annotated[bool, Option("--json", help="Events as JSON lines on stdout.")] = False,
) -> None:
    """Create a run and execute it, one commit per step; on its own branch and worktree."""
    wanted = ALL if flows == ["all"] else tuple(flows)
    problem = sequence_problem(wanted)
    if problem is not None:
        raise UsageError(problem.what, hint=f"git swarm start {' '.join(problem.better)}")
    repository = repository_here()
    played = script or os.environ.get("SWARM_STUB_SCRIPT") or None
    options = RunOptions(
        flows=wanted,
        task=_task(message, issue),
        base=base,
        engines=CommandLine(engine, mode, model, economy),
        script=played,
        allow_stub=allow_stub,
        routing=routing,
        autopilot=autopilot,
        first=first_step_name(first, wanted[0]),
        until=until,
        feedback=feedback,
        budget=budget_of_options(max_cost, max_tokens, max_time),
        hub=hub,
    )
    if dry_run:
        from gitswarm.cli.forecast import show_forecast  # noqa: PLC0415 - a start needs none of it

        show_forecast(repository, plan_run(repository, options).new, as_json=as_json)
        return
    if detach:
        _detach(repository, options, as_json=as_json)
        return
    done = execute(repository, options, as_json=as_json)
    finish(repository, done, as_json=as_json)


def execute(repository: Repository, options: RunOptions, *, as_json: bool = False) -> Executed:
    """Creates a run and executes it, with progress on stderr.

    :raises SwarmError: an option cannot be met.
    """
    new, config, notices = plan_run(repository, options)
    apply_durability(repository, config)
    with watching(repository, as_json=as_json) as observer, stop_signals(observer) as stop:
        _mention(repository, new, observer)
        context = replace(run_context(config, observer), stop_requested=stop.requested, until=options.until)
        if options.hub:
            from gitswarm.cli.exchange import lease_new_run  # noqa: PLC0415 - few runs go to a hub

            context = replace(context, leased=lease_new_run(repository, RunLayout(new.spec.run_id)))
        try:
            state = start_run(repository, new, context, notices)
        finally:
            if context.leased is not None:
                context.leased.let_go()
    return Executed(state, stop.requested())


def _mention(repository: Repository, new: NewRun, observer: Observer) -> None:
    """What a person may not have meant: a rehearsal, and files that the run does not have."""
    rehearsal = rehearsal_words(new)
    if rehearsal is not None:
        observer.notice(rehearsal)
    mention_uncommitted(repository, new.spec, observer)


def rehearsal_words(new: NewRun) -> str | None:
    """What a person is told when something will be played; a flow of commands only is really executed."""
    flows = [new.specs.flows[name] for name in new.spec.flows]
    asks = new.spec.scripted or any(not step.is_command for flow in flows for step in flow.steps)
    is_stub = asks and new.spec.settings.default_engine.mode == "stub"
    return (_ALLOWED if new.spec.allow_stub else _REHEARSAL) if is_stub else None


_REHEARSAL = "STUB MODE, a rehearsal: no model is called, nothing can land. Real: --mode cli"
_ALLOWED = "STUB MODE, a rehearsal: no model is called, the result may land (--allow-stub)"


class Planned(NamedTuple):
    """`notices`: what a person should know before the run begins."""

    new: NewRun
    config: Config
    notices: list[str]


def plan_run(repository: Repository, options: RunOptions) -> Planned:
    """Everything that can be wrong is found here, before anything exists."""
    refuse_unready(repository, options.base)
    if options.hub:
        from gitswarm.runner.hub.transfer import hub_for_runs  # noqa: PLC0415 - as above

        hub_for_runs(repository, os.environ)
    base = repository.resolve(options.base)
    tree = repository.objects.commit(base).tree
    for name in options.flows:
        refuse_uncommitted_flow(repository, tree, name)
    config = config_at(repository, tree)
    library = load_library(bundled("flows"), user_files(repository, tree), config.commands.tests)
    _refuse_missing(library, options.flows)
    specs = freeze(library, options.flows)
    script = parse_script(options.script, _script_text(options), specs) if options.script else None
    moment = now()
    settings = freeze_settings(config, os.environ, options.engines, scripted=script is not None)
    budget = BudgetRules.of(settings.budget.limits.over(options.budget))
    spec = RunSpec(
        run_id=new_run_id(moment, os.urandom(2), newest_run(repository)),
        created_at=timestamp(moment),
        flows=options.flows,
        base=base,
        base_ref=repository.head_branch() if options.base == "HEAD" else options.base,
        task=options.task,
        routing_mode=options.routing or config.routing.mode,
        human=HumanPolicy.AUTOPILOT if options.autopilot else config.policy.human,
        allow_stub=options.allow_stub,
        scripted=script is not None,
        initiator="cli",
        settings=replace(settings, budget=budget),
    )
    _refuse_bounds(options, [specs.flows[name] for name in options.flows])
    instructions = read_instructions(repository, tree, config.context.instructions)
    trail = scent_trail(read_wisdom(repository).runs) if config.context.wisdom else ScentTrail()
    feedback = feedback_of(options.feedback)
    whole = replace(specs, script=script, instructions=instructions, trail=trail, feedback=feedback)
    new = NewRun(spec, whole, first_step=options.first)
    notices = refuse_run(repository, new, run_context(config, NoticeObserver()))
    notices += [f"note: {what}" for what in without_effect(library, settings)]
    _refuse_no_task(new, options.engines.mode)
    return Planned(new, config, notices)


def _refuse_no_task(new: NewRun, mode: str | None) -> None:
    """A model that is not told what to do finds something. A rehearsal asks none.

    :param mode: the one of the command line.
    """
    settings = new.spec.settings
    for flow in (new.specs.flows[name] for name in new.spec.flows if not new.spec.task.strip()):
        engines = {choice_of(settings, flow.id, step).mode for step in flow.steps if step.station is not None}
        if flow.needs_task and engines - {"stub"}:
            again = f"git swarm start {' '.join(new.spec.flows)} -m 'what is to be done'"
            raise UsageError(f"{flow.id} needs a task", hint=f"{again} --mode {mode}" if mode else again)


def _script_text(options: RunOptions) -> str:
    """
    :raises NotFoundError: there is no such file; the variable may name it, and not the command line.
    """
    by_variable = options.script == os.environ.get("SWARM_STUB_SCRIPT")
    again = "unset SWARM_STUB_SCRIPT" if by_variable else f"git swarm start {' '.join(options.flows)} --script FILE"
    return read_text(options.script or "", again)


def _refuse_missing(library: Library, flows: tuple[str, ...]) -> None:
    """`all` names flows that the user did not type."""
    missing = [flow for flow in flows if flow not in library.flow_ids]
    if flows == ALL and missing:
        known = " ".join(flow for flow in ALL if flow not in missing)
        raise NotFoundError(
            f"`all` means the flows {', '.join(ALL)}; there is no {', '.join(missing)} here",
            hint=f"git swarm start {known}",
        )


def _refuse_bounds(options: RunOptions, flows: list[Flow]) -> None:
    """`--from` and `--until` name steps that there are, in their order."""
    for step, where in ((options.first, flows[:1]), (options.until, flows)):
        if step is not None and not any(flow.has_step(step.removeprefix(f"{flow.id}/")) for flow in where):
            near = did_you_mean(step, [known.id for flow in where for known in flow.steps])
            names = " ".join(flow.id for flow in where)
            raise NotFoundError(f"{names} has no step '{step}'{near}", hint=f"git swarm flows show {where[-1].id}")
    flow = flows[0]
    last = (options.until or "").removeprefix(f"{flow.id}/")
    if options.first is not None and flow.has_step(last) and flow.index(last) < flow.index(options.first):
        what = f"--until {last} comes before --from {options.first}"
        raise UsageError(what, hint=f"git swarm flows show {flow.id}")


def first_step_name(name: str | None, flow: str) -> str | None:
    return None if name is None else name.removeprefix(f"{flow}/")


def _detach(repository: Repository, options: RunOptions, *, as_json: bool) -> None:
    """Creates the run here, so that every mistake is told here, and lets another process execute it."""
    new, config, notices = plan_run(repository, options)
    apply_durability(repository, config)
    observer = JsonProgress() if as_json else NoticeObserver()
    _mention(repository, new, observer)
    context = run_context(config, observer)
    with create_run(repository, new, context, notices) as (_session, state):
        layout = state.layout
    log = execute_in_background(repository, layout, options.until, hub=options.hub)
    say = err if as_json else out
    say(f"{layout.run_id} runs in the background")
    say(f"log        {min(str(log), os.path.relpath(log), key=len)}")
    say(f"next       git swarm watch {layout.run_id}")
    say(f"stop       git swarm stop {layout.run_id}")


def _task(message: str | None, issue: str | None) -> str:
    if message is not None and issue is not None:
        raise UsageError("-m and --issue both give the task", hint="leave one of them out")
    if issue == "-":
        task = sys.stdin.buffer.read().decode(errors="surrogateescape")
    else:
        task = message or "" if issue is None else read_text(issue, "git swarm start FLOW --issue FILE")
    if any("\ud800" <= letter <= "\udfff" for letter in task):
        raise NotFoundError(
            "the task is not UTF-8 text", hint="iconv -t utf-8, then: git swarm start FLOW --issue FILE"
        )
    if not task.strip() and (message, issue) != (None, None):
        raise UsageError("the task is empty", hint="git swarm start FLOW -m 'what is to be done'")
    return task
