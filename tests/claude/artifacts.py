"""What a model writes into the artifacts that stations owe: valid, true of its run, and made of what it has read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from msgspec.structs import replace

from gitswarm.records.gate_decision import (
    CriterionVerdict,
    DeployDecision,
    DeployOutcome,
    GateFinding,
    GateFindings,
    GateVerdict,
    MergeDecision,
    Traceability,
    TracedCriterion,
)
from gitswarm.records.guidance import Edit, Learning, Learnings, Proposals, SpecProposal
from gitswarm.records.record import Record
from gitswarm.records.worklists import (
    AcceptanceCriterion,
    AcMatrix,
    AcStatus,
    CriterionStatus,
    PullRequestStatus,
    Reply,
    Requirement,
    ReviewWorklist,
    WorkItem,
)

Files = Mapping[str, str]
"""Text by path: of RUN_BASE, or of the worktree."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the task is about. `tests` show its one criterion, as the runner names them; `code` meets it."""

    tests: tuple[str, ...]
    code: tuple[str, ...]


def artifact(path: str, read: Files, known: Known) -> str:
    """
    :param path: in RUN_BASE, as those of `read`: the session's inputs.
    """
    if path in _RECORDS:
        return _RECORDS[path](read, known).to_json().decode()
    name = PurePosixPath(path)
    if name.suffix == ".json":
        return json.dumps({"made_of": sorted(read)}, indent=2) + "\n"
    if name.suffix in (".yaml", ".yml"):
        return "".join(f"- {each}\n" for each in sorted(read)) or "[]\n"
    return f"# {name.stem}\n\nThis is what was found, from {len(read)} files.\n"


def _matrix(_read: Files, known: Known) -> Record:
    criterion = AcceptanceCriterion(id="AC-001-1", criterion="no word is cut in two", test_cases=known.tests)
    return AcMatrix(
        requirements=(Requirement(id="REQ-001", description="A limit", acceptance_criteria=(criterion,)),)
    )


def _status(read: Files, known: Known) -> Record:
    matrix = AcMatrix.from_json(read["plan/ac_matrix.json"])
    shown = ", ".join(known.tests)
    return AcStatus(
        criteria=tuple(CriterionStatus(id=each.id, status="done", evidence=shown) for each in matrix.criteria())
    )


def _worklist(read: Files, known: Known) -> Record:
    """Of the feedback; once that is in the list, its items are resolved."""
    if found := read.get("review/review_worklist.json"):
        items = ReviewWorklist.from_json(found).items
        how = {"status": "resolved", "resolution": f"{known.code[0]}:1, shown by {known.tests[0]}"}
        return ReviewWorklist(items=tuple(replace(item, **how) for item in items))
    said = json.loads(read["review/pr_feedback.json"])["items"]
    return ReviewWorklist(
        items=tuple(
            WorkItem(
                id=f"RW-{number:03}",
                title=each["text"],
                source=(each["id"],),
                kind="defect",
                severity="major",
                blocking=True,
                files=known.code,
            )
            for number, each in enumerate(said, 1)
        )
    )


def _answers(read: Files, _known: Known) -> Record:
    items = ReviewWorklist.from_json(read["review/review_worklist.json"]).items
    replies = tuple(Reply(to=item.source[0], item=item.id, text=item.resolution) for item in items)
    return PullRequestStatus(state="ready", reason=f"{len(items)} resolved", replies=replies)


def _findings(_read: Files, known: Known) -> Record:
    about = GateFinding(
        id="SEC-1",
        audit="scan_security",
        fact="no upper bound",
        blocking=False,
        outcome="open",
        files=known.code,
    )
    return GateFindings(findings=(about,))


def _traced(read: Files, known: Known) -> Record:
    if "plan/ac_matrix.json" not in read:
        return Traceability(reason="no_ac_matrix")
    matrix = AcMatrix.from_json(read["plan/ac_matrix.json"])
    found = (
        TracedCriterion(id=each.id, proof="proven", tests=known.tests, code=known.code) for each in matrix.criteria()
    )
    return Traceability(criteria=tuple(found))


def _verdict(read: Files, _known: Known) -> Record:
    traced = json.loads(read.get("gate/traceability.json", "{}")).get("criteria", ())
    return MergeDecision(
        verdict=GateVerdict.MERGE,
        reason="nothing blocks, every criterion is proven",
        criteria=tuple(CriterionVerdict(id=each["id"], proof=each["proof"]) for each in traced),
    )


def _deployed(read: Files, _known: Known) -> Record:
    landed = json.loads(read["deploy/merge_result.json"])["commit"]
    return DeployDecision(
        decision=DeployOutcome.STABLE,
        reason="it landed; the project has neither checks nor smoke probes",
        evidence=("deploy/merge_result.json",),
        landed=landed,
    )


def _learned(read: Files, _known: Known) -> Record:
    lesson = "When a limit is asked for, ask what happens to the first word."
    return Learnings(
        learnings=(
            Learning(
                id="LN-001",
                lesson=lesson,
                kind="change",
                scope=("signal",),
                evidence=(*sorted(read)[:1], "spec.json"),
                confidence="low",
            ),
        )
    )


def _proposed(read: Files, _known: Known) -> Record:
    learnings = Learnings.from_json(read["wisdom/learnings.json"]).learnings
    edit = Edit(path="AGENTS.md", new=f"{learnings[0].lesson}\n")
    ids = tuple(each.id for each in learnings)
    return Proposals(
        proposals=(SpecProposal(id="WP-001", title="Ask early", why="it came late", learnings=ids, edits=(edit,)),)
    )


_RECORDS: Mapping[str, Callable[[Files, Known], Record]] = {
    "plan/ac_matrix.json": _matrix,
    "build/ac_status.json": _status,
    "review/review_worklist.json": _worklist,
    "review/pr_status.json": _answers,
    "gate/gate_findings.json": _findings,
    "gate/traceability.json": _traced,
    "gate/merge_decision.json": _verdict,
    "deploy/deploy_decision.json": _deployed,
    "wisdom/learnings.json": _learned,
    "wisdom/proposals.json": _proposed,
    "wisdom/traceability.json": _traced,
}
"""Those that programs read."""
