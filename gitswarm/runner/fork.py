"""A new run that shares the history of another one up to a step."""

from __future__ import annotations

from gitswarm.errors import UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.state import RunState, StepRecord
from gitswarm.records.base import timestamp
from gitswarm.records.run_spec import EngineChoice, new_run_id
from gitswarm.runner.begin import NewRun
from gitswarm.runner.session import Surroundings
from gitswarm.runner.specs import read_frozen


def plan_fork(
    repository: Repository,
    state: RunState,
    at: StepRecord,
    engine: EngineChoice | None,
    around: Surroundings,
    entropy: bytes,
) -> NewRun:
    """The fork that would be made: same flows, settings and script, another id and, if asked, another engine."""
    if at.result == "failed":
        raise UsageError(
            f"{at.flow}/{at.step} failed: there is nothing to build on",
            hint=f"fork at the step before it: git swarm log {state.layout.run_id}",
        )
    spec = run_spec(repository, state)
    moment = around.clock()
    settings = spec.settings
    if engine is not None:
        settings = settings.model_copy(update={"default_engine": engine, "flow_engines": {}, "step_engines": {}})
    specs = read_frozen(repository, state.layout, repository.objects.commit(state.run_commit).tree)
    new = spec.model_copy(
        update={
            "run_id": new_run_id(moment, entropy),
            "created_at": timestamp(moment),
            "settings": settings,
            "initiator": f"fork of {state.layout.run_id}",
        }
    )
    return NewRun(new, specs, forked_at=at)
