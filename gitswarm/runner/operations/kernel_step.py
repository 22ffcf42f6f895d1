"""What an operation works on, and the report that it leaves for the stations after it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.engines.base import StepRequest, StepResult
from gitswarm.ledger.state import RunState
from gitswarm.records.base import pretty_json
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Result
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.plan import StepPlan


class KernelStep(Struct, frozen=True):
    """One execution of a kernel step: the run that it finds, and where it works."""

    session: Session
    place: Workplace
    plan: StepPlan

    @property
    def state(self) -> RunState:
        """The run before the step."""
        return self.plan.before

    @property
    def run(self) -> str:
        return self.session.layout.run_id

    def earlier(self, artifact: str) -> dict[str, JsonValue]:
        """An earlier report by its path in RUN_BASE; empty when there is none that can be read."""
        content = self.session.repository.objects.file(self.state.tip_tree, f"{self.session.layout.base}/{artifact}")
        try:
            fields = json.loads(content or b"{}")
        except ValueError:
            return {}
        return fields if isinstance(fields, dict) else {}

    def text(self, artifact: str) -> str:
        """An artifact of RUN_BASE as text; empty when there is none."""
        content = self.session.repository.objects.file(self.state.tip_tree, f"{self.session.layout.base}/{artifact}")
        return (content or b"").decode(errors="replace")


def reported(
    step: KernelStep,
    request: StepRequest,
    handoff: Handoff,
    report: Mapping[str, JsonValue],
    trailers: Mapping[str, str] | None = None,
) -> StepResult:
    """The result of an operation that came to its end, whatever it found. The report is the step's first output, and
    `evidence.operation` of conditions."""
    for artifact in step.plan.artifacts[:1]:
        path = request.run_base / artifact
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pretty_json(dict(report)))
    return StepResult(
        step.plan.step.id,
        Result.SUCCEEDED,
        handoff.summary,
        handoff=handoff,
        facts=dict(report),
        trailers=trailers or {},
    )
