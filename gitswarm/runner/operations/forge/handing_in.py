"""A person hands in feedback while a run is under way: it is stored as a step of theirs."""

from __future__ import annotations

from gitswarm.engines.base import StepResult
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Result, Status
from gitswarm.records.review import Feedback
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.operations.forge.feedback import GIVEN, bounded
from gitswarm.runner.session import Session


def hand_in(session: Session, state: RunState, feedback: Feedback) -> RunState:
    """The next `harvest` brings it home, in place of what was handed in before.

    :param state: a run that has ended; it ends after it as it had ended.
    """
    clean = bounded(feedback.items, session.redactor.scrub)
    clean = clean.model_copy(update={"left_out": feedback.left_out + clean.left_out})
    summary = f"feedback handed in: {len(clean.items)} item{'' if len(clean.items) == 1 else 's'}"
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    facts = clean.model_dump(mode="json")
    result = StepResult(GIVEN, Result.SUCCEEDED, summary, handoff=handoff, facts=facts)
    return execute_out_of_band(session, state, OutOfBandStep(GIVEN, HUMAN, lambda _request, _emit: result))
