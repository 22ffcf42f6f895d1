"""Steps that a person types out of band: the run ends afterwards as it had ended before."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.engines.kernel import Operation
from gitswarm.errors import SwarmError
from gitswarm.git.object_reader import NewCommit
from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import AcceptedConcern
from gitswarm.records.execution import Execution
from gitswarm.records.outcome import Result, RunStatus, Status
from gitswarm.runner.deciding.route import decision_at_end, repeat_decision
from gitswarm.runner.human import ADOPT
from gitswarm.runner.run import RunOutcome, end_run
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.operation import execute_operation, operation_plan
from gitswarm.runner.step.plan import OutOfBand
from gitswarm.runner.undo.recovery import drop_journals, look, standing_partial, take_place, tidy_index
from gitswarm.runner.workplace import prepare_worktree
from gitswarm.worktree.land import remove_landing


class OutOfBandStep(Struct, frozen=True):
    """`step` is its id, `agent` who does it. `make`: makes the commit, when that is to be signed. `keeps_code`: what
    lies in the worktree is no part of it. `accepted`: concerns that may stay."""

    step: str
    agent: str
    operation: Operation
    make: Callable[[NewCommit], str] | None = None
    keeps_code: bool = True
    accepted: tuple[AcceptedConcern, ...] = ()


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
    return _end_again(session, take_place(session, state), state, newest.parent)


def execute_out_of_band(session: Session, state: RunState, what: OutOfBandStep) -> RunState:
    """Commits the step and the `end` after it.

    :param state: a run that has ended.
    """
    return _execute(session, take_place(session, state), state, what)


def adopt_out_of_band(session: Session, state: RunState) -> RunState | None:
    """What a person changed in the worktree, as a step of theirs; None: nothing.

    :param state: a run that succeeded, so that no step of it has left anything there.
    """
    shadow = prepare_worktree(session)
    left = look(session, state, shadow)
    if not left.is_dirty:
        return None
    place = Workplace.of(session, shadow)
    for journal in left.journals:
        journal.path.unlink(missing_ok=True)
    summary = "edits made by hand, after the run had succeeded"
    handoff = Handoff(status=Status.UNVERIFIED, summary=summary)

    result = StepResult(ADOPT, Result.SUCCEEDED, summary, handoff=handoff)
    step = OutOfBandStep(ADOPT, HUMAN, lambda _request, _emit: result, keeps_code=False)
    return _execute(session, place, state, step)


def _execute(session: Session, place: Workplace, state: RunState, what: OutOfBandStep) -> RunState:
    flow = state.steps[-1].flow if state.steps else session.spec.flows[0]
    iteration = max(state.last_iteration(flow, what.step), place.interrupted.get((flow, what.step), 0)) + 1
    decision = decision_at_end(session, state.tip).model_copy(update={"proposal": None})
    execution = Execution(session.layout.run_id, flow, what.step, iteration, what.agent)
    plan = operation_plan(session, state, decision, execution, keeps_code=what.keeps_code)
    plan = replace(plan, out_of_band=OutOfBand(what.make, what.accepted))
    after = execute_operation(session, place, plan, what.operation)
    follow_approval(session.repository, after)
    return _end_again(session, place, after, state.tip)


def _end_again(session: Session, place: Workplace, state: RunState, earlier: str) -> RunState:
    """
    :param earlier: the `end` commit that the step stands on.
    """
    decision = repeat_decision(session, state, decision_at_end(session, earlier))
    partial = standing_partial(session, replay(session.repository, session.layout, earlier))
    if partial is not None:  # the step that was cut off goes on to wait for `resume`
        partial = partial.model_copy(update={"end": state.ends + 1})
    return end_run(session, place, state, RunOutcome(_status(session, earlier), decision, partial))


def _status(session: Session, end: str) -> RunStatus:
    message = parse_message(session.repository.objects.commit(end).message)
    if message is None or message.trailers.get("Swarm-Kind") != Kind.END:
        raise SwarmError(f"{end[:12]} is not the end of a run", hint=f"git swarm log {session.layout.run_id}")
    return RunStatus(message.trailers["Swarm-Result"])
