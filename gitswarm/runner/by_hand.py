"""What people do themselves in a run: edits that become a step, a step that they skip."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.engines.kernel import KernelEngine
from gitswarm.errors import SwarmError
from gitswarm.ledger.layout import HUMAN, Execution
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Result, Status
from gitswarm.records.routing import Decision
from gitswarm.records.run_spec import EngineChoice
from gitswarm.runner.deciding.route import decide_skip, decision_by_hand, repeat_decision
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.execute import execute_step
from gitswarm.runner.step.plan import Resumption, StepPlan
from gitswarm.runner.undo.recovery import look, take_place
from gitswarm.runner.workplace import prepare_worktree
from gitswarm.specs.flow import Step

KERNEL = EngineChoice(engine="kernel", mode="local", provider="none", model="none")
ADOPT = "adopt"


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What a person says when they let a run go on. `skip`: the step to skip, `step` or `flow/step`;
    `approve`: carry out what the navigator proposed."""

    answer: str = ""
    adopt: bool = False
    skip: str | None = None
    approve: bool = False


def by_hand(session: Session, state: RunState, options: ResumeOptions) -> tuple[Workplace, RunState, Decision]:
    """Commits what a person did as a step of agent `human`; where the run goes on from.

    :raises SwarmError: there is nothing to adopt, or another step is next than the one to skip.
    """
    decision = decision_by_hand(session, state)
    if options.adopt:
        place, state = _adopt(session, state, decision)
        decision = repeat_decision(session, state, decision)
    else:
        place = take_place(session, state)
    if options.skip is not None:
        state = _skip(session, place, state, decision, options)
        decision = decide_skip(session, state)
    return place, state, decision


def _adopt(session: Session, state: RunState, decision: Decision) -> tuple[Workplace, RunState]:
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    if left.journals:
        raise SwarmError(
            f"{left.journals[-1].step} was cut off: what lies in the worktree is its work, not yours",
            hint=f"git swarm resume {session.layout.run_id}   (its work is kept aside)",
        )
    if not left.is_dirty:
        raise SwarmError(
            f"nothing to adopt: {shadow.path} is as the last step left it",
            hint=f"edit there, or: git swarm resume {session.layout.run_id}",
        )
    place = Workplace.of(session, shadow)
    summary = f"edits made by hand, before {decision.next_flow}/{decision.to_step}"
    handoff = Handoff(status=Status.UNVERIFIED, summary=summary)
    plan = _plan(session, state, decision.model_copy(update={"events": ()}), ADOPT)
    return place, _execute(session, place, plan, StepResult(ADOPT, Result.SUCCEEDED, summary, handoff=handoff))


def _skip(
    session: Session, place: Workplace, state: RunState, decision: Decision, options: ResumeOptions
) -> RunState:
    pending = decision.fork.pending if decision.fork is not None else (decision.to_step,)
    step = next((name for name in pending if name and options.skip in (name, f"{decision.next_flow}/{name}")), None)
    if step is None:
        names = " or ".join(f"{decision.next_flow}/{name}" for name in pending)
        raise SwarmError(
            f"the next step is {names}, not {options.skip}",
            hint=f"git swarm skip {pending[0]} --run {session.layout.run_id}",
        )
    why = f"skipped by hand: {options.answer}" if options.answer else "skipped by hand"
    handoff = Handoff(status=Status.UNVERIFIED, summary=why)
    plan = _plan(session, state, decision.model_copy(update={"to_step": step}), step)
    return _execute(session, place, plan, StepResult(step, Result.SKIPPED, why, handoff=handoff))


def _plan(session: Session, state: RunState, decision: Decision, step_id: str) -> StepPlan:
    flow = session.specs.flows[decision.next_flow]
    iteration = state.last_iteration(flow.id, step_id) + 1
    return StepPlan(
        flow=flow,
        step=Step(id=step_id, station=HUMAN),
        execution=Execution(session.layout, flow.id, step_id, iteration, HUMAN),
        choice=KERNEL,
        session=None,
        before=state,
        decision=decision,
        resumption=Resumption(),
        station=None,
    )


def _execute(session: Session, place: Workplace, plan: StepPlan, result: StepResult) -> RunState:
    def operation(_request: StepRequest, _emit: Emit) -> StepResult:
        return result

    own = replace(session, engines={**session.engines, KERNEL.key: KernelEngine(operation)})
    return execute_step(own, place, plan)
