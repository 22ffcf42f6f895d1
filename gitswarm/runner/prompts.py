"""Prompts outside of a run: what each step would be told at its start, and what the run could cost at worst."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.names import DEFAULT, id_of
from gitswarm.engines.registry import adapter_of
from gitswarm.errors import NotFoundError, SpecError, UsageError
from gitswarm.records.json_value import JsonValue
from gitswarm.records.run_spec import EngineChoice, FrozenSettings, RunSpec
from gitswarm.records.text import did_you_mean, usd
from gitswarm.runner.run_engines import choice_of, prices_of
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.runner.step.proving import MOST_EXTRA_RUNS
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.specs.compile import Briefing, PromptPlan, Role, compile_prompt, reads_trail
from gitswarm.specs.context import Budget, pack_history, pack_instructions, pack_trail
from gitswarm.specs.flow import Flow, ShellCommand, Step
from gitswarm.specs.fragments import template_id
from gitswarm.specs.graph import worst_executions
from gitswarm.specs.library import Library
from gitswarm.specs.model_policy import ModelPolicy, ModelRequest, choose_model

_MARK = re.compile(r"unknown fragment '([^']+)'|unknown variable '\{\{([^}]+)\}\}'")
_NO_RUN = ".swarm/runs/<run>"


def compile_blank(
    library: Library, flow: Flow, step_id: str, *, engine: str = id_of(DEFAULT), economy: bool = False
) -> PromptPlan:
    """The prompt of a step before anything has happened.

    :param engine: full name; it decides which model is named.

    :raises NotFoundError: the flow has no such step.
    :raises UsageError: a command executes it.
    :raises SpecError: an unknown fragment or variable in what an author wrote.
    """
    if not flow.has_step(step_id):
        near = did_you_mean(step_id, [step.id for step in flow.steps])
        raise NotFoundError(f"{flow.id} has no step '{step_id}'{near}", hint=f"git swarm flows show {flow.id}")
    step = flow.step(step_id)
    if step.station is None:
        raise UsageError(
            f"{flow.id}/{step_id} is a command: no model is asked", hint=f"git swarm flows show {flow.id}"
        )
    station = library.station(step.station).station
    wanted = ModelRequest(economy=economy)
    model = choose_model(library.policy(), engine, f"{flow.id}/{step.id}", station, wanted)
    role = Role(flow, step, station, library.template(template_id(flow, step)), model)
    return compile_prompt(role, library.fragments, _nothing_yet())


def prompt_problems(library: Library, flow: Flow) -> Iterator[str]:
    """What keeps the steps of a flow from being told anything."""
    for step in flow.steps:
        if step.station is not None:
            try:
                compile_blank(library, flow, step.id)
            except SpecError as error:
                yield from (_with_place(library, problem) for problem in error.problems)
            except NotFoundError as error:
                yield error.message


def _with_place(library: Library, problem: str) -> str:
    """A problem with a mark in authored text, and the file and line where the mark stands."""
    found = _MARK.search(problem)
    mark = f"fragment:{found[1]}" if found and found[1] else found[2] if found else None
    location = library.location_of(mark) if mark else None
    return f"{location}: {problem}" if location else problem


def _nothing_yet() -> Briefing:
    return Briefing(history=pack_history((), Budget.of("balanced", 200_000), "balanced"), run_base=_NO_RUN)


class StepForecast(Struct, frozen=True):
    """One step at worst: executions, tokens, US dollars, seconds. `cost_usd` None: the policy has no price for the
    model, and the step no limit of its own. `time_s` None: nothing bounds it. `extra_runs`: of a test command, beside
    its own executions."""

    flow: str
    step: str
    agent: str
    model: str | None
    prompt_hash: str
    prompt_chars: int
    executions: int
    tokens: int
    cost_usd: float | None
    extra_runs: int = 0
    time_s: float | None = None


def forecast(specs: FrozenSpecs, flow: Flow, spec: RunSpec) -> Iterator[StepForecast]:
    """Every step of a flow as if each loop ran to its maximum and each session used all of its turns."""
    settings = spec.settings
    wanted = ModelRequest(settings.model, settings.economy)
    executions = worst_executions(flow, with_criteria="plan" in specs.flows)
    for step in flow.steps:
        if step.station is None:
            extra = MOST_EXTRA_RUNS * executions[step.id] if is_test_step(settings, step) else 0
            times = executions[step.id]
            longest = _longest(settings, step)
            yield StepForecast(
                flow.id, step.id, step.agent, None, "", 0, times, 0, 0.0, extra, longest and times * longest
            )
            continue
        station = specs.stations[step.station]
        choice = choice_of(settings, flow.id, step)
        model = choose_model(specs.policy, choice.engine, f"{flow.id}/{step.id}", station, wanted)
        role = Role(flow, step, station, specs.templates[template_id(flow, step)], model)
        budget = Budget.of(settings.context, specs.policy.facts(model.model).window)
        instructions = pack_instructions(specs.instructions, budget.recent)
        briefing = replace(
            _nothing_yet(),
            task=spec.task,
            instructions=instructions,
            trail=pack_trail(specs.trail, budget.older) if reads_trail(role) else "",
            commands=settings.configured_commands,
            charter_chars=budget.recent,
        )
        plan = compile_prompt(role, specs.fragments, briefing)
        times, own = executions[step.id], step.budget
        turns, turn = times * plan.max_turns, specs.policy.turn
        tokens, cost = turns * (turn.input + turn.output), _cost(specs.policy, choice, model.model, turns)
        capped = None if own.max_cost_usd is None else times * own.max_cost_usd
        yield StepForecast(
            flow=flow.id,
            step=step.id,
            agent=station.id,
            model=model.model,
            prompt_hash=plan.prompt.hash,
            prompt_chars=len(plan.prompt.system) + len(plan.prompt.user),
            executions=times,
            tokens=tokens if own.max_tokens is None else min(tokens, times * own.max_tokens),
            cost_usd=min((each for each in (cost, capped) if each is not None), default=None),
            time_s=_session_s(settings, choice, step, times),
        )


def _longest(settings: FrozenSettings, step: Step) -> float | None:
    """Seconds that one execution of a command takes at most; None: git-swarm's own work has no limit."""
    if not step.is_command:
        return None
    own = step.command.timeout_s if isinstance(step.command, ShellCommand) else None
    return min(own or settings.command_timeout_s, step.budget.max_time or math.inf)


