"""Steps that git-swarm carries out itself: planned, executed, and the report that stations after them read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import StepRequest, StepResult
from gitswarm.engines.command import KernelEngine, Operation
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Execution, Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import pretty_json
from gitswarm.records.routing import Decision
from gitswarm.runner.run_engines import OWN
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.execute import execute_step
from gitswarm.runner.step.plan import StepPlan
from gitswarm.specs.flow import Step


def operation_plan(
    session: Session, state: RunState, decision: Decision, execution: Execution, *, keeps_code: bool
) -> StepPlan:
    return StepPlan(
        flow=session.specs.flows[execution.flow],
        step=Step(id=execution.step, station=execution.agent),
        execution=execution,
        choice=OWN,
        session=None,
        before=state,
        decision=decision,
        keeps_code=keeps_code,
    )


def execute_operation(session: Session, worktree: RunWorktree, plan: StepPlan, operation: Operation) -> RunState:
    own = replace(session, engines={**session.engines, OWN.key: KernelEngine(operation)})
    return execute_step(own, worktree, plan)


class KernelStep(Struct, frozen=True):
    """One execution of a kernel step: the run that it finds, and where it works."""

    session: Session
    worktree: RunWorktree
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
    """The result of an operation that was finished, whatever it found. The report is the step's first output, and
    `evidence.operation` of conditions."""
    for artifact in step.plan.artifacts[:1]:
        path = request.run_base / artifact
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pretty_json(dict(report)))
    return handed_off(step.plan.step.id, handoff, report, trailers)


def handed_off(
    step: str,
    handoff: Handoff,
    facts: Mapping[str, JsonValue] | None = None,
    trailers: Mapping[str, str] | None = None,
) -> StepResult:
    """The result of a step that succeeded and says no more than its handoff."""
    return StepResult(
        step, Result.SUCCEEDED, handoff.summary, handoff=handoff, facts=dict(facts or {}), trailers=trailers or {}
    )
