"""Steps of a person: edits, a skipped step, and what is typed after the run has ended, which then ends as before."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.engines.command import Operation
from gitswarm.errors import SwarmError
from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Execution, Result, RunStatus, Status
from gitswarm.records.routing import Decision
from gitswarm.records.worklists import Feedback
from gitswarm.runner.deciding.route import (
    choice_by_hand,
    decide_by_hand,
    decide_skip,
    decision_at_end,
    pending_decision,
    repeat_decision,
)
from gitswarm.runner.run_end import RunOutcome, end_run
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree, prepare_worktree
from gitswarm.runner.step.operation import execute_operation, handed_off, operation_plan
from gitswarm.runner.step.plan import OutOfBand, Resumption
from gitswarm.runner.undo.recovery import current_partial, drop_journals, look, restore_worktree, tidy_index
from gitswarm.worktree.extra_worktrees import remove_landing

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
) -> tuple[RunWorktree, RunState, Decision]:
    """The step of agent `human` that the options ask for; where the run continues.

    :raises SwarmError: there is nothing to adopt, or another step is next than the one to skip.
    """
    # What is refused must not have decided that a run continues which would end here.
    edited = _worktree_with_edits(session, state) if options.adopt else None
    decision = pending_decision(session, state)
    skipped = _step_to_skip(session, state, decision, options.skip) if options.skip is not None else None
    decision = decide_by_hand(session, state, decision)
    worktree = edited or restore_worktree(session, state)
    if edited is not None:
        state = _adopt(session, worktree, state, decision)
        decision = repeat_decision(session, state, decision)
    if skipped is not None:
        state = _skip(session, worktree, state, replace(decision, to_step=skipped), options.answer)
        decision = decide_skip(session, state)
    return worktree, state, decision


def _worktree_with_edits(session: Session, state: RunState) -> RunWorktree:
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
    return RunWorktree.of(session, shadow)


def _adopt(session: Session, worktree: RunWorktree, state: RunState, decision: Decision) -> RunState:
    summary = f"edits made by hand, before {decision.next_flow}/{decision.to_step}"
    result = handed_off(ADOPT, Handoff(status=Status.UNVERIFIED, summary=summary))
    return _commit_result(session, worktree, state, replace(decision, events=()), result)


def _step_to_skip(session: Session, state: RunState, decision: Decision, asked: str) -> str:
    """
    :raises SwarmError: another step is next.
    """
    choice = choice_by_hand(session, state, decision)
    flow = choice.to_flow or decision.flow_key
    pending = choice.fork.pending if choice.fork is not None else (choice.to_step,)
    step = next((name for name in pending if name and asked in (name, f"{flow}/{name}")), None)
    if step is None and not any(pending):
        run = session.layout.run_id
        raise SwarmError("no step is next: the flow is at its end", hint=f"git swarm status {run}")
    if step is None:
        names = " or ".join(f"{flow}/{name}" for name in pending)
        raise SwarmError(
            f"the next step is {names}, not {asked}",
            hint=f"git swarm skip {pending[0]} --run {session.layout.run_id}",
        )
    return step


def _skip(session: Session, worktree: RunWorktree, state: RunState, decision: Decision, answer: str) -> RunState:
    why = f"skipped by hand: {answer}" if answer else "skipped by hand"
    handoff = Handoff(status=Status.UNVERIFIED, summary=why)
    result = StepResult(decision.to_step or "", Result.SKIPPED, why, handoff=handoff)
    return _commit_result(session, worktree, state, decision, result)


def _commit_result(
    session: Session, worktree: RunWorktree, state: RunState, decision: Decision, result: StepResult
) -> RunState:
    flow, step = decision.next_flow, result.step_id
    iteration = state.last_iteration(flow, step) + 1
    execution = Execution(session.layout.run_id, flow, step, iteration, HUMAN)
    plan = operation_plan(session, state, decision, execution, keeps_code=result.status is Result.SKIPPED)
    return execute_operation(
        session, worktree, replace(plan, resumption=Resumption()), lambda _request, _emit: result
    )


class OutOfBandStep(Struct, frozen=True):
    """`step` is its id, `agent` who does it. `keeps_code`: what lies in the worktree is no part of it."""

    step: str
    agent: str
    operation: Operation
    out_of_band: OutOfBand = OutOfBand()
    keeps_code: bool = True

    @classmethod
    def of(
        cls, result: StepResult, out_of_band: OutOfBand | None = None, *, keeps_code: bool = True
    ) -> OutOfBandStep:
        """A step of a person, whose result is known."""
        out_of_band = out_of_band or OutOfBand()
        return cls(result.step_id, HUMAN, lambda _request, _emit: result, out_of_band, keeps_code)


def settled(session: Session, state: RunState) -> RunState:
    """The run with the `end` that a killed process did not come to after such a step, and without what it left.

    :raises SwarmError: the run has not ended: its own steps are still to come.
    """
    if state.end is not None:
        drop_journals(session, state)
        remove_landing(session.repository, session.layout.run_id, session.locks)
        tidy_index(session, state)
        return state
    newest = state.steps[-1] if state.steps else None
    if newest is None or not newest.by_command or newest.commit != state.tip:
        run = session.layout.run_id
        raise SwarmError(f"{run} was interrupted: it is not complete", hint=f"git swarm resume {run}")
    return _end_again(session, restore_worktree(session, state), state, newest.parent)


def execute_out_of_band(session: Session, state: RunState, what: OutOfBandStep) -> RunState:
    """Commits the step and the `end` after it.

    :param state: a run that has ended.
    """
    return _execute_ended(session, restore_worktree(session, state), state, what)


def adopt_out_of_band(session: Session, state: RunState) -> RunState | None:
    """What a person changed in the worktree, as a step of theirs; None: nothing.

    :param state: a run that succeeded, so that no step of it has left anything there.
    """
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    if not left.is_dirty:
        return None
    worktree = RunWorktree.of(session, shadow)
    for journal in left.journals:
        journal.path.unlink(missing_ok=True)
    summary = "edits made by hand, after the run had succeeded"
    result = handed_off(ADOPT, Handoff(status=Status.UNVERIFIED, summary=summary))
    step = OutOfBandStep.of(result, keeps_code=False)
    return _execute_ended(session, worktree, state, step)


def _execute_ended(session: Session, worktree: RunWorktree, state: RunState, what: OutOfBandStep) -> RunState:
    flow = state.steps[-1].flow if state.steps else session.spec.flows[0]
    iteration = max(state.last_iteration(flow, what.step), worktree.interrupted.get((flow, what.step), 0)) + 1
    decision = replace(decision_at_end(session, state.tip), proposal=None)
    execution = Execution(session.layout.run_id, flow, what.step, iteration, what.agent)
    plan = operation_plan(session, state, decision, execution, keeps_code=what.keeps_code)
    after = execute_operation(session, worktree, replace(plan, out_of_band=what.out_of_band), what.operation)
    follow_approval(session.repository, after)
    return _end_again(session, worktree, after, state.tip)


def _end_again(session: Session, worktree: RunWorktree, state: RunState, earlier: str) -> RunState:
    """
    :param earlier: the `end` commit that the step stands on.
    """
    decision = repeat_decision(session, state, decision_at_end(session, earlier))
    partial = current_partial(session, replay(session.repository, session.layout, earlier))
    if partial is not None:  # the step that was cut off still waits for `resume`
        partial = replace(partial, end=state.ends + 1)
    return end_run(session, worktree, state, RunOutcome(_status(session, earlier), decision, partial))


def _status(session: Session, end: str) -> RunStatus:
    message = parse_message(session.repository.objects.commit(end).message)
    if message is None or message.trailers.get("Swarm-Kind") != Kind.END:
        raise SwarmError(f"{end[:12]} is not the end of a run", hint=f"git swarm log {session.layout.run_id}")
    return RunStatus(message.trailers["Swarm-Result"])
