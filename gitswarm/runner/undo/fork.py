"""A new run that shares the history of another one up to a step."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.budget import said_limits
from gitswarm.ledger.finding import newest_run
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.base import timestamp
from gitswarm.records.limits import BudgetRules
from gitswarm.records.run_id import new_run_id
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.begin import NewRun
from gitswarm.runner.specs import read_frozen


class ForkOptions(Struct, frozen=True):
    """What is different in the fork. `engines`: settings that say which; None: as in the run it comes from; `entropy`
    for its id."""

    engines: FrozenSettings | None
    moment: datetime
    entropy: bytes


def plan_fork(repository: Repository, state: RunState, at: StepRecord, options: ForkOptions) -> NewRun:
    """The fork that would be made: same flows, settings and script, another id and, if asked, another engine."""
    if at.result == "failed":
        raise SwarmError(
            f"{at.flow}/{at.step} failed: there is nothing to build on",
            hint=f"fork at the step before it: git swarm log {state.layout.run_id}",
        )
    spec = run_spec(repository, state)
    settings = spec.settings
    if options.engines is not None:
        settings = settings.model_copy(
            update={
                "default_engine": options.engines.default_engine,
                "flow_engines": {},
                "step_engines": {},
                "engines": {**settings.engines, **options.engines.engines},
            }
        )
    limits = settings.budget.limits.over(said_limits(repository, state.layout))
    settings = settings.model_copy(update={"budget": BudgetRules.of(limits)})
    specs = read_frozen(repository, state.layout, repository.objects.commit(state.run_commit).tree)
    new = spec.model_copy(
        update={
            "run_id": new_run_id(options.moment, options.entropy, newest_run(repository)),
            "created_at": timestamp(options.moment),
            "settings": settings,
            "initiator": f"fork of {state.layout.run_id}",
        }
    )
    return NewRun(new, specs, forked_at=at)
