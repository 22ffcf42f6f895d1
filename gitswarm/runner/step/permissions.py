"""What the agent of one step may do: its station's capabilities, on the ground that it works on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gitswarm.records.policy import Decide
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.plan import StepPlan
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.scope import Ground, Role, make_scope


def permissions(session: Session, place: Workplace, plan: StepPlan, env: Mapping[str, str]) -> Decide:
    """
    :param env: the agent's.
    """
    ground = Ground(
        worktree=place.shadow.path,
        run_base=session.layout.base,
        git_config=session.repository.config("alias."),
        env=env,
    )
    role = Role(
        artifacts=frozenset(f"{session.layout.base}/{path}" for path in plan.artifacts),
        writes_code=plan.station is None or plan.station.writes_code,
        tools=plan.station.tools if plan.station is not None else (),
    )
    return partial(decide, scope=make_scope(ground, role, session.spec.settings.policy))
