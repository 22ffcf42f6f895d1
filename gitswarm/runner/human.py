"""Steps of a person: edits that become a step, a step that is skipped."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.errors import SwarmError
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Execution
from gitswarm.records.outcome import Result, Status
from gitswarm.records.review import Feedback
from gitswarm.records.routing import Decision
from gitswarm.runner.deciding.route import (
    choice_by_hand,
    decide_by_hand,
    decide_skip,
    pending_decision,
    repeat_decision,
)
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.operation import execute_operation, operation_plan
from gitswarm.runner.step.plan import Resumption
from gitswarm.runner.undo.recovery import look, take_place
from gitswarm.runner.workplace import prepare_worktree

ADOPT = "adopt"


class ResumeOptions(Struct, frozen=True):
    """What a person adds to `resume`. `skip`: the step to skip, `step` or `flow/step`; `approve`: carry out what the
    navigator proposed; `accept`: concerns that may stay, id → why; `allow`: files in which no secret is, path → why;
    `feedback`: what others said about the change; `budget`: limits by name, None: none any more."""

    answer: str = ""
    adopt: bool = False
    skip: str | None = None
    approve: bool = False
    accept: Mapping[str, str] = field(default_factory=dict)
    allow: Mapping[str, str] = field(default_factory=dict)
    feedback: Feedback | None = None
    budget: Mapping[str, float | None] = field(default_factory=dict)


def commit_human_step(
    session: Session, state: RunState, options: ResumeOptions
) -> tuple[Workplace, RunState, Decision]:
    """The step of agent `human` that the options ask for; where the run continues.

    :raises SwarmError: there is nothing to adopt, or another step is next than the one to skip.
    """
    # What is refused must not have decided that a run goes on which would end here.
    edited = _place_with_edits(session, state) if options.adopt else None
    decision = pending_decision(session, state)
    skipped = _step_to_skip(session, state, decision, options.skip) if options.skip is not None else None
    decision = decide_by_hand(session, state, decision)
    place = edited or take_place(session, state)
    if edited is not None:
        state = _adopt(session, place, state, decision)
        decision = repeat_decision(session, state, decision)
    if skipped is not None:
        state = _skip(session, place, state, decision.model_copy(update={"to_step": skipped}), options.answer)
        decision = decide_skip(session, state)
    return place, state, decision


def _place_with_edits(session: Session, state: RunState) -> Workplace:
    """The worktree with what a person changed there.

    :raises SwarmError: nothing, or it is what a step left that was cut off.
    """
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    if left.journals:
        raise SwarmError(
            f"{left.journals[-1].step} was interrupted: the changes in the worktree are its work, not yours",
            hint=f"git swarm resume {session.layout.run_id}   (keeps its work)",
        )
    if not left.is_dirty:
        raise SwarmError(
            f"nothing to adopt: {shadow.path} is as the last step left it",
            hint=f"edit there, or: git swarm resume {session.layout.run_id}",
        )
    return Workplace.of(session, shadow)


def _adopt(session: Session, place: Workplace, state: RunState, decision: Decision) -> RunState:
    summary = f"edits made by hand, before {decision.next_flow}/{decision.to_step}"
    handoff = Handoff(status=Status.UNVERIFIED, summary=summary)
    result = StepResult(ADOPT, Result.SUCCEEDED, summary, handoff=handoff)
    return _execute(session, place, state, decision.model_copy(update={"events": ()}), result)


def _step_to_skip(session: Session, state: RunState, decision: Decision, asked: str) -> str:
    """
    :raises SwarmError: another step is next.
    """
    choice = choice_by_hand(session, state, decision)
    flow = choice.to_flow or decision.flow_key
    pending = choice.fork.pending if choice.fork is not None else (choice.to_step,)
    step = next((name for name in pending if name and asked in (name, f"{flow}/{name}")), None)
    if step is None:
        names = " or ".join(f"{flow}/{name}" for name in pending)
        raise SwarmError(
            f"the next step is {names}, not {asked}",
            hint=f"git swarm skip {pending[0]} --run {session.layout.run_id}",
        )
    return step


def _skip(session: Session, place: Workplace, state: RunState, decision: Decision, answer: str) -> RunState:
    why = f"skipped by hand: {answer}" if answer else "skipped by hand"
    handoff = Handoff(status=Status.UNVERIFIED, summary=why)
    result = StepResult(decision.to_step or "", Result.SKIPPED, why, handoff=handoff)
    return _execute(session, place, state, decision, result)


def _execute(session: Session, place: Workplace, state: RunState, decision: Decision, result: StepResult) -> RunState:
    flow, step = decision.next_flow, result.step_id
    iteration = state.last_iteration(flow, step) + 1
    execution = Execution(session.layout.run_id, flow, step, iteration, HUMAN)
    plan = operation_plan(session, state, decision, execution, keeps_code=result.status is Result.SKIPPED)
    return execute_operation(session, place, replace(plan, resumption=Resumption()), lambda _request, _emit: result)
