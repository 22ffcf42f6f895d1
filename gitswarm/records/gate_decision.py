"""Files of Gate, Deploy and Wisdom: `merge_decision.json`, `deploy_decision.json`, `traceability.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from gitswarm.records.record import Record, Text, refuse_twice
from gitswarm.records.worklists import CriterionProof


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
    """Why a change may not be merged. `id`: of the concern, finding or criterion; `evidence`: files, `file:line`."""

    id: Text
    fact: Text
    evidence: Annotated[tuple[str, ...], Meta(min_length=1)]


class MergeCondition(Record):
    """What has to hold for a merge besides. `id`: of the finding that it answers; `when`: who looks: the landing
    itself, the deploy flow behind it, or a person."""

    id: Text
    condition: Text
    when: Literal["landing", "deploy", "person"]


class CriterionVerdict(Record):
    id: Text
    proof: CriterionProof


class MergeDecision(Record):
    """The one verdict of a Gate. What does not merge names its blockers: the next flow's prompts tell them."""

    verdict: GateVerdict
    reason: str = ""
    blockers: tuple[Blocker, ...] = ()
    conditions: tuple[MergeCondition, ...] = ()
    criteria: tuple[CriterionVerdict, ...] = ()
    stub: bool = False

    def __post_init__(self) -> None:
        if self.verdict.merges and self.blockers:
            raise ValueError(f"{self.verdict} with blockers: {', '.join(each.id for each in self.blockers)}")
        if not self.verdict.merges and not self.blockers:
            raise ValueError(f"{self.verdict} names no blocker")
        if (self.verdict is GateVerdict.MERGE_WITH_CONDITIONS) != bool(self.conditions) and self.verdict.merges:
            raise ValueError("'conditions' belong to MERGE_WITH_CONDITIONS, and are needed there")


class GateFinding(Record):
    """One finding of an audit, and its outcome. `audit`: the step that found it."""

    id: Text
    audit: Text
    fact: Text
    blocking: bool
    outcome: Literal["fixed", "open"]
    files: tuple[str, ...] = ()


class GateFindings(Record):
    """`gate/gate_findings.json`: what the audits found, put together where they are joined."""

    findings: tuple[GateFinding, ...] = ()
    stub: bool = False

    def __post_init__(self) -> None:
        refuse_twice(each.id for each in self.findings)


def current_findings(versions: Iterable[GateFindings]) -> tuple[GateFinding, ...]:
    """Findings as the newest version has them. What is left out is as it was last, and what was ever blocking is
    still: nobody gets rid of a finding by leaving it out, or by calling it a trifle.

    :param versions: the oldest first.
    """
    known: dict[str, GateFinding] = {}
    blocking: set[str] = set()
    for version in versions:
        known |= {each.id: each for each in version.findings}
        blocking |= {each.id for each in version.findings if each.blocking}
    return tuple(replace(each, blocking=each.id in blocking) for each in known.values())


def unanswered(decision: MergeDecision, findings: Iterable[GateFinding]) -> Iterator[GateFinding]:
    """Open blocking findings that a verdict passes over: one that merges has to make each a condition, and any other
    has to name it among its blockers."""
    answers = decision.conditions if decision.verdict.merges else decision.blockers
    answered = {each.id for each in answers}
    yield from (each for each in findings if each.blocking and each.outcome == "open" and each.id not in answered)


class DeployOutcome(StrEnum):
    STABLE = "STABLE"
    INVESTIGATE = "INVESTIGATE"
    ROLLBACK = "ROLLBACK"
    NOT_DEPLOYED = "NOT_DEPLOYED"


class DeployDecision(Record):
    """`landed`: the commit that the target branch got, None if none; `revert`: what is to be reverted; `open`: what
    has to be looked at, and by whom."""

    decision: DeployOutcome
    reason: Text
    evidence: Annotated[tuple[str, ...], Meta(min_length=1)]
    landed: str | None = None
    revert: str | None = None
    open: tuple[str, ...] = ()
    stub: bool = False

    def __post_init__(self) -> None:
        if (self.decision is DeployOutcome.NOT_DEPLOYED) != (self.landed is None):
            raise ValueError(f"{self.decision} with 'landed' {self.landed or 'null'}")
        if (self.decision is DeployOutcome.ROLLBACK) != (self.revert is not None) or self.revert not in (
            None,
            self.landed,
        ):
            raise ValueError("'revert' is the landed commit, for ROLLBACK and nothing else")
        if self.decision is DeployOutcome.INVESTIGATE and not self.open:
            raise ValueError("INVESTIGATE: 'open' says what has to be looked at")


class TracedCriterion(Record):
    """One criterion and what stands for it. `tests`: names as the runner prints them; `code`: files that this run
    changed for it; `gap`: what is missing, for one that is not proven."""

    id: Text
    requirement: str = ""
    proof: CriterionProof
    tests: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    gap: str = ""

    def __post_init__(self) -> None:
        if self.proof in ("proven", "failing") and not self.tests:
            raise ValueError(f"{self.id} is {self.proof} by no test")
        if self.proof != "proven" and not self.gap:
            raise ValueError(f"{self.id} is {self.proof}: 'gap' says what is missing")


class Traceability(Record):
    """Every criterion of the run once. `untraced`: changed files that no criterion explains. Without a matrix
    `criteria` is empty and `reason` says so."""

    criteria: tuple[TracedCriterion, ...] = ()
    untraced: tuple[str, ...] = ()
    reason: str = ""
    stub: bool = False

    def __post_init__(self) -> None:
        refuse_twice(each.id for each in self.criteria)
        if not self.criteria and not self.reason:
            raise ValueError("no criteria, and 'reason' does not say why")
