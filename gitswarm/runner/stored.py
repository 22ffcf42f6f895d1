"""What a committed step left in its commit, read again."""

from __future__ import annotations

from pydantic import JsonValue

from gitswarm.ledger.reading import parsed
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


def limited_until(receipt: JsonValue) -> str | None:
    """When the usage limit ends that the step met (`EngineOutcome.resets_at`); None: it met none."""
    outcome = receipt.get("outcome") if isinstance(receipt, dict) else None
    until = outcome.get("resets_at") if isinstance(outcome, dict) else None
    return until if isinstance(until, str) else None


def _where(record: StepRecord, path: str) -> str:
    return f"{record.commit[:12]}:{path}"
