"""What programs read of a Review, a Gate, a Deploy and a Wisdom: contradictions in it are no valid artifact."""

from __future__ import annotations

from typing import Any

import pytest

from gitswarm.records.gate_decision import (
    DeployDecision,
    GateFinding,
    GateVerdict,
    MergeDecision,
    Traceability,
    unanswered,
)
from gitswarm.records.guidance import Learnings, Proposals
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.record import Record
from gitswarm.records.worklists import PullRequestStatus, ReviewWorklist, count_worklist
from tests.tables import table

BLOCKER = {"id": "CE-1", "fact": "a flag is gone", "evidence": ["cli.py:3"]}
CONDITION = {"id": "CE-1", "condition": "tell the callers", "when": "person"}
ITEM = {"id": "RW-001", "title": "t", "source": ["c1"], "kind": "defect", "severity": "major", "blocking": True}
TRACED = {"id": "AC-001-1", "proof": "proven", "tests": ["test_a"]}
DEPLOYED = {"reason": "r", "evidence": ["deploy/ci_report.md"]}
LEARNING = {"id": "LN-001", "lesson": "l", "kind": "keep", "scope": ["build"], "evidence": ["a"], "confidence": "low"}
PROPOSAL = {"id": "WP-001", "title": "t", "why": "w", "learnings": ["LN-001"]}
COMMIT = "1" * 40

REFUSED: list[tuple[type[Record], dict[str, Any], str]] = [
    (MergeDecision, {"verdict": "MERGE", "blockers": [BLOCKER]}, "MERGE with blockers: CE-1"),
    (MergeDecision, {"verdict": "MERGE", "conditions": [CONDITION]}, "'conditions' belong to MERGE_WITH_CONDITIONS"),
    (MergeDecision, {"verdict": "MERGE_WITH_CONDITIONS"}, "and are needed there"),
    (MergeDecision, {"verdict": "BOUNCE_BUILD"}, "BOUNCE_BUILD names no blocker"),
    (MergeDecision, {"verdict": "ESCALATE", "conditions": [CONDITION]}, "ESCALATE names no blocker"),
    (MergeDecision, {"verdict": "PERHAPS"}, "'PERHAPS' is not an allowed value"),
    (MergeDecision, {"verdict": "MERGE", "blocker": [BLOCKER]}, "unknown key (did you mean 'blockers'?)"),
    (ReviewWorklist, {"items": [ITEM, ITEM]}, "more than once: RW-001"),
    (ReviewWorklist, {"items": [{**ITEM, "status": "resolved"}]}, "'resolution' says how"),
    (ReviewWorklist, {"items": [{**ITEM, "severity": "critical", "blocking": False}]}, "and therefore blocking"),
    (ReviewWorklist, {"items": [{**ITEM, "id": "RW-1"}]}, "'RW-1' is not of the form"),
    (
        PullRequestStatus,
        {"state": "ready", "reason": "r", "replies": [{"to": "c1", "item": "RW-001", "text": "t"}] * 2},
        "more than once: c1",
    ),
    (Traceability, {}, "no criteria, and 'reason' does not say why"),
    (Traceability, {"criteria": [{**TRACED, "tests": []}]}, "AC-001-1 is proven by no test"),
    (Traceability, {"criteria": [{**TRACED, "proof": "claimed"}]}, "'gap' says what is missing"),
    (Traceability, {"criteria": [TRACED, TRACED]}, "more than once: AC-001-1"),
    (DeployDecision, {**DEPLOYED, "decision": "STABLE"}, "STABLE with 'landed' null"),
    (DeployDecision, {**DEPLOYED, "decision": "NOT_DEPLOYED", "landed": COMMIT}, "NOT_DEPLOYED with 'landed' 111"),
    (DeployDecision, {**DEPLOYED, "decision": "ROLLBACK", "landed": COMMIT}, "'revert' is the landed commit"),
    (
        DeployDecision,
        {**DEPLOYED, "decision": "ROLLBACK", "landed": COMMIT, "revert": "2" * 40},
        "'revert' is the landed commit",
    ),
    (
        DeployDecision,
        {**DEPLOYED, "decision": "STABLE", "landed": COMMIT, "revert": COMMIT},
        "'revert' is the landed commit",
    ),
    (DeployDecision, {**DEPLOYED, "decision": "INVESTIGATE", "landed": COMMIT}, "'open' says what"),
    (Learnings, {"learnings": [{**LEARNING, "lesson": "l" * 501}]}, "501 characters, at most 500"),
    (Learnings, {"learnings": [{**LEARNING, "id": f"LN-{n:03}"} for n in range(13)]}, "has 13, at most 12"),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": [{"path": "../x", "new": "n"}]}]}, "not a path inside"),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": [{"path": "/x", "new": "n"}]}]}, "not a path inside"),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": [{"path": ".git/config", "new": "n"}]}]}, "not a path inside"),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": [{"path": "x", "old": "n", "new": "n"}]}]}, "changes nothing"),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": []}]}, "needs at least 1, has 0"),
]

