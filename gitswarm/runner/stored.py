"""What a committed step left in its commit, read again."""

from __future__ import annotations

from gitswarm.ledger.finding import parsed
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.runner.session import Session


def envelope_of(session: Session, record: StepRecord) -> Envelope | None:
    """
    :raises GarbledError: it is not what git-swarm wrote there.
    """
    content = session.repository.objects.file(record.tree, record.execution.envelope)
    if content is None:
        return None
    return parsed(Envelope.from_json, content, session.layout, _where(record, record.execution.envelope))


def evidence_of(session: Session, record: StepRecord) -> Evidence | None:
    """
    :raises GarbledError: as `envelope_of`.
    """
    content = session.repository.objects.file(record.tree, record.execution.evidence)
    if content is None:
        return None
    return parsed(Evidence.from_json, content, session.layout, _where(record, record.execution.evidence))


def _where(record: StepRecord, path: str) -> str:
    return f"{record.commit[:12]}:{path}"
