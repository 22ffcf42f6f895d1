"""What the agent of one step may do: its station's capabilities, on the ground that it works on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gitswarm.records.policy import Decide, PolicyRules
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.plan import StepPlan
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import FOLDERS_OF_AGENTS
from gitswarm.safety.policy.scope import Ground, Role, make_scope

_READ_BY_CLAUDE = (".claude/**", ".mcp.json")


def permissions(session: Session, place: Workplace, plan: StepPlan, env: Mapping[str, str]) -> Decide:
    """
    :param env: the agent's.
    """
    ground = Ground(
        worktree=place.shadow.path,
        run_base=session.layout.base,
        git_config=session.repository.config("alias."),
        env={**env, **_folders_of_agents(session)},
    )
    role = Role(
        artifacts=frozenset(f"{session.layout.base}/{path}" for path in plan.artifacts),
        writes_code=plan.station is None or plan.station.writes_code,
        tools=plan.station.tools if plan.station is not None else (),
    )
    return partial(decide, scope=make_scope(ground, role, _rules(session.spec.settings)))


def _folders_of_agents(session: Session) -> dict[str, str]:
    """Those that an engine's own environment names."""
    own = (each for access in session.around.access.values() for each in access.env.items())
    return {name: value for name, value in own if name in FOLDERS_OF_AGENTS}


def _rules(settings: FrozenSettings) -> PolicyRules:
    """Where sessions read the project's own settings, no agent may write them: the next session would execute what
    they say, without asking anybody."""
    if not {"project", "local"} & set(settings.claude.setting_sources):
        return settings.policy
    return settings.policy.model_copy(
        update={"protected_paths": (*settings.policy.protected_paths, *_READ_BY_CLAUDE)}
    )
