"""From a criterion to its proof: `gate/traceability.json`, `wisdom/traceability.json`."""

from __future__ import annotations

from pydantic import Field, model_validator

from gitswarm.records.acceptance import CriterionProof
from gitswarm.records.base import Record
from gitswarm.records.unique import refuse_twice


class TracedCriterion(Record):
    """One criterion and what stands for it. `tests`: names as the runner prints them; `code`: files that this run
    changed for it; `gap`: what is missing, for one that is not proven."""

    id: str = Field(min_length=1)
    requirement: str = ""
    proof: CriterionProof
    tests: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    gap: str = ""

    @model_validator(mode="after")
    def _proof_has_its_grounds(self) -> TracedCriterion:
        if self.proof in ("proven", "failing") and not self.tests:
            raise ValueError(f"{self.id} is {self.proof} by no test")
        if self.proof != "proven" and not self.gap:
            raise ValueError(f"{self.id} is {self.proof}: 'gap' says what is missing")
        return self


class Traceability(Record):
    """Every criterion of the run once. `untraced`: changed files that no criterion explains. Without a matrix
    `criteria` is empty and `reason` says so."""

    criteria: tuple[TracedCriterion, ...] = ()
    untraced: tuple[str, ...] = ()
    reason: str = ""
    stub: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Traceability:
        refuse_twice(each.id for each in self.criteria)
        if not self.criteria and not self.reason:
            raise ValueError("no criteria, and 'reason' does not say why")
        return self
