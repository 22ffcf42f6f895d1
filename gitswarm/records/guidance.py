"""What agents read besides their task, instructions of the project and lessons of earlier runs; and what a run
teaches: lessons for the next one, and changes of flows and stations for a person to take or leave."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from msgspec import Meta

from gitswarm.records.record import AtLeastOne, Record, Text, form, refuse_twice


class Instruction(Record):
    """A file of the base commit. `also`: others that hold the same, or are links to it; `blob`: its id in git."""

    path: str
    blob: str
    text: str
    also: tuple[str, ...] = ()


class Instructions(Record):
    files: tuple[Instruction, ...] = ()


LearningId = Annotated[str, form(r"LN-\d{3,}")]
ProposalId = Annotated[str, form(r"WP-\d{3,}")]


class Learning(Record):
    """`scope`: flows, stations or folders that it concerns; `evidence`: paths in RUN_BASE or commits."""

    id: LearningId
    lesson: Annotated[str, Meta(min_length=1, max_length=500)]
    kind: Literal["keep", "change", "avoid"]
    scope: Annotated[tuple[str, ...], Meta(min_length=1)]
    evidence: Annotated[tuple[str, ...], Meta(min_length=1)]
    confidence: Literal["high", "medium", "low"]


class Learnings(Record):
    """`wisdom/learnings.json`; at most twelve, for whoever reads them pays for each."""

    learnings: Annotated[tuple[Learning, ...], Meta(max_length=12)] = ()
    stub: bool = False

    def __post_init__(self) -> None:
        refuse_twice(each.id for each in self.learnings)


class Edit(Record):
    """`old`, which stands exactly once in the file, becomes `new`; an empty `old`: a new file."""

    path: str
    old: str = ""
    new: str

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or parts[0] == "/" or ".." in parts or ".git" in parts:
            raise ValueError(f"'{self.path}' is not a path inside the repository")
        if self.old == self.new:
            raise ValueError(f"{self.path}: the edit changes nothing")


class SpecProposal(Record):
    """A change that a person may apply: `git swarm wisdom apply`. `learnings`: why."""

    id: ProposalId
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    why: Text
    learnings: Annotated[tuple[LearningId, ...], Meta(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1)]


class Proposals(Record):
    """`wisdom/proposals.json`."""

    proposals: Annotated[tuple[SpecProposal, ...], Meta(max_length=7)] = ()
    stub: bool = False

    def __post_init__(self) -> None:
        refuse_twice(each.id for each in self.proposals)


class Settled(Record):
    """What a person did with a proposal. `commit`, `branch`: where an applied one is; `why`: of a dismissed one."""

    proposal: ProposalId
    state: Literal["applied", "dismissed"]
    date: str
    why: str = ""
    commit: str | None = None
    branch: str | None = None


class RunWisdom(Record):
    """`<run id>.json` in `refs/swarm/wisdom`: what one run taught. `date`: when it was written; `flows`: of the run;
    `base`: the commit that it branched off; `outcome`: as git knew it when this was written; `stub`: which of the
    two were a stub's placeholders, that is, which nobody learned or proposed."""

    run_id: str
    date: str
    flows: tuple[str, ...]
    base: str
    outcome: Literal["landed", "unproven", "not_landed"]
    learnings: tuple[Learning, ...] = ()
    proposals: tuple[SpecProposal, ...] = ()
    settled: tuple[Settled, ...] = ()
    stub: tuple[Literal["learnings", "proposals"], ...] = ()

    @property
    def lessons(self) -> tuple[Learning, ...]:
        """The lessons that somebody learned."""
        return () if "learnings" in self.stub else self.learnings

    @property
    def offered(self) -> tuple[SpecProposal, ...]:
        """The proposals that somebody made, settled ones too."""
        return () if "proposals" in self.stub else self.proposals

    def settlement(self, proposal: str) -> Settled | None:
        return next((each for each in self.settled if each.proposal == proposal), None)


class SharedLesson(Record):
    """A lesson over all runs that learned it. `run`: the newest of them, whose words and confidence these are;
    `runs`: how many there are."""

    run: str
    runs: AtLeastOne
    kind: Literal["keep", "change", "avoid"]
    confidence: Literal["high", "medium", "low"]
    scope: tuple[str, ...]
    lesson: str


class ScentTrail(Record):
    """What the next run is told, newest lesson first; frozen in its first commit as `specs/scent_trail.json`."""

    lessons: tuple[SharedLesson, ...] = ()
