"""What a Gate decides: `gate/merge_decision.json`, and the findings that it has to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from gitswarm.records.acceptance import CriterionProof
from gitswarm.records.base import Record
from gitswarm.records.unique import refuse_twice


class GateVerdict(StrEnum):
    """Ordered from merging to ending the run."""

    MERGE = "MERGE"
    MERGE_WITH_CONDITIONS = "MERGE_WITH_CONDITIONS"
    BOUNCE_BUILD = "BOUNCE_BUILD"
    BOUNCE_PLAN = "BOUNCE_PLAN"
    ESCALATE = "ESCALATE"
    BLOCK = "BLOCK"

    @property
    def merges(self) -> bool:
        return self in (GateVerdict.MERGE, GateVerdict.MERGE_WITH_CONDITIONS)


class Blocker(Record):
    """Why it may not be merged. `id`: of the concern, finding or criterion; `evidence`: files, or `file:line`."""

    id: str = Field(min_length=1)
    fact: str = Field(min_length=1)
    evidence: tuple[str, ...] = Field(min_length=1)


class MergeCondition(Record):
    """What has to hold besides. `id`: of the finding that it answers; `when`: who looks: the landing itself, the
    deploy flow behind it, or a person."""

    id: str = Field(min_length=1)
    condition: str = Field(min_length=1)
    when: Literal["landing", "deploy", "person"]


class CriterionVerdict(Record):
    id: str = Field(min_length=1)
    proof: CriterionProof


class MergeDecision(Record):
    """The one verdict of a Gate. What does not merge names its blockers: the next flow's prompts tell them."""

    verdict: GateVerdict
    reason: str = ""
    blockers: tuple[Blocker, ...] = ()
    conditions: tuple[MergeCondition, ...] = ()
    criteria: tuple[CriterionVerdict, ...] = ()
    stub: bool = False

    @model_validator(mode="after")
    def _agrees_with_its_reasons(self) -> MergeDecision:
        if self.verdict.merges and self.blockers:
            raise ValueError(f"{self.verdict} with blockers: {', '.join(each.id for each in self.blockers)}")
        if not self.verdict.merges and not self.blockers:
            raise ValueError(f"{self.verdict} names no blocker")
        if (self.verdict is GateVerdict.MERGE_WITH_CONDITIONS) != bool(self.conditions) and self.verdict.merges:
            raise ValueError("'conditions' belong to MERGE_WITH_CONDITIONS, and are needed there")
        return self


class GateFinding(Record):
    """One finding of an audit, and its outcome. `audit`: the step that found it."""

    id: str = Field(min_length=1)
    audit: str = Field(min_length=1)
    fact: str = Field(min_length=1)
    blocking: bool
    outcome: Literal["fixed", "open"]
    files: tuple[str, ...] = ()


class GateFindings(Record):
    """`gate/gate_findings.json`: what the audits found, put together where they are joined."""

    findings: tuple[GateFinding, ...] = ()
    stub: bool = False

    @model_validator(mode="after")
    def _ids_are_unique(self) -> GateFindings:
        refuse_twice(each.id for each in self.findings)
        return self


def standing_findings(versions: Iterable[GateFindings]) -> tuple[GateFinding, ...]:
    """As the newest version has them. What is left out is as it was last, and what was ever blocking is still: nobody
    gets rid of a finding by leaving it out, or by calling it a trifle.

    :param versions: the oldest first.
    """
    known: dict[str, GateFinding] = {}
    blocking: set[str] = set()
    for version in versions:
        known |= {each.id: each for each in version.findings}
        blocking |= {each.id for each in version.findings if each.blocking}
    return tuple(each.model_copy(update={"blocking": each.id in blocking}) for each in known.values())


def unanswered(decision: MergeDecision, findings: Iterable[GateFinding]) -> Iterator[GateFinding]:
    """Open blocking findings that a verdict passes over: one that merges has to make each a condition, and any other
    has to name it among its blockers."""
    answers = decision.conditions if decision.verdict.merges else decision.blockers
    answered = {each.id for each in answers}
    yield from (each for each in findings if each.blocking and each.outcome == "open" and each.id not in answered)
