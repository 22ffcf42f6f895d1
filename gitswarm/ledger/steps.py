"""The committed steps of a run, and what is asked about all of them without going through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gitswarm.ledger.layout import HUMAN, Execution
from gitswarm.records.outcome import Result, Status


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One committed execution. `number` counts commits of kind `step` from 1; cost None is unknown."""

    number: int
    commit: str
    tree: str
    parent: str
    execution: Execution
    flow: str
    step: str
    engine: str
    mode: str
    model: str
    status: Status
    result: Result
    summary: str
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class StepTally:
    """One step so far: how often its execution was committed, its highest iteration, its newest record."""

    executions: int
    last_iteration: int
    newest: StepRecord


@dataclass(frozen=True, slots=True)
class Tally:
    """Kept up commit by commit, so that a step of a long run costs no more than one of a short run.

    `steps` is keyed by (flow, step) in the order of first execution; `by_flow` holds the executions of each flow in
    order, without what people did: that is no step of the flow.
    """

    steps: Mapping[tuple[str, str], StepTally] = field(default_factory=dict)
    by_flow: Mapping[str, tuple[StepRecord, ...]] = field(default_factory=dict)
    tokens: int = 0
    cost_usd: float | None = 0.0

    def after(self, record: StepRecord) -> Tally:
        key = (record.flow, record.step)
        iteration = record.execution.iteration
        earlier = self.steps.get(key)
        step = StepTally(
            executions=1 + (earlier.executions if earlier else 0),
            last_iteration=max(iteration, earlier.last_iteration) if earlier else iteration,
            newest=record,
        )
        cost = None
        if self.cost_usd is not None and record.cost_usd is not None:
            cost = self.cost_usd + record.cost_usd
        own = record.execution.agent != HUMAN
        history = (*self.by_flow.get(record.flow, ()), record)
        return Tally(
            steps={**self.steps, key: step},
            by_flow={**self.by_flow, record.flow: history} if own else self.by_flow,
            tokens=self.tokens + record.tokens,
            cost_usd=cost,
        )

    def without_costs(self) -> Tally:
        """For a fork: what its shared steps cost was spent by the run that it comes from."""
        return replace(self, tokens=0, cost_usd=0.0)
