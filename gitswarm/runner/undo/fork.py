"""A new run that shares the history of another one up to a step."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gitswarm.errors import SwarmError, UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import newest_run
from gitswarm.ledger.reading import decisions, run_spec
from gitswarm.ledger.spent import said_limits
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.base import timestamp
from gitswarm.records.execution import FORK_OF, new_run_id
from gitswarm.records.limits import BudgetRules
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.begin import NewRun
from gitswarm.runner.engines import asked_engines
from gitswarm.runner.session import FrozenSpecs
from gitswarm.runner.specs import read_frozen


class ForkOptions(Struct, frozen=True):
    """What is different in the fork. `engines`: settings that say which; None: as in the run it comes from; `entropy`
    for its id."""

    engines: FrozenSettings | None
    moment: datetime
    entropy: bytes


def plan_fork(repository: Repository, state: RunState, at: StepRecord | None, options: ForkOptions) -> NewRun:
    """The fork that would be made: same flows, settings and script, another id and, if asked, another engine.

    :param at: the last step that it shares; None: it shares none, but the base.
    """
    if at is not None and at.result == "failed":
        raise SwarmError(
            f"{at.flow}/{at.step} failed: there is nothing to build on",
            hint=f"fork at the step before it: git swarm log {state.layout.run_id}",
        )
    spec = run_spec(repository, state)
    settings, asked = spec.settings, options.engines
    if asked is not None:
        is_other = asked.default_engine.engine != settings.default_engine.engine
        settings = settings.model_copy(
            update={
                "default_engine": asked.default_engine,
                "flow_engines": {},
                "step_engines": {},
                "engines": {**settings.engines, **asked.engines},
                "model": None if is_other else settings.model,
            }
        )
    specs = read_frozen(repository, state.layout, repository.objects.commit(state.run_commit).tree)
    if asked is not None and not asked_engines(settings, specs.flows.values(), specs.sidequests.values()):
        raise UsageError(
            f"no step of {state.layout.run_id} has an agent: another engine changes nothing",
            hint=f"git swarm fork {at.step if at else 'STEP'} --run {state.layout.run_id}",
        )
    limits = settings.budget.limits.over(said_limits(repository, state.layout))
    settings = settings.model_copy(update={"budget": BudgetRules.of(limits)})
    new = spec.model_copy(
        update={
            "run_id": new_run_id(options.moment, options.entropy, newest_run(repository)),
            "created_at": timestamp(options.moment),
            "settings": settings,
            "initiator": f"{FORK_OF}{state.layout.run_id}",
        }
    )
    first = _first_step(repository, state, specs) if at is None else None
    return NewRun(new, specs, first_step=first, forked_at=at, format=state.format)


def _first_step(repository: Repository, state: RunState, specs: FrozenSpecs) -> str | None:
    """The step that a person had the first flow begin at; None: the flow's first one."""
    taken = decisions(repository, state.layout, state.run_commit)
    if state.shared or not taken:
        return None
    flow, first = specs.flows[taken[0].next_flow], taken[0].to_step or ""
    return first if flow.has_step(first) and first != flow.steps[0].id else None
