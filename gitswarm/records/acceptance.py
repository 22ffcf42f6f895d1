"""Acceptance criteria of a task: what Plan writes down, and how far Build has come with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from gitswarm.records.base import Record, refuse_twice

CriterionState = Literal["open", "done", "blocked"]
CriterionProof = Literal["proven", "claimed", "untested", "failing"]
TestProof = Literal[CriterionProof, "unknown"]

AC_MATRIX = "plan/ac_matrix.json"
AC_STATUS = "build/ac_status.json"


class AcceptanceCriterion(Record):
    """`test_cases`: names of its own tests; where no criterion of a requirement has any, the requirement's count."""

    id: str = Field(min_length=1)
    criterion: str = Field(min_length=1)
    test_cases: tuple[str, ...] = ()


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
        refuse_twice([*(item.id for item in self.requirements), *(item.id for item in self.criteria())])
        return self

    def criteria(self) -> Iterator[AcceptanceCriterion]:
        for requirement in self.requirements:
            yield from requirement.acceptance_criteria

    def proven_by(self) -> dict[str, str]:
        """Each criterion → the id under which its tests are judged: its own, or its requirement's."""
        return {
            item.id: item.id if any(each.test_cases for each in requirement.acceptance_criteria) else requirement.id
            for requirement in self.requirements
            for item in requirement.acceptance_criteria
        }


class NamedTest(Record):
    """What one suite shows of a test that a criterion names. `names`: its results; `unknown`: it names not all."""

    name: str
    proof: TestProof
    reason: str
    names: tuple[str, ...] = ()


class JudgedCriterion(Record):
    """What tests prove of a criterion, or of a requirement where only requirements name tests.

    `names` are the results that it stands on, those of other suites included; `reason` is one line. `tests`: what
    this suite has of them.
    """

    id: str
    proof: CriterionProof
    reason: str
    names: tuple[str, ...] = ()
    tests: tuple[NamedTest, ...] = ()

    @property
    def is_blocking(self) -> bool:
        return self.proof in {"untested", "failing"}


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


def standing_states(
    matrix: AcMatrix, status: AcStatus, judged: Iterable[JudgedCriterion]
) -> dict[str, CriterionState]:
    """How far each criterion is: what the status says, but open where the tests that it needs fail or do not run."""
    unproven = {each.id for each in judged if each.is_blocking}
    said, by = status.states(), matrix.proven_by()
    states: dict[str, CriterionState] = {}
    for item in matrix.criteria():
        state = said.get(item.id, "open")
        states[item.id] = "open" if state == "done" and by[item.id] in unproven else state
    return states


def count_criteria(states: Mapping[str, CriterionState], before: AcProgress | None) -> AcProgress:
    counted = Counter(states.values())
    done = counted["done"]
    return AcProgress(
        total=counted.total(),
        done=done,
        open=counted["open"],
        blocked=counted["blocked"],
        progress=done - (before.done if before else 0),
    )
