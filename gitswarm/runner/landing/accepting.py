"""A person's word that concerns may stay."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from gitswarm.engines.base import StepResult
from gitswarm.errors import SwarmError
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.state import RunState
from gitswarm.records.concern import AcceptedConcern, Concern, concern_id
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Result, RunStatus, Status
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.session import Session
from gitswarm.runner.step.concerns import open_concerns
from gitswarm.runner.step.test_steps import untested

ACCEPT = "accept"


def concerns_at_end(session: Session, state: RunState) -> tuple[Concern, ...]:
    """What is open in a run that has ended, with what it would have found at the end of its way.

    :param state: a run that has ended.
    """
    known = open_concerns(session, state)
    if state.end is RunStatus.SUCCEEDED:
        return known
    entered = (session.specs.flows[name] for name in dict.fromkeys(state.tally.journey))
    missing = ((flow.id, step) for flow in entered if (step := untested(session, state, flow)) is not None)
    names = {concern.id for concern in known}
    skipped = (
        Concern(
            id=concern_id("tests_not_run", flow, step),
            flag="tests_not_run",
            blocking=True,
            fact=f"the run is {state.end}, and no test of {flow} has seen its code",
        )
        for flow, step in missing
    )
    return (*known, *(concern for concern in skipped if concern.id not in names))


def accepted_concerns(session: Session, state: RunState, accept: Mapping[str, str]) -> tuple[AcceptedConcern, ...]:
    """
    :param accept: id, or a glob of ids, → why.
    :raises SwarmError: nothing that is open has such an id.
    """
    known = concerns_at_end(session, state)
    found: dict[str, AcceptedConcern] = {}
    for wanted, why in accept.items():
        fitting = [concern for concern in known if fnmatchcase(concern.id, wanted)]
        if not fitting:
            raise SwarmError(f"no open concern {wanted}", hint=_hint(state, known))
        for concern in fitting:
            found.setdefault(concern.id, AcceptedConcern(id=concern.id, why=why, names=concern.names))
    return tuple(found.values())


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


def _hint(state: RunState, known: tuple[Concern, ...]) -> str:
    run = state.layout.run_id
    return f"open: {', '.join(concern.id for concern in known)}" if known else f"git swarm status {run}"
