"""The `kernel` engine: git-swarm's own operations, and people's, as steps with the same receipts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from gitswarm.engines.base import Capabilities, Emit, RouteQuestion, StepRequest, StepResult

_LOCAL = Capabilities(modes=("local",), session=False, writes_code=True)

Operation = Callable[[StepRequest, Emit], StepResult]


@dataclass(frozen=True, slots=True)
class KernelEngine:
    """Carries out what the runner hands in. No model, no cost."""

    operation: Operation
    engine_id: str = "kernel"
    capabilities: Capabilities = _LOCAL

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        return self.operation(request, emit)

    def route(self, question: RouteQuestion) -> JsonValue | str:
        del question
        return None
