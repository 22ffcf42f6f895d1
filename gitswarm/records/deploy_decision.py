"""How a landed change fares: `deploy/deploy_decision.json`."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from gitswarm.records.base import Record


class DeployOutcome(StrEnum):
    STABLE = "STABLE"
    INVESTIGATE = "INVESTIGATE"
    ROLLBACK = "ROLLBACK"
    NOT_DEPLOYED = "NOT_DEPLOYED"


class DeployDecision(Record):
    """`landed`: the commit that the target branch got, None if none; `revert`: what is to be reverted; `open`: what
    has to be looked at, and by whom."""

    decision: DeployOutcome
    reason: str = Field(min_length=1)
    evidence: tuple[str, ...] = Field(min_length=1)
    landed: str | None = None
    revert: str | None = None
    open: tuple[str, ...] = ()
    stub: bool = False

    @model_validator(mode="after")
    def _agrees_with_what_landed(self) -> DeployDecision:
        if (self.decision is DeployOutcome.NOT_DEPLOYED) != (self.landed is None):
            raise ValueError(f"{self.decision} with 'landed' {self.landed or 'null'}")
        if (self.decision is DeployOutcome.ROLLBACK) != (self.revert is not None) or self.revert not in (
            None,
            self.landed,
        ):
            raise ValueError("'revert' is the landed commit, for ROLLBACK and nothing else")
        if self.decision is DeployOutcome.INVESTIGATE and not self.open:
            raise ValueError("INVESTIGATE: 'open' says what has to be looked at")
        return self
