"""What an engine is asked: the plan of a step, as far as an engine has to know it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from gitswarm.engines.base import CommandOrder, SessionTerms, StepRequest
from gitswarm.engines.detect import detect_test_command
from gitswarm.ledger.layout import agent_identity
from gitswarm.processes import project_environment
from gitswarm.runner.session import MARKER, SIBLING_MARKER, Session, Workplace
from gitswarm.runner.step.permissions import permissions
from gitswarm.runner.step.plan import NO_PROMPT, StepPlan
from gitswarm.safety.environment import walled
from gitswarm.specs.flow import ShellCommand, Step


def step_request(session: Session, place: Workplace, plan: StepPlan) -> StepRequest:
    worktree = place.shadow.path
    run_base = worktree / session.layout.base
    env = agent_environment(session, plan.step.agent) | {
        **({SIBLING_MARKER: plan.beside.mark} if plan.beside else {}),
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
        scratch=scratch_folder(session),
        terms=_terms(plan),
        decide=permissions(session, place, plan, env),
        command=command_order(session, plan.step, worktree, env),
        scrub=session.redactor.scrub,
    )


def agent_environment(session: Session, agent: str) -> dict[str, str]:
    """Of every process that works for the run."""
    env = walled(project_environment(session.around.env), agent_identity(agent))
    return env | {MARKER: session.layout.run_id, "RUN_ID": session.layout.run_id}


def scratch_folder(session: Session) -> Path:
    """Where the engines of a run keep what is theirs; it is empty while nobody executes the run."""
    return session.repository.swarm_dir / "sessions" / session.layout.run_id


def _terms(plan: StepPlan) -> SessionTerms:
    if plan.session is None:
        return SessionTerms()
    return SessionTerms(plan.session.tools, plan.session.max_turns, plan.session.output_schema)


def command_order(session: Session, step: Step, worktree: Path, env: Mapping[str, str]) -> CommandOrder | None:
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
