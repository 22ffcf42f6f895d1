"""What is open in a run, with the facts."""

from __future__ import annotations

from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern
from gitswarm.records.evidence import Concern
from gitswarm.runner.session import Session
from gitswarm.runner.stored import evidence_of


def open_concerns(session: Session, state: RunState, *, blocking: bool = False) -> tuple[Concern, ...]:
    """The oldest first.

    :param blocking: only those that keep the run from being proven.
    """
    chosen = state.blocking if blocking else state.concerns
    return tuple(told_concern(session, concern) for concern in chosen)


def told_concern(session: Session, concern: OpenConcern) -> Concern:
    """What the evidence of the step that opened it says of a concern."""
    evidence = evidence_of(session, concern.opened_by)
    for each in evidence.opened if evidence is not None else ():
        if each.id == concern.id:
            return each
    return Concern(id=concern.id, flag=concern.id.partition("@")[0], blocking=concern.blocking, fact="")
