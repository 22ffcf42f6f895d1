"""The operation that a kernel step carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitswarm.engines import kernel
from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.state import RunState
from gitswarm.runner.new_ground import stand_on_new_ground
from gitswarm.runner.operations.checks import ScanSecrets, Verify
from gitswarm.runner.operations.deploying import Approve, Land, RecordNotDeployed
from gitswarm.runner.operations.forge.harvest import Harvest
from gitswarm.runner.operations.forge.publish import Publish
from gitswarm.runner.operations.forge.watch_ci import WatchCi
from gitswarm.runner.operations.kernel_step import KernelStep
from gitswarm.runner.operations.reset import CarryOver, FetchUpstream, Rebase
from gitswarm.runner.operations.wisdom import WriteTrail
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.operation import execute_operation
from gitswarm.runner.step.plan import StepPlan
from gitswarm.specs.flow import Operation

OPERATIONS: Mapping[Operation, Callable[[KernelStep], kernel.Operation]] = {
    "verify": Verify,
    "scan_secrets": ScanSecrets,
    "publish": Publish,
    "harvest": Harvest,
    "approve": Approve,
    "land": Land,
    "record_not_deployed": RecordNotDeployed,
    "watch_ci": WatchCi,
    "wisdom": WriteTrail,
    "fetch_upstream": FetchUpstream,
    "rebase": Rebase,
    "carry_over": CarryOver,
}


def execute_kernel_step(session: Session, place: Workplace, plan: StepPlan) -> RunState:
    """Carries out and commits a step with an operation; the state after it."""
    if plan.step.operation is None:
        raise ValueError(f"{plan.step.id} has no operation")
    operation = OPERATIONS[plan.step.operation](KernelStep(session, place, plan))
    after = execute_operation(session, place, plan, operation)
    follow_approval(session.repository, after)
    return stand_on_new_ground(session, after)
