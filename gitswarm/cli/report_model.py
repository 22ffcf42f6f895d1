"""What a report says, as plain values: `report --format json`, and what the other formats are made of."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Doubt = Literal["rehearsal", "state", "blocking", "tests", "criterion", "warning", "accepted", "left out", "step"]


class Unproven(Struct, frozen=True):
    """Something that a reviewer has to know before a yes. `about`: the id, step or path."""

    kind: Doubt
    about: str
    text: str


class ReportVerdict(Struct, frozen=True):
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


class SaidOfWork(Struct, frozen=True):
    """What the author of a part of the work says about it."""

    step: str
    summary: str


class ReportedFile(Struct, frozen=True):
    """Line counts are None for binary files. `reasons`: why to look here first; none for most files."""

    path: str
    change: str
    insertions: int | None
    deletions: int | None
    reasons: tuple[str, ...]


class ReportedChanges(Struct, frozen=True):
    """Changes of the code, `.swarm/runs` left out. `files`: those to look at first come first."""

    insertions: int
    deletions: int
    files: tuple[ReportedFile, ...]


class ReportedCriterion(Struct, frozen=True):
    """`proof`: proven, claimed, untested, failing, or `not judged`; `evidence`: the number of the step whose evidence
    says so; `current`: it was the code that the run has now."""

    id: str
    text: str
    proof: str
    reason: str
    tests: tuple[str, ...]
    evidence: int | None
    current: bool


class ReportedClaim(Struct, frozen=True):
    """What was said, and what git, tests or git-swarm found. `said` is empty where nothing was: found all the same.
    `outcome`: open, settled, accepted, or counted: it lowered the step's status."""

    step: str
    number: int
    flag: str
    said: str
    found: str
    outcome: str


class Refusal(Struct, frozen=True):
    """What an agent wanted to do and the policy did not let it."""

    step: str
    number: int
    tool: str
    wanted: str
    reason: str


class OffPath(Struct, frozen=True):
    """A decision that leaves a flow's own graph. `who`: the source, where it was not the flow's own rules."""

    after: str
    number: int
    way: str
    who: str
    reason: str


class OpenQuestion(Struct, frozen=True):
    kind: Literal["question", "assumption", "concern"]
    step: str
    text: str
    more: str


class CostLine(Struct, frozen=True):
    """What executions took and cost; `cost_usd` None: a part of it is unknown."""

    name: str
    executions: int
    duration_ms: int
    tokens: int
    cost_usd: float | None


class ReportedCosts(Struct, frozen=True):
    """`steps`: as `flow/step`, in the order of their first execution; `beside`: what was cut off, and navigators."""

    flows: tuple[CostLine, ...]
    steps: tuple[CostLine, ...]
    beside: tuple[CostLine, ...]


class Proof(Struct, frozen=True):
    """`command` shows again what `claim` says; `said`: what it said in the run."""

    claim: str
    said: str
    command: str


class RunReport(Struct, frozen=True):
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
