"""Stands in the place of an engine that is not on this machine, so that whatever else belongs to the run goes on."""

from __future__ import annotations

from dataclasses import dataclass

from gitswarm.engines.base import LOCAL_WORK, Capabilities, Emit, StepRequest, StepResult, WithoutModel
from gitswarm.records.engine_outcome import EngineOutcome
from gitswarm.records.outcome import Result


@dataclass(frozen=True, slots=True)
class MissingEngine(WithoutModel):
    """Each step that asks it fails, and says why."""

    engine_id: str
    mode: str
    problem: str
    capabilities: Capabilities = LOCAL_WORK

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        del emit
        return StepResult(
            step_id=request.execution.step,
            status=Result.FAILED,
            output="",
            error=self.problem,
            outcome=EngineOutcome(kind="engine_missing", detail=self.problem),
        )
