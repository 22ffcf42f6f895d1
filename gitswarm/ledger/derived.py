"""What a step's commit says because its records say so: the runner writes it, `verify` derives it again."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.ledger.message import CommitMessage, Kind
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence, concerns_trailer
from gitswarm.records.execution import Execution, Result
from gitswarm.records.receipt import Receipt
from gitswarm.records.text import words, written

_OF_RECORDS = words("Swarm-Engine Swarm-Model Swarm-Status Swarm-Result Swarm-Tokens Swarm-Cost-USD Swarm-Concerns")


class ExecutionRecords(Struct, frozen=True):
    """The records that every step has, and what is made of them."""

    receipt: Receipt
    envelope: Envelope
    evidence: Evidence

    def to_json(self, execution: Execution, run_format: int) -> dict[str, bytes]:
        """Path → content.

        :param run_format: of the run that they are stored in.
        """
        return {
            execution.receipt: self.receipt.to_json(run_format),
            execution.envelope: self.envelope.to_json(),
            execution.evidence: self.evidence.to_json(),
        }

    def message(self, execution: Execution, place: Mapping[str, str], seq: int) -> CommitMessage:
        """
        :param place: trailers about where in the run the step is executed.
        :param seq: how many events it has.
        """
        known = receipt_trailers(self.receipt) | envelope_trailers(self.envelope) | evidence_trailers(self.evidence)
        facts = {name: known[name] for name in _OF_RECORDS}
        trailers = {"Swarm-Kind": Kind.STEP, **execution.trailers, **place, **facts, "Swarm-Seq": str(seq)}
        summary = self.envelope.summary
        return CommitMessage(f"{subject_start(execution)}{summary}", summary, trailers)


def subject_start(execution: Execution) -> str:
    return f"{execution.name}: "


def receipt_trailers(receipt: Receipt) -> dict[str, str]:
    return {
        **_identity(receipt),
        "Swarm-Engine": f"{receipt.engine}/{receipt.mode}",
        "Swarm-Model": receipt.model,
        "Swarm-Result": _result(receipt),
        "Swarm-Tokens": str(receipt.tokens.total),
        "Swarm-Cost-USD": written(receipt.cost_usd),
    }


def envelope_trailers(envelope: Envelope) -> dict[str, str]:
    return {**_identity(envelope), "Swarm-Status": envelope.status}


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


def _identity(record: Receipt | Envelope) -> dict[str, str]:
    keys = (record.run_id, record.flow_key, record.step_id, record.iteration, record.agent_key)
    return Execution(*keys).trailers
