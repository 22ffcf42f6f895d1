"""Sidequests of one's own: what calls for them, which one is taken, and where the run goes on after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Project
from tests.routed import Case, checked, drive, eliminated, fires_after, quest
from tests.routes.common import BLOCKED, DOUBT, HALF, LINE, STRAIGHT, by_name, critic_loop, edits, writes

PARTIAL = {"kind": "condition", "if": 'envelope.status == "PARTIAL"'}
LONG = [{"id": name, "station": "context-loader"} for name in ("one", "two", "three")]
AFTER_A = """
    f/a PARTIAL > detour:look (deterministic)
      f/sq-look-look VERIFIED > advance:b (deterministic)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""


def look(**more: Any) -> dict[str, Any]:
    return quest("look", fires_after("a"), **more)


def two(first: dict[str, Any], second: dict[str, Any], match: str) -> list[dict[str, Any]]:
    return [quest("look", [first, second], match=match)]


TRIGGERS = [
    Case("a condition on the envelope", [LINE], {"a": HALF}, AFTER_A, sidequests=[look()]),
    Case("a condition that does not hold", [LINE], {}, STRAIGHT, sidequests=[look()]),
    Case(
        "a condition that errors does not hold",
        [LINE],
        {},
        STRAIGHT,
        sidequests=[quest("look", {"kind": "condition", "if": "envelope.assumptions[9].size() > 1"})],
    ),
    Case(
        "a condition on run and history",
        [LINE],
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[
            quest(
                "look",
                {"kind": "condition", "if": "run.steps_executed == 2 && run.depth == 0 && history.size() == 1"},
            )
        ],
    ),
    Case(
        "a path that was changed",
        [LINE],
        {"b": writes("docs/deep/map.txt")},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", {"kind": "paths", "patterns": ["docs/**"]})],
    ),
    Case(
        "a path that was deleted",
        [LINE],
        {"a": {"delete": ["src/app.py"]}},
        AFTER_A.replace("PARTIAL", "VERIFIED"),
        sidequests=[quest("look", {"kind": "paths", "patterns": ["src/*.py"]})],
    ),
    Case(
        "another path",
        [LINE],
        {"a": writes("lib/x.py")},
        STRAIGHT,
        sidequests=[quest("look", {"kind": "paths", "patterns": ["src/*.py", "!lib/**"]})],
    ),
    Case(
        "a path of a step that failed is no change",
        [LINE],
        {"a": {**writes("docs/map.txt"), "fail": "overloaded"}},
        "f/a failed > terminate (deterministic)",
        end="failed",
        sidequests=[quest("look", {"kind": "paths", "patterns": ["docs/**"]})],
    ),
    Case(
        "a step that was executed twice",
        [critic_loop(3)],
        {"write": edits(3), "critique": [DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:critique (deterministic)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", {"kind": "iterations", "at_least": 2}, max_uses_per_run=1)],
    ),
    Case("match any: one is enough", [LINE], {"a": HALF}, AFTER_A, sidequests=two(PARTIAL, fires_after("b"), "any")),
    Case(
        "match all: one is not enough",
        [LINE],
        {"a": HALF},
        STRAIGHT.replace("a VERIFIED", "a PARTIAL"),
        sidequests=two(PARTIAL, fires_after("b"), "all"),
    ),
    Case(
        "match all: both",
        [LINE],
        {"a": {**HALF, **writes("docs/map.txt")}},
        AFTER_A,
        sidequests=two(PARTIAL, {"kind": "paths", "patterns": ["docs/**"]}, "all"),
    ),
    Case(
        "a pause comes before what a blocked step calls for",
        [LINE],
        {"a": [BLOCKED, {}]},
        """
        f/a BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", fires_after("a", "BLOCKED"))],
        then=[("resume", "-m", "red")],
    ),
    Case(
        "what a failed step calls for, then the step again",
        [LINE],
        {"a": [{"fail": "overloaded"}, {}]},
        """
        f/a failed > detour:look (deterministic)
          f/sq-look-look VERIFIED > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", {"kind": "condition", "if": 'receipt.status == "failed"'})],
    ),
    Case(
        "from inside a loop and back into it",
        [critic_loop(2)],
        {"write": edits(2), "critique": HALF},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 PARTIAL > detour:look (deterministic)
          f/sq-look-look@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL)],
    ),
]

CHOICE = [
    Case(
        "the highest priority is taken",
        [LINE],
        {"a": HALF},
        AFTER_A,
        sidequests=[look(priority=60), quest("aside", PARTIAL, priority=40)],
    ),
    Case(
        "of equals the first by name",
        [LINE],
        {"a": HALF},
        AFTER_A,
        sidequests=[look(), quest("zoom", PARTIAL)],
    ),
    Case(
        "the next one when the first is used up",
        [LINE],
        {"a": HALF, "b": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic)
        f/b PARTIAL > detour:aside (deterministic)
          f/sq-aside-look VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL, priority=60, max_uses_per_run=1), quest("aside", PARTIAL, priority=40)],
    ),
    Case(
        "used up in this run",
        [LINE],
        {"a": HALF, "b": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic)
        f/b PARTIAL > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL, max_uses_per_run=1)],
    ),
    Case(
        "uses count over a resume",
        [LINE],
        {"a": HALF, "b": [{"fail": "overloaded"}, HALF]},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic)
        f/b failed > terminate (deterministic)
        -- failed > repeat:b (deterministic)
        f/b@2 PARTIAL > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL, max_uses_per_run=1)],
        then=[("resume",)],
    ),
    Case(
        "a use that was rolled back does not count",
        [LINE],
        {"a": HALF, "b": HALF},
        """
        f/a PARTIAL > detour:look (deterministic) > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic)
        f/b PARTIAL > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL, max_uses_per_run=1)],
        then=[("rollback", "a"), ("resume",)],
    ),
    Case(
        "a use before the rollback's target counts",
        [LINE],
        {"a": HALF, "b": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic) > advance:b (deterministic)
        f/b PARTIAL > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[quest("look", PARTIAL, max_uses_per_run=1)],
        then=[("rollback", "sq-look-look"), ("resume",)],
    ),
    Case(
        "a sidequest that one's own takes the place of",
        [LINE],
        {"a": writes("src/auth/login.py")},
        STRAIGHT,
        bundled_sidequests=True,
        sidequests=[quest("security-audit", {"kind": "condition", "if": "false"})],
    ),
]

STEPS = [
    Case(
        "several steps, in their order",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two VERIFIED > advance:sq-look-three (fast_path)
          f/sq-look-three VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[look(steps=LONG)],
        events="""
        stack_push frame=sidequest:look@1 depth=1 interrupted=f/a back_to=f/b
        routing_offroad candidate_id=detour:look from_step=a instead_of=advance:b why_now=[WHEN]
        stack_pop frame=sidequest:look@1 depth=0
        """.replace("WHEN", str(fires_after("a")["if"])),
    ),
    Case(
        "doubts and halves inside lead on",
        [LINE],
        {"a": HALF, "sq-look-one": DOUBT, "sq-look-two": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one UNVERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two PARTIAL > advance:sq-look-three (fast_path)
          f/sq-look-three VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[look(steps=LONG)],
    ),
    Case(
        "BLOCKED inside waits, and goes on inside",
        [LINE],
        {"a": HALF, "sq-look-two": [BLOCKED, {}]},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two BLOCKED > pause (deterministic)
        -- paused > repeat:sq-look-two (deterministic)
          f/sq-look-two@2 VERIFIED > advance:sq-look-three (fast_path)
          f/sq-look-three VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[look(steps=LONG)],
        then=[("resume", "-m", "red")],
    ),
    Case(
        "BLOCKED inside with on_blocked continue",
        [LINE],
        {"a": HALF, "sq-look-one": BLOCKED, "sq-look-two": BLOCKED},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one BLOCKED > advance:sq-look-two (fast_path)
          f/sq-look-two BLOCKED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[look(steps=[{**named, "on_blocked": "continue"} for named in LONG[:2]])],
    ),
    Case(
        "a failure inside ends the run, and is executed again inside",
        [LINE],
        {"a": HALF, "sq-look-two": [{"fail": "overloaded"}, {}]},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-one VERIFIED > advance:sq-look-two (fast_path)
          f/sq-look-two failed > terminate (deterministic)
        -- failed > repeat:sq-look-two (deterministic)
          f/sq-look-two@2 VERIFIED > advance:sq-look-three (fast_path)
          f/sq-look-three VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[look(steps=LONG)],
        then=[("resume",)],
    ),
]


@by_name(TRIGGERS)
def test_trigger(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(CHOICE)
def test_choice(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(STEPS)
def test_steps(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize(
    ("sidequests", "reasons"),
    [
        pytest.param([look(priority=60), quest("aside", PARTIAL)], ["not taken: {}"], id="a lower priority"),
    ],
)
def test_a_detour_not_taken_says_why(project: Project, sidequests: list[dict[str, Any]], reasons: list[str]) -> None:
    run = checked(project, Case("", [LINE], {"a": HALF}, AFTER_A, sidequests=sidequests))
    trigger = fires_after("a")["if"]
    assert eliminated(project, run, "detour:aside") == [reason.format(f"look: {trigger}") for reason in reasons]


def test_a_detour_that_is_used_up_says_so(project: Project) -> None:
    case = next(case for case in CHOICE if case.name == "used up in this run")
    run = checked(project, case)
    assert eliminated(project, run, "detour:look") == ["used up: 1 of 1 in this run"]


def test_a_sidequest_says_which_tier_and_how_many_turns_its_steps_have(project: Project) -> None:
    steps = [{"id": "look", "station": "context-loader", "tier": "elite", "max_turns": 3}]
    hashes = []
    for more in ({}, {}, {"steps": steps}):
        run = drive(project, Case("", [LINE], {"a": HALF}, (), sidequests=[look(**more)]))
        hashes.append(project.json("show", "sq-look-look", "--receipt", "--run", run)["prompt_hash"])
        project.swarm("discard", run, "--force")
    assert hashes[0] == hashes[1] != hashes[2]
