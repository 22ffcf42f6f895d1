"""Acceptance criteria of a task: what Plan writes down, and how far Build has come with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from gitswarm.records.base import Record

CriterionState = Literal["open", "done", "blocked"]


class AcceptanceCriterion(Record):
    id: str = Field(min_length=1)
    criterion: str = Field(min_length=1)


class Requirement(Record):
    """`test_cases` are names of tests that show the criteria, as the test runner prints them."""

    id: str = Field(min_length=1)
    description: str
    acceptance_criteria: tuple[AcceptanceCriterion, ...] = Field(min_length=1)
    test_cases: tuple[str, ...] = ()


class AcMatrix(Record):
    """`plan/ac_matrix.json` (seed 004): requirement → criteria → test cases. `stub`: no model wrote it."""

    requirements: tuple[Requirement, ...] = Field(min_length=1)
    stub: bool = False

    @model_validator(mode="after")
    def _ids_are_unique(self) -> AcMatrix:
        counted = Counter([item.id for item in self.requirements] + [item.id for item in self.criteria()])
        twice = [name for name, count in counted.items() if count > 1]
        if twice:
            raise ValueError(f"these ids stand here more than once: {', '.join(twice)}")
        return self

    def criteria(self) -> Iterator[AcceptanceCriterion]:
        for requirement in self.requirements:
            yield from requirement.acceptance_criteria


class CriterionStatus(Record):
    id: str
    status: CriterionState
    evidence: str = ""

    model_config = ConfigDict(extra="ignore")


class AcStatus(Record):
    """`build/ac_status.json`: what is done. A criterion that is not named is open."""

    criteria: tuple[CriterionStatus, ...] = ()
    stub: bool = False

    model_config = ConfigDict(extra="ignore")

    def states(self) -> dict[str, CriterionState]:
        return {item.id: item.status for item in self.criteria}


class AcProgress(Record):
    """Counts of a matrix' criteria. `progress`: how many more are done than when it was counted last."""

    total: int
    done: int
    open: int
    blocked: int
    progress: int


def count_criteria(matrix: AcMatrix, status: AcStatus, before: AcProgress | None) -> AcProgress:
    """`open` neither done nor blocked; what the status says about unknown criteria does not count."""
    states = status.states()
    counted = Counter(states.get(item.id, "open") for item in matrix.criteria())
    done = counted["done"]
    return AcProgress(
        total=counted.total(),
        done=done,
        open=counted["open"],
        blocked=counted["blocked"],
        progress=done - (before.done if before else 0),
    )
