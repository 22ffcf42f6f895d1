"""What is going to be executed, decided before anything happens: step, iteration, engine, prompt, command."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gitswarm.engines.base import CommandOrder, StepRequest
from gitswarm.engines.detect import detect_test_command
from gitswarm.ledger.layout import Execution
from gitswarm.ledger.state import RunState
from gitswarm.processes import agent_environment
from gitswarm.records.routing import Decision, JoinOutcome
from gitswarm.records.run_spec import EngineChoice
from gitswarm.runner.session import MARKER, SIBLING_MARKER, Session, Workplace
from gitswarm.runner.step.branches import outcome_at
from gitswarm.runner.step.briefing import brief
from gitswarm.runner.step.position import station_at, step_at
from gitswarm.specs.artifacts import RunArtifact, parse_artifact
from gitswarm.specs.compile import Prompt, PromptPlan, Role, compile_prompt
from gitswarm.specs.flow import Flow, ShellCommand, Step
from gitswarm.specs.model_policy import ModelWish, choose_model
from gitswarm.specs.station import Station
from gitswarm.specs.template import template_id

NO_PROMPT = Prompt("This step runs a command of the project; no model is asked.", "")


@dataclass(frozen=True, slots=True)
class Resumption:
    """A person let the run go on. `answer` is what they said to it, `partial` what an interrupted step left."""

    answer: str = ""
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Beside:
    """Of a step that is executed beside others: where the branch stands meanwhile, and the mark of its processes."""

    branch_tip: str
    mark: str


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What is going to be executed, and why: decided before anything happens. `session` None: no model is asked.

    `before`: the run as the step finds it; of a step beside others, at their fork. `joins`: what became of the
    branches that come together in this step.
    """

    flow: Flow
    step: Step
    execution: Execution
    choice: EngineChoice
    session: PromptPlan | None
    before: RunState
    decision: Decision
    resumption: Resumption | None
    station: Station | None
    beside: Beside | None = None
    joins: JoinOutcome | None = None

    @property
    def branch_tip(self) -> str:
        """Where the shadow branch stands while the step is executed."""
        return self.beside.branch_tip if self.beside else self.before.tip

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Files in RUN_BASE that the step or its station promises, relative to RUN_BASE."""
        return declared_artifacts(self.flow, self.step, self.station)


def declared_artifacts(flow: Flow, step: Step, station: Station | None) -> tuple[str, ...]:
    """Files in RUN_BASE that a step or its station promises, relative to RUN_BASE."""
    names = (*step.teaching.outputs, *(station.io.outputs if station else ()))
    named = (parse_artifact(name, flow.id) for name in dict.fromkeys(names))
    return tuple(artifact.path for artifact in named if isinstance(artifact, RunArtifact))


def plan_step(
    session: Session, place: Workplace, state: RunState, decision: Decision, resumption: Resumption | None
) -> StepPlan:
    flow = session.specs.flows[decision.next_flow]
    step = step_at(session, flow.id, decision.to_step or "", decision.stack)
    iteration = max(state.last_iteration(flow.id, step.id), place.interrupted.get((flow.id, step.id), 0)) + 1
    execution = Execution(session.layout, flow.id, step.id, iteration, step.agent)
    station = station_at(session, step, decision.stack)
    choice = session.engine_choice(flow.id, step)
    prompts = None
    if station is not None:
        role = session_role(session, flow, step, station, choice.engine)
        said = resumption or Resumption()
        briefing = brief(session, state, role, decision, (said.answer, said.partial))
        names = {**briefing.names, str(place.shadow.path): "{{worktree}}"}
        prompts = compile_prompt(role, session.specs.fragments, replace(briefing, names=names))
        choice = choice if choice.mode == "stub" else choice.model_copy(update={"model": prompts.model.model})
    joins = outcome_at(state, flow, step)
    return StepPlan(flow, step, execution, choice, prompts, state, decision, resumption, station, joins=joins)


def session_role(session: Session, flow: Flow, step: Step, station: Station, engine: str) -> Role:
    """Who executes a station's step, and with which model."""
    specs, settings = session.specs, session.spec.settings
    wish = ModelWish(settings.model, settings.economy)
    model = choose_model(specs.policy, engine, f"{flow.id}/{step.id}", station, wish)
    return Role(flow, step, station, specs.templates[template_id(flow, step)], model)


def step_request(session: Session, place: Workplace, plan: StepPlan) -> StepRequest:
    worktree = place.shadow.path
    run_base = worktree / session.layout.base
    env = agent_environment(session.around.env) | {
        MARKER: session.layout.run_id,
        **({SIBLING_MARKER: plan.beside.mark} if plan.beside else {}),
        "RUN_ID": session.layout.run_id,
        "RUN_BASE": str(run_base),
        "SWARM_FLOW": plan.flow.id,
        "SWARM_STEP": plan.step.id,
        "SWARM_ITERATION": str(plan.execution.iteration),
    }
    return StepRequest(
        run_id=session.layout.run_id,
        flow_key=plan.flow.id,
        step_id=plan.step.id,
        iteration=plan.execution.iteration,
        execution=plan.before.executions(plan.flow.id, plan.step.id),
        agent_key=plan.step.agent,
        mode=plan.choice.mode,
        model=plan.choice.model or "none",
        worktree=worktree,
        run_base=run_base,
        prompt=plan.session.prompt if plan.session else NO_PROMPT,
        outputs=tuple(f"RUN_BASE/{path}" for path in plan.artifacts),
        env=env,
        command=_command(session, plan.step, worktree, env),
        scrub=session.redactor.scrub,
    )


def _command(session: Session, step: Step, worktree: Path, env: Mapping[str, str]) -> CommandOrder | None:
    settings = session.spec.settings
    if isinstance(step.command, ShellCommand):
        return CommandOrder(step.id, step.command.run, step.command.timeout_s or settings.command_timeout_s)
    if step.command is None:
        return None
    configured = settings.commands.get(step.command)
    if configured is None and step.command == "test":
        found = detect_test_command(worktree, _available(env))
        configured = found.command if found else None
    return CommandOrder(step.command, configured, settings.command_timeout_s)


def _available(env: Mapping[str, str]) -> Callable[[str], bool]:
    return lambda program: shutil.which(program, path=env.get("PATH")) is not None