FINE: list[tuple[type[Record], dict[str, Any]]] = [
    (MergeDecision, {"verdict": "MERGE"}),
    (MergeDecision, {"verdict": "MERGE_WITH_CONDITIONS", "conditions": [CONDITION]}),
    (MergeDecision, {"verdict": "BOUNCE_PLAN", "blockers": [BLOCKER], "criteria": [{"id": "A", "proof": "failing"}]}),
    (ReviewWorklist, {}),
    (Traceability, {"reason": "no_ac_matrix"}),
    (Traceability, {"criteria": [TRACED, {"id": "AC-2", "proof": "untested", "gap": "names no test"}]}),
    (DeployDecision, {**DEPLOYED, "decision": "NOT_DEPLOYED"}),
    (DeployDecision, {**DEPLOYED, "decision": "ROLLBACK", "landed": COMMIT, "revert": COMMIT}),
    (Proposals, {"proposals": [{**PROPOSAL, "edits": [{"path": ".swarm/flows/x.yaml", "new": "id: x\n"}]}]}),
]


@table(("schema", "content", "problem"), REFUSED)
def test_an_artifact_that_contradicts_itself_is_refused(
    schema: type[Record], content: dict[str, Any], problem: str
) -> None:
    with pytest.raises(MistakesError) as caught:
        schema.from_plain(content)
    assert problem in str(caught.value)


@table(("schema", "content"), FINE)
def test_one_that_does_not_is_read_and_written_as_it_is(schema: type[Record], content: dict[str, Any]) -> None:
    read = schema.from_plain(content)
    assert schema.from_json(read.to_json()) == read


@table(
    ("earlier", "now", "expected"),
    [
        ([], [], (0, 0, 0, ())),
        ([], [ITEM], (1, 1, 1, ())),
        ([[ITEM]], [{**ITEM, "status": "declined", "resolution": "r"}], (1, 0, 0, ())),
        ([[ITEM]], [{**ITEM, "blocking": False}], (1, 1, 1, ())),
        ([[ITEM]], [], (1, 1, 1, ("RW-001",))),
        ([[ITEM], []], [], (1, 1, 1, ("RW-001",))),
        ([[{**ITEM, "status": "resolved", "resolution": "r"}]], [], (1, 0, 0, ("RW-001",))),
        ([], [{**ITEM, "blocking": False}], (1, 1, 0, ())),
    ],
)
def test_what_is_pending_is_counted_over_every_version_of_the_list(
    earlier: list[list[dict[str, Any]]], now: list[dict[str, Any]], expected: tuple[object, ...]
) -> None:
    lists = [ReviewWorklist.from_plain({"items": items}) for items in (*earlier, now)]
    counted = count_worklist(lists[-1], lists[:-1])
    assert (counted.total, counted.pending, counted.pending_blocking, counted.lost) == expected


@table(
    ("decision", "passed_over"),
    [
        ({"verdict": "MERGE"}, ["CE-1"]),
        ({"verdict": "MERGE_WITH_CONDITIONS", "conditions": [CONDITION]}, []),
        ({"verdict": "MERGE_WITH_CONDITIONS", "conditions": [{**CONDITION, "id": "SS-1"}]}, ["CE-1"]),
        ({"verdict": "BOUNCE_BUILD", "blockers": [BLOCKER]}, []),
        ({"verdict": "BLOCK", "blockers": [{**BLOCKER, "id": "SS-1"}]}, ["CE-1"]),
    ],
)
def test_a_verdict_answers_every_open_blocking_finding(decision: dict[str, Any], passed_over: list[str]) -> None:
    blocking = {"audit": "a", "fact": "f", "blocking": True}
    findings = [
        GateFinding.from_plain({**blocking, "id": "CE-1", "outcome": "open"}),
        GateFinding.from_plain({**blocking, "id": "CE-2", "outcome": "fixed"}),
        GateFinding.from_plain({**blocking, "id": "CE-3", "outcome": "open", "blocking": False}),
    ]
    found = unanswered(MergeDecision.from_plain(decision), findings)
    assert [finding.id for finding in found] == passed_over


def test_two_of_six_verdicts_merge() -> None:
    assert [verdict.value for verdict in GateVerdict if verdict.merges] == ["MERGE", "MERGE_WITH_CONDITIONS"]
