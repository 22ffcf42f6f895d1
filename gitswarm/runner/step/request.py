"""What an engine is given: the plan of a step, as far as an engine has to know it, and what its agent may do."""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from gitswarm.containment import UNCONTAINED, Containment
from gitswarm.engines.base import CommandOrder, SessionTerms, StepRequest
from gitswarm.engines.registry import adapter_of
from gitswarm.errors import SwarmError
from gitswarm.evidence.test_command import request_report
from gitswarm.ledger.layout import agent_identity
from gitswarm.processes import project_environment
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.records.safety import Decide, PolicyRules
from gitswarm.runner.containing import contained, contained_environment
from gitswarm.runner.run_engines import OWN
from gitswarm.runner.run_processes import MARKER, SIBLING_MARKER
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.test_steps import is_test_step, project_command
from gitswarm.runner.step.unfinished import conversation_folder
from gitswarm.safety.environment import isolated_git, passed_on
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import FOLDERS_OF_AGENTS, RunScope, StationRights, make_scope
from gitswarm.specs.compile import Prompt
from gitswarm.specs.flow import ShellCommand, Step
from gitswarm.specs.station import promised_artifacts
from gitswarm.untrusted import read_file, remove_tree

_NO_PROMPT = Prompt("This step runs a command of the project; no model is asked.", "")


def step_request(session: Session, worktree: RunWorktree, plan: StepPlan) -> StepRequest:
    folder = worktree.shadow.path
    run_base = folder / session.layout.base
    env = agent_environment(session, plan.step.agent)
    containment: Containment = UNCONTAINED
    if plan.choice != OWN:
        provider = session.engines[plan.choice.key].hosts(env)
        containment = contained(session, worktree.shadow, copies_of(plan), provider)
    env |= {
        **containment.environment,
        **({SIBLING_MARKER: plan.mark} if plan.parallel else {}),
        "RUN_BASE": str(run_base),
        "SWARM_FLOW": plan.flow.id,
        "SWARM_STEP": plan.step.id,
        "SWARM_ITERATION": str(plan.execution.iteration),
    }
    request = StepRequest(
        execution=plan.execution,
        executed=plan.before.executions(plan.flow.id, plan.step.id),
        mode=plan.choice.mode,
        model=plan.choice.model or "none",
        worktree=folder,
        run_base=run_base,
        prompt=plan.session.prompt if plan.session else _NO_PROMPT,
        outputs=tuple(f"RUN_BASE/{path}" for path in plan.artifacts),
        promised=promised_artifacts(plan.flow, plan.station, plan.step) if plan.before.is_judged else (),
        env=env,
        withheld=frozenset(session.context.env.keys() - env.keys()),
        scratch=session.scratch,
        terms=_terms(plan),
        decide=_permissions(session, worktree, plan, env),
        command=command_order(session, plan.step, folder, env),
        scrub=session.redactor.scrub,
        containment=containment,
        deadline=None if plan.allowed.time_s is None else time.monotonic() + plan.allowed.time_s,
        keeps=None if plan.parallel else conversation_folder(session, plan.execution),
        continues=plan.unfinished,
        set_by="budget.max_time" if plan.allowed.time_s == plan.step.budget.limits.time_s else "--max-time",
    )
    is_named = plan.before.is_judged and is_test_step(session.spec.settings, plan.step)
    return ask_for_names(request) if is_named else request


def copies_of(plan: StepPlan) -> str:
    """Name of what the step's git writes to (see `contained`)."""
    return f"{plan.execution.flow}.{plan.execution.step}"


def ask_for_names(request: StepRequest) -> StepRequest:
    """The request with a test command that reports the result of every test, where it can be asked to."""
    order = request.command
    if order is None or order.shell is None:
        return request
    folder = request.scratch / f"{request.execution.step}.reports"
    remove_tree(folder)
    folder.mkdir(parents=True)
    asked = request_report(order.shell, str(folder), request.env, package_scripts(request.worktree))
    asking = shlex.join(asked.argv) if asked.argv is not None else None
    return replace(
        request,
        env={**request.env, **asked.environment},
        command=replace(order, asking=asking, reports=folder, is_readable=_is_readable),
    )


def _is_readable(text: str, files: Mapping[str, bytes]) -> bool:
    from gitswarm.evidence.test_report import read_run  # noqa: PLC0415 - formats of reports: where tests ran

    return read_run(text, files) is not None


def package_scripts(worktree: Path) -> dict[str, str]:
    """The scripts of the package.json at the top."""
    try:
        scripts = json.loads(read_file(worktree / "package.json")).get("scripts", {})
        return {name: line for name, line in scripts.items() if isinstance(line, str)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _permissions(session: Session, worktree: RunWorktree, plan: StepPlan, env: Mapping[str, str]) -> Decide:
    """What the agent may do: its station's capabilities, in the worktree that it works in."""
    ground = RunScope(
        worktree=worktree.shadow.path,
        run_base=session.layout.base,
        git_config=session.repository.config("alias."),
        env={**env, **_folders_of_agents(session)},
    )
    role = StationRights(
        artifacts=frozenset(f"{session.layout.base}/{path}" for path in plan.artifacts),
        writes_code=plan.writes_code,
        tools=plan.station.tools if plan.station is not None else (),
    )
    return partial(decide, scope=make_scope(ground, role, _rules(session.spec.settings)))


def _folders_of_agents(session: Session) -> dict[str, str]:
    """The folders that an engine's own environment names."""
    own = (each for access in session.context.access.values() for each in access.env.items())
    return {name: value for name, value in own if name in FOLDERS_OF_AGENTS}


def _rules(settings: FrozenSettings) -> PolicyRules:
    """Where sessions read the project's own settings, no agent may write them: the next session would execute what
    they say, without asking anybody."""
    own: list[str] = []
    for name, frozen in settings.engines.items():
        with contextlib.suppress(SwarmError):  # an engine that is not here executes nothing
            own += adapter_of(name).own_files(frozen)
    return replace(settings.policy, protected_paths=(*settings.policy.protected_paths, *own))


def agent_environment(session: Session, agent: str) -> dict[str, str]:
    """The environment of every process that works for the run."""
    given = passed_on(project_environment(session.context.env), session.spec.settings.policy.env)
    env = isolated_git(given, agent_identity(agent))
    return env | {MARKER: session.mark, "RUN_ID": session.layout.run_id} | contained_environment(session)


def _terms(plan: StepPlan) -> SessionTerms:
    if plan.session is None:
        return SessionTerms()
    return SessionTerms(
        tools=plan.session.tools,
        max_turns=plan.session.max_turns,
        output_schema=plan.session.output_schema,
        max_cost_usd=plan.allowed.cost_usd,
        max_tokens=plan.allowed.tokens,
    )


def command_order(session: Session, step: Step, worktree: Path, env: Mapping[str, str]) -> CommandOrder | None:
    settings = session.spec.settings
    if isinstance(step.command, ShellCommand):
        return CommandOrder(step.id, step.command.run, step.command.timeout_s or settings.command_timeout_s)
    if step.command is None:
        return None
    line = project_command(session, step.command, worktree, env)
    return CommandOrder(step.command, line, settings.command_timeout_s)
