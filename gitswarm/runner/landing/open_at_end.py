"""What is open when a run is approved, and what a person accepts of it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from gitswarm.errors import SwarmError
from gitswarm.ledger.state import RunState
from gitswarm.records.concern import AcceptedConcern, Concern, concern_id
from gitswarm.records.outcome import RunStatus
from gitswarm.runner.session import Session
from gitswarm.runner.step.concerns import open_concerns
from gitswarm.runner.step.findings import accepted_so_far, not_waived
from gitswarm.runner.step.test_steps import untested


def concerns_at_end(session: Session, state: RunState) -> tuple[Concern, ...]:
    """What is open, with what the run would find at the end of its way: nothing is approved untested."""
    known = open_concerns(session, state)
    if state.end is RunStatus.SUCCEEDED:
        return known
    flows = (
        session.specs.flows.get(name) for name in dict.fromkeys(state.tally.journey)
    )  # a fork's may be another's
    missing = ((flow.id, step) for flow in flows if flow and (step := untested(session, state, flow)) is not None)
    names = {concern.id for concern in known}
    told = f"the run is {state.end}, and " if state.end is not None else ""
    skipped = (
        Concern(
            id=concern_id("tests_not_run", flow, step),
            flag="tests_not_run",
            blocking=True,
            fact=f"{told}no test of {flow} ran on its code",
        )
        for flow, step in missing
    )
    accepted = accepted_so_far(session, state)
    more = (concern for concern in skipped if concern.id not in names and not_waived(concern, accepted) is not None)
    return (*known, *more)


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


def _hint(state: RunState, known: tuple[Concern, ...]) -> str:
    run = state.layout.run_id
    return f"open: {', '.join(concern.id for concern in known)}" if known else f"git swarm status {run}"
