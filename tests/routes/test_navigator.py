"""What a navigator may choose, and what becomes of what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, fires_after, flow, problems, quest, step, told_by_events
from tests.routes.common import (
    AGAIN,
    ASKED,
    AUTHORITATIVE,
    BLOCKED,
    DETOURED,
    DOUBT,
    HALF,
    JUSTIFIED,
    LINE,
    OPEN,
    STRAIGHT,
    WHY,
    by_name,
    chooses,
    critic_loop,
)

QUEST = quest("look", fires_after("a"))

OTHER = quest("aside", fires_after("a"), priority=40)

CALM = quest("calm", {"kind": "condition", "if": "false"})

SKIPPED = """
    f/a VERIFIED > skip:b (navigator)
    f/c VERIFIED > terminate (fast_path)
"""

JUDGE = flow(
    "f",
    step("judge", CRITIC, kind="branch", when=[("envelope.observations[0] == 'go'", "c")]),
    step("b"),
    step("c", CLEANUP),
)

TAKEN = [
    Case("the same step once more", [LINE], {"a": [{**HALF, **chooses("repeat:a")}, {}]}, AGAIN, no_events=True),
    Case(
        "an answer as text",
        [LINE],
        {"a": [{**HALF, "route": '{"chosen_candidate_id": "repeat:a"}'}, {}]},
        AGAIN,
    ),
    Case(
        "what the graph would have taken",
        [LINE],
        {"a": {**HALF, **chooses("advance:b")}},
        OPEN.replace("b (fast_path)", "b (navigator)"),
    ),
    Case(
        "a detour that is called for",
        [LINE],
        {"a": {**HALF, **chooses("detour:look", why_now=WHY)}},
        DETOURED.replace("look (deterministic)", "look (navigator:detour)"),
        sidequests=[QUEST],
        events="""
        stack_push frame=sidequest:look@1 depth=1 interrupted=f/a back_to=f/b
        routing_offroad candidate_id=detour:look from_step=a instead_of=advance:b why_now=[the map is old]
        stack_pop frame=sidequest:look@1 depth=0
        """,
    ),
    Case(
        "a detour of lower priority",
        [LINE],
        {"a": {**HALF, **chooses("detour:aside", why_now=WHY)}},
        """
        f/a PARTIAL > detour:aside (navigator:detour)
          f/sq-aside-look VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[QUEST, OTHER],
    ),
    Case(
        "on, although a detour is called for",
        [LINE],
        {"a": {**HALF, **chooses("advance:b")}},
        OPEN.replace("b (fast_path)", "b (navigator)"),
        sidequests=[QUEST],
        no_events=True,
    ),
    Case(
        "on, although the step is blocked",
        [LINE],
        {"a": {**BLOCKED, **chooses("advance:b")}},
        STRAIGHT.replace("a VERIFIED > advance:b (fast_path)", "a BLOCKED > advance:b (navigator)"),
    ),
    Case(
        "a blocked step once more",
        [LINE],
        {"a": [{**BLOCKED, **chooses("repeat:a")}, {}]},
        AGAIN.replace("PARTIAL", "BLOCKED"),
    ),
    Case(
        "a blocked step is handed to a person",
        [LINE],
        {"a": {**BLOCKED, **chooses("escalate")}},
        "f/a BLOCKED > escalate (navigator)",
        end="paused",
    ),
    Case(
        "a branch that no condition decides",
        [JUDGE],
        {"judge": chooses("branch:c")},
        """
        f/judge VERIFIED > branch:c (navigator)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a failed step once more",
        [LINE],
        {"a": [{"fail": "overloaded", **chooses("repeat:a")}, {}]},
        AGAIN.replace("PARTIAL", "failed"),
        options=AUTHORITATIVE,
    ),
    Case(
        "a skip that is justified",
        [LINE],
        {"a": chooses("skip:b", **JUSTIFIED)},
        SKIPPED,
        options=AUTHORITATIVE,
        events="routing_offroad candidate_id=skip:b from_step=a instead_of=advance:b why_now=None",
    ),
    Case(
        "a detour that nothing calls for",
        [LINE],
        {"b": chooses("detour:calm", why_now=WHY)},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > detour:calm (navigator:detour)
          f/sq-calm-look VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
        sidequests=[CALM],
    ),
    Case(
        "once more round, although the critic is content",
        [critic_loop(3)],
        {"critique": [chooses("loop:write:iter_2"), {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique VERIFIED > loop:write:iter_2 (navigator)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
    ),
    Case(
        "out of the loop, although the critic doubts",
        [critic_loop(3)],
        {"critique": {**DOUBT, **chooses("advance:done")}},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > advance:done (navigator)
        f/done VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
    ),
]

BOUNDED = [
    Case(
        "a step three times in a row at most",
        [LINE],
        {"a": {**HALF, **chooses("repeat:a")}},
        """
        f/a PARTIAL > repeat:a (navigator)
        f/a@2 PARTIAL > repeat:a (navigator)
        f/a@3 PARTIAL > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a failed step three times in a row at most",
        [LINE],
        {"a": {"fail": "overloaded", **chooses("repeat:a")}},
        """
        f/a failed > repeat:a (navigator)
        f/a@2 failed > repeat:a (navigator)
        f/a@3 failed > terminate (deterministic)
        """,
        end="failed",
        options=AUTHORITATIVE,
    ),
    Case(
        "a failed step of a sidequest three times at most",
        [LINE],
        {"a": HALF, "sq-look-look": {"fail": "overloaded", **chooses("repeat:sq-look-look")}},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look failed > repeat:sq-look-look (navigator)
          f/sq-look-look@2 failed > repeat:sq-look-look (navigator)
          f/sq-look-look@3 failed > terminate (deterministic)
        """,
        end="failed",
        options=AUTHORITATIVE,
        sidequests=[QUEST],
    ),
    Case(
        "a blocked step three times in a row at most",
        [LINE],
        {"a": {**BLOCKED, **chooses("repeat:a")}},
        """
        f/a BLOCKED > repeat:a (navigator)
        f/a@2 BLOCKED > repeat:a (navigator)
        f/a@3 BLOCKED > pause (deterministic)
        """,
        end="paused",
    ),
    Case(
        "no loop beyond its maximum",
        [critic_loop(2)],
        {"critique": [DOUBT, {**DOUBT, **chooses("loop:write:iter_3")}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
        events="""
        routing_rejected from=navigator candidate_id=loop:write:iter_3 problem=PROBLEM
        """.replace("PROBLEM", "'loop:write:iter_3' is none of the candidates"),
        sidequests=[CALM],
    ),
    Case(
        "a detour no more often than it may be taken",
        [LINE],
        {name: chooses("detour:calm", why_now=WHY) for name in ("a", "b")},
        """
        f/a VERIFIED > detour:calm (navigator:detour)
          f/sq-calm-look VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
        sidequests=[{**CALM, "max_uses_per_run": 1}],
    ),
]


