"""A person's word that concerns may stay."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.engines.base import StepResult
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Result, Status
from gitswarm.runner.landing.open_at_end import accepted_concerns
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.session import Session

ACCEPT = "accept"


def accept_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> RunState:
    """A step of agent `human` that says so; the run ends after it as it had ended.

    :param state: a run that has ended.
    :raises SwarmError: nothing that is open has such an id.
    """
    accepted = accepted_concerns(session, state, accept)
    summary = "accepted: " + "; ".join(f"{each.id} ({each.why})" for each in accepted)
    handoff = Handoff(status=Status.VERIFIED, summary=summary)
    result = StepResult(ACCEPT, Result.SUCCEEDED, summary, handoff=handoff)
    step = OutOfBandStep(ACCEPT, HUMAN, lambda _request, _emit: result, accepted=accepted)
    return execute_out_of_band(session, state, step)
