"""What a run teaches: lessons for the next one, and changes of flows and stations for a person to take or leave."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gitswarm.records.base import Record
from gitswarm.records.unique import refuse_twice

LearningId = Annotated[str, Field(pattern=r"^LN-\d{3,}$")]
ProposalId = Annotated[str, Field(pattern=r"^WP-\d{3,}$")]


class Learning(Record):
    """`scope`: flows, stations or folders that it concerns; `evidence`: paths in RUN_BASE or commits."""

    id: LearningId
    lesson: str = Field(min_length=1, max_length=500)
    kind: Literal["keep", "change", "avoid"]
    scope: tuple[str, ...] = Field(min_length=1)
    evidence: tuple[str, ...] = Field(min_length=1)
    confidence: Literal["high", "medium", "low"]


class Learnings(Record):
    """`wisdom/learnings.json`; at most twelve, for whoever reads them pays for each."""

    learnings: tuple[Learning, ...] = Field(default=(), max_length=12)
    stub: bool = False

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Learnings:
        refuse_twice(each.id for each in self.learnings)
        return self


class Edit(Record):
    """`old`, which stands exactly once in the file, becomes `new`; an empty `old`: a new file."""

    path: str
    old: str = ""
    new: str

    @model_validator(mode="after")
    def _is_a_change_inside(self) -> Edit:
        parts = PurePosixPath(self.path).parts
        if not parts or parts[0] == "/" or ".." in parts or ".git" in parts:
            raise ValueError(f"'{self.path}' is no path inside the repository")
        if self.old == self.new:
            raise ValueError(f"{self.path}: the edit changes nothing")
        return self


class Proposal(Record):
    """A change that a person may apply: `git swarm wisdom apply`. `learnings`: why."""

    id: ProposalId
    title: str = Field(min_length=1, max_length=120)
    why: str = Field(min_length=1)
    learnings: tuple[LearningId, ...] = Field(min_length=1)
    edits: tuple[Edit, ...] = Field(min_length=1)


class Proposals(Record):
    """`wisdom/proposals.json`."""

    proposals: tuple[Proposal, ...] = Field(default=(), max_length=7)
    stub: bool = False

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Proposals:
        refuse_twice(each.id for each in self.proposals)
        return self
