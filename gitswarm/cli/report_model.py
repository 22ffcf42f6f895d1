"""What a report says, as plain values: `report --format json`, and what the other formats are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Doubt = Literal["rehearsal", "state", "blocking", "tests", "criterion", "warning", "accepted", "left out", "step"]


@dataclass(frozen=True, slots=True)
class Unproven:
    """Something that a reviewer has to know before a yes. `about`: the id, step or path."""

    kind: Doubt
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """`state`: as `list` names it. `steps`: executions on the branch. `duration_ms`: of all that were paid for."""

    state: str
    tests: str
    steps: int
    duration_ms: int
    tokens: int
    cost_usd: float | None
    approved_by: str | None
    landed: str | None
    unproven: tuple[Unproven, ...]


@dataclass(frozen=True, slots=True)
class SaidOfWork:
    """What the author of a part of the work says about it."""

    step: str
    summary: str


@dataclass(frozen=True, slots=True)
class ReportedFile:
    """Line counts are None for binary files. `reasons`: why to look here first; none for most files."""

    path: str
    change: str
    insertions: int | None
    deletions: int | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportedChanges:
    """Of the code, `.swarm/runs` left out. `files`: those to look at first come first."""

    insertions: int
    deletions: int
    files: tuple[ReportedFile, ...]


@dataclass(frozen=True, slots=True)
class ReportedCriterion:
    """`proof`: proven, claimed, untested, failing, or `not judged`; `evidence`: the number of the step whose evidence
    says so; `current`: it was the code that the run has now."""

    id: str
    text: str
    proof: str
    reason: str
    tests: tuple[str, ...]
    evidence: int | None
    current: bool


@dataclass(frozen=True, slots=True)
class ReportedClaim:
    """What was said, and what git, tests or git-swarm found. `said` is empty where nothing was: found all the same.
    `outcome`: open, settled, accepted, or counted: it lowered the step's status."""

    step: str
    number: int
    flag: str
    said: str
    found: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an agent wanted to do and the policy did not let it."""

    step: str
    number: int
    tool: str
    wanted: str
    reason: str


@dataclass(frozen=True, slots=True)
class OffPath:
    """A decision that a flow's plain way does not hold. `who`: the source, where it was not the flow's own rules."""

    after: str
    number: int
    way: str
    who: str
    reason: str


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    kind: Literal["question", "assumption", "concern"]
    step: str
    text: str
    more: str


@dataclass(frozen=True, slots=True)
class CostLine:
    """What executions took and cost; `cost_usd` None: a part of it is unknown."""

    name: str
    executions: int
    duration_ms: int
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ReportedCosts:
    """`steps`: as `flow/step`, in the order of their first execution; `beside`: what was cut off, and navigators."""

    flows: tuple[CostLine, ...]
    steps: tuple[CostLine, ...]
    beside: tuple[CostLine, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """`command` shows again what `claim` says; `said`: what it said in the run."""

    claim: str
    said: str
    command: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run. `name`: as short as it is unique here."""

    run_id: str
    name: str
    task: str
    flows: tuple[str, ...]
    base: str
    tip: str
    branch: str
    verdict: ReportVerdict
    work: tuple[SaidOfWork, ...]
    changes: ReportedChanges
    criteria: tuple[ReportedCriterion, ...]
    claims: tuple[ReportedClaim, ...]
    refusals: tuple[Refusal, ...]
    off_path: tuple[OffPath, ...]
    questions: tuple[OpenQuestion, ...]
    costs: ReportedCosts
    proofs: tuple[Proof, ...]
