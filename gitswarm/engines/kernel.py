"""The `kernel` engine: git-swarm's own operations, and people's, as steps with the same receipts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gitswarm.engines.base import (
    LOCAL_WORK,
    Capabilities,
    Emit,
    StepRequest,
    StepResult,
    WithoutModel,
)

Operation = Callable[[StepRequest, Emit], StepResult]


@dataclass(frozen=True, slots=True)
class KernelEngine(WithoutModel):
    """Carries out what the runner hands in. No model, no cost."""

    operation: Operation
    engine_id: str = "kernel"
    mode: str = "local"
    capabilities: Capabilities = LOCAL_WORK

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        return self.operation(request, emit)