def _session_s(settings: FrozenSettings, choice: EngineChoice, step: Step, times: int) -> float | None:
    """The same of all executions by an engine; None: nothing bounds them."""
    adapter = adapter_of(choice.engine)
    longest = adapter.longest_s(settings.engines.get(adapter.short_name, {}))
    each = min((bound for bound in (longest, step.budget.max_time) if bound is not None), default=None)
    return None if each is None else times * each


def _cost(policy: ModelPolicy, choice: EngineChoice, model: str, turns: int) -> float | None:
    price = prices_of(policy, adapter_of(choice.engine))(model)
    if price is None:
        return None
    return usd(turns * (policy.turn.input * price[0] + policy.turn.output * price[1]) / 1_000_000)


def plan_json(plan: PromptPlan) -> dict[str, JsonValue]:
    """A prompt plan for `flows compile --json`."""
    return {
        "prompt_hash": plan.prompt.hash,
        "system_append": plan.prompt.system,
        "user_prompt": plan.prompt.user,
        "model": plan.model.model,
        "model_rule": plan.model.rule,
        "tools": list(plan.tools),
        "max_turns": plan.max_turns,
        "template": {"id": plan.template.id, "title": plan.template.title},
        "verification": plan.verification.to_plain(),
        "handoff": {"required": list(plan.required)},
        "output_schema": dict(plan.output_schema),
        "fragments": [{"path": path, "sha256": digest} for path, digest in plan.fragments],
        "context": plan.history.use.to_plain(),
    }
