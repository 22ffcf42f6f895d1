"""What a step's commit says because its records say so: the runner writes it, `verify` derives it again."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.ledger.message import CommitMessage, Kind
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence, concerns_trailer
from gitswarm.records.execution import Execution, Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Receipt
from gitswarm.records.text import words, written

_OF_RECORDS = words("Swarm-Engine Swarm-Model Swarm-Status Swarm-Result Swarm-Tokens Swarm-Cost-USD Swarm-Concerns")


def records_to_json(receipt: Receipt, envelope: Envelope, evidence: Evidence, run_format: int) -> dict[str, bytes]:
    """Path → content of the records that every step has.

    :param run_format: of the run that they are stored in.
    """
    execution = _identity(receipt)
    return {
        execution.receipt: receipt.to_json(run_format),
        execution.envelope: envelope.to_json(),
        execution.evidence: evidence.to_json(),
    }


def step_message(
    receipt: Receipt, envelope: Envelope, evidence: Evidence, position: Mapping[str, str], seq: int
) -> CommitMessage:
    """
    :param position: trailers about where in the run the step is executed.
    :param seq: how many events it has.
    """
    execution, summary = _identity(receipt), envelope.summary
    known = receipt_trailers(receipt) | envelope_trailers(envelope) | evidence_trailers(evidence)
    facts = {name: known[name] for name in _OF_RECORDS}
    trailers = {"Swarm-Kind": Kind.STEP, **execution.trailers, **position, **facts, "Swarm-Seq": str(seq)}
    return CommitMessage(f"{subject_start(execution)}{summary}", summary, trailers)


def subject_start(execution: Execution) -> str:
    return f"{execution.name}: "


def receipt_trailers(receipt: Receipt) -> dict[str, str]:
    return {
        **_identity(receipt).trailers,
        "Swarm-Engine": f"{receipt.engine}/{receipt.mode}",
        "Swarm-Model": receipt.model,
        "Swarm-Result": _result(receipt),
        "Swarm-Tokens": str(receipt.tokens.total),
        "Swarm-Cost-USD": written(receipt.cost_usd),
    }


def envelope_trailers(envelope: Envelope) -> dict[str, str]:
    return {**_identity(envelope).trailers, "Swarm-Status": envelope.status}


def evidence_trailers(evidence: Evidence) -> dict[str, str]:
    """An empty one is not written."""
    return {"Swarm-Concerns": concerns_trailer(evidence)}


def end_fields(receipt: Receipt) -> dict[str, JsonValue]:
    """What the last event of a step says, however it ended."""
    return {
        "status": _result(receipt).value,
        "duration_ms": receipt.duration_ms,
        "engine": receipt.engine,
        "tokens": receipt.tokens.total,
        "cost_usd": receipt.cost_usd,
    }


def changes_fields(evidence: Evidence) -> dict[str, JsonValue]:
    """What the event about changed files says."""
    diff = evidence.diff
    return {"files": len(diff.files), "insertions": diff.insertions, "deletions": diff.deletions}


def _result(receipt: Receipt) -> Result:
    if receipt.status == "failed":
        return Result.FAILED
    return Result.SKIPPED if receipt.skipped else Result.SUCCEEDED


def _identity(record: Receipt | Envelope) -> Execution:
    return Execution(record.run_id, record.flow_key, record.step_id, record.iteration, record.agent_key)