@by_name(TAKEN)
def test_taken(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(BOUNDED)
def test_bounded(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize(
    ("answer", "options", "problem"),
    [
        pytest.param(
            {"chosen_candidate_id": "advance:zoo"}, (), "'advance:zoo' is none of the candidates", id="other"
        ),
        pytest.param({"chosen_candidate_id": "advance:c"}, (), "'advance:c' is none of the candidates", id="too far"),
        pytest.param(
            {"chosen_candidate_id": "detour:calm", "why_now": WHY}, (), "'detour:calm' is none of the", id="calm"
        ),
        pytest.param("I would go on", (), "the answer is not JSON: 'I would go on'", id="not JSON"),
        pytest.param("[]", (), "the answer does not match its schema: expected", id="no object"),
        pytest.param(
            {"chosen_candidate_id": 5}, (), "the answer does not match its schema: chosen_candidate_id", id="schema"
        ),
        pytest.param({"mood": "fine"}, (), "the answer does not match its schema: mood: ", id="unknown field"),
        pytest.param(
            {"why_now": {"trigger": ""}}, (), "the answer does not match its schema: why_now", id="no trigger"
        ),
        pytest.param({}, (), "no candidate was chosen", id="nothing chosen"),
        pytest.param(
            {"chosen_candidate_id": "skip:b", **JUSTIFIED}, (), "'skip:b' is none of the", id="skip in assist"
        ),
        pytest.param(
            {"chosen_candidate_id": "skip:b"}, AUTHORITATIVE, "skip:b needs skip_justification", id="skip unjustified"
        ),
        pytest.param(
            {"chosen_candidate_id": "detour:calm"},
            AUTHORITATIVE,
            "detour:calm needs why_now",
            id="detour without why",
        ),
    ],
)
def test_an_answer_that_does_not_count_leaves_the_run_its_way(
    project: Project, answer: Any, options: tuple[str, ...], problem: str
) -> None:
    case = Case("", [LINE], {"a": {**HALF, "route": answer}}, ASKED, options=options, sidequests=[CALM])
    run = checked(project, case)
    (said,) = problems(project, run)
    assert said.startswith(problem)
    (told,) = told_by_events(project, run)
    assert told.startswith("routing_rejected from=navigator")


def test_a_detour_without_reasons_is_rejected_and_the_default_taken(project: Project) -> None:
    answer = chooses("detour:aside")
    case = Case("", [LINE], {"a": {**HALF, **answer}}, DETOURED, sidequests=[QUEST, OTHER])
    run = checked(project, case)
    assert problems(project, run) == ["detour:aside needs why_now (trigger, relevance_to_charter)"]


def test_only_a_linear_step_can_be_skipped(project: Project) -> None:
    case = Case(
        "",
        [critic_loop(1)],
        {"write": chooses("skip:critique", **JUSTIFIED)},
        """
        f/write VERIFIED > advance:critique (deterministic)
        f/critique VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
    )
    run = checked(project, case)
    assert problems(project, run) == ["'skip:critique' is none of the candidates"]


@pytest.mark.parametrize(
    ("delay_ms", "told"),
    [pytest.param(5000, ["no answer within 0.2 s"], id="too late"), pytest.param(1, [], id="in time")],
)
def test_an_answer_counts_when_it_is_in_time(project: Project, delay_ms: int, told: list[str]) -> None:
    case = Case(
        "",
        [LINE],
        {"a": [{**HALF, **chooses("repeat:a"), "route_delay_ms": delay_ms}, {}]},
        ASKED if told else AGAIN,
        files={".swarm/config.yaml": "routing: {navigator_timeout: 0.2}\n"},
    )
    run = checked(project, case)
    assert problems(project, run) == told
