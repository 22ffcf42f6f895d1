"""What the agent of one step may do."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from gitswarm.records.policy import Allow, Decide, Rewrite, Verdict
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.plan import StepPlan


def permissions(session: Session, place: Workplace, plan: StepPlan) -> Decide:
    def decide(tool: str, given: Mapping[str, JsonValue]) -> Verdict:
        path = str(given.get("file_path", ""))
        if path.startswith("RUN_BASE/"):
            real = place.shadow.path / session.layout.base / path.removeprefix("RUN_BASE/")
            return Rewrite({**given, "file_path": str(real)}, "x")
        return Allow()

    return decide
