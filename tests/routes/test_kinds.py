"""Runs through the product, each with the exact sequence of steps, decisions and sources."""

from __future__ import annotations

import pytest

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, fires_after, flow, quest, step

LINE = flow("line", step("a"), step("b"), step("c", CLEANUP, kind="terminal"))
LOOP = flow(
    "loop",
    step("write"),
    step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=3),
    step("done", CLEANUP),
)

QUEST = quest("look", fires_after("a"))

CASES = [
    Case(
        "straight on",
        [LINE],
        {},
        [
            "line/a VERIFIED > advance:b (fast_path)",
            "line/b VERIFIED > advance:c (fast_path)",
            "line/c VERIFIED > terminate (fast_path)",
        ],
    ),
    Case(
        "a sidequest is taken and returns",
        [LINE],
        {"a": {"status": "PARTIAL"}},
        [
            "line/a PARTIAL > detour:look (deterministic)",
            "  line/sq-look-look VERIFIED > advance:b (fast_path)",
            "line/b VERIFIED > advance:c (fast_path)",
            "line/c VERIFIED > terminate (fast_path)",
        ],
        sidequests=[QUEST],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_route(project: Project, case: Case) -> None:
    checked(project, case)
