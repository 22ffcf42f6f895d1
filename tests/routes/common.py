"""What the tables share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.routed import CLEANUP, CRITIC, Case, command, flow, step

LINE = flow("f", step("a"), step("b"), step("c", CLEANUP))
WHY = {"trigger": "the map is old", "relevance_to_charter": "the goal needs it"}
DOUBT: dict[str, Any] = {"status": "UNVERIFIED", "concerns": ["thin"]}
HALF: dict[str, Any] = {"status": "PARTIAL"}
BLOCKED: dict[str, Any] = {"status": "BLOCKED", "blockers": ["which colour?"]}
FAILING = (Path(__file__).parent.parent / "evidence/recorded/pytest-9.2.0/failing.txt").read_text(encoding="utf-8")
"""What pytest said about two tests that failed."""

OTHER_FAILING = FAILING.replace("test_discount", "test_rebate")
STRAIGHT = """
    f/a VERIFIED > advance:b (fast_path)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""

OPEN = STRAIGHT.replace("a VERIFIED", "a PARTIAL")
ASKED = OPEN.replace("b (fast_path)", "b (deterministic)")
AUTHORITATIVE = ("--routing", "authoritative")


def decision(verdict: str) -> str:
    """`gate/merge_decision.json` with the grounds that a verdict needs."""
    grounds: dict[str, Any] = {"blockers": [{"id": "CE-1", "fact": "a flag is gone", "evidence": ["cli.py:3"]}]}
    if verdict == "MERGE_WITH_CONDITIONS":
        grounds = {"conditions": [{"id": "CE-1", "condition": "tell the callers", "when": "person"}]}
    return json.dumps({"verdict": verdict, **({} if verdict == "MERGE" else grounds)}) + "\n"


DETERMINISTIC = ("--routing", "deterministic_only")
JUSTIFIED = {
    "skip_justification": {
        "skip_reason": "done already",
        "why_not_needed_for_exit": "c does it",
        "replacement_assurance": "the tests of c",
    }
}

DETOURED = """
    f/a PARTIAL > detour:look (deterministic)
      f/sq-look-look VERIFIED > advance:b (deterministic)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""

AGAIN = """
    f/a PARTIAL > repeat:a (navigator)
    f/a@2 VERIFIED > advance:b (fast_path)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""


def by_name(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """One test per case, named after what it shows."""
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", cases, ids=names)


def critic_loop(most: int, **more: Any) -> dict[str, Any]:
    routing = {"kind": "microloop", "loop_target": "write", "max_iterations": most, **more}
    return flow("f", step("write"), step("critique", CRITIC, **routing), step("done", CLEANUP))


def back_from_tests(
    most: int = 5, when: Sequence[tuple[Any, ...]] = (("evidence.tests.passed", "done"),)
) -> dict[str, Any]:
    """An author, and the tests that send it back."""
    back = command(kind="branch", when=when, default="write", max_iterations=most)
    return flow("f", step("write"), back, step("done", CLEANUP))


def exits(*codes: int) -> list[dict[str, Any]]:
    """What a command ends with, execution by execution."""
    return [{"run": [f"exit {code}"]} for code in codes]


def writes(*names: str) -> dict[str, Any]:
    return {"write": dict.fromkeys(names, "1\n")}


def edits(most: int) -> list[dict[str, Any]]:
    """An author that leaves other code behind each time."""
    return [{"write": {"src/app.py": f"print({number})\n"}} for number in range(most)]


def chooses(candidate: str, **more: Any) -> dict[str, Any]:
    """A navigator's answer."""
    return {"route": {"chosen_candidate_id": candidate, "reasoning": "as I see it", **more}}
