"""Steps that git-swarm carries out itself: an operation in place of an engine, committed as any other step."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.engines.kernel import KernelEngine, Operation
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import Execution
from gitswarm.records.routing import Decision
from gitswarm.runner.engines import OWN
from gitswarm.runner.session import Session, Workplace
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


def execute_operation(session: Session, place: Workplace, plan: StepPlan, operation: Operation) -> RunState:
    own = replace(session, engines={**session.engines, OWN.key: KernelEngine(operation)})
    return execute_step(own, place, plan)
