"""Who is asked in which mode, and when the routing signal of an agent counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, fires_after, flow, quest, step
from tests.routes.common import (
    AGAIN,
    AUTHORITATIVE,
    DETERMINISTIC,
    DETOURED,
    HALF,
    JUSTIFIED,
    LINE,
    OPEN,
    STRAIGHT,
    WHY,
    by_name,
    chooses,
)

QUEST = quest("look", fires_after("a"))

OTHER = quest("aside", fires_after("a"), priority=40)

JUDGE = flow(
    "f",
    step("judge", CRITIC, kind="branch", when=[("envelope.observations[0] == 'go'", "c")]),
    step("b"),
    step("c", CLEANUP),
)


def signals(candidate: str, **more: Any) -> dict[str, Any]:
    """What an agent's own envelope asks for."""
    return {"routing": {"chosen_candidate_id": candidate, "reasoning": "I know it", **more}}


MODES = {"a": [{**HALF, **chooses("repeat:a")}, chooses("skip:b", **JUSTIFIED)]}

BY_MODE = [
    Case("deterministic_only asks nobody", [LINE], MODES, OPEN, options=DETERMINISTIC, no_events=True),
    Case("assist asks where something is open", [LINE], MODES, AGAIN, no_events=True),
    Case(
        "authoritative asks everywhere",
        [LINE],
        MODES,
        """
        f/a PARTIAL > repeat:a (navigator)
        f/a@2 VERIFIED > skip:b (navigator)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=AUTHORITATIVE,
    ),
    Case(
        "deterministic_only takes what is called for",
        [LINE],
        {"a": {**HALF, **chooses("advance:b")}},
        DETOURED,
        options=DETERMINISTIC,
        sidequests=[QUEST],
    ),
    Case("without an answer authoritative goes on by itself", [LINE], {}, STRAIGHT, options=AUTHORITATIVE),
]

WISHES = [
    Case(
        "an agent's signal",
        [LINE],
        {"a": [{**HALF, **signals("repeat:a")}, {}]},
        AGAIN.replace("navigator", "envelope_fallback"),
        no_events=True,
    ),
    Case(
        "an agent's signal for a detour needs its reasons too",
        [LINE],
        {"a": {**HALF, **signals("detour:aside")}},
        DETOURED,
        sidequests=[QUEST, OTHER],
        events="""
        stack_push frame=sidequest:look@1 depth=1 interrupted=f/a back_to=f/b
        routing_rejected from=envelope candidate_id=detour:aside problem=NEEDS
        routing_offroad candidate_id=detour:look from_step=a instead_of=advance:b why_now=[WHEN]
        stack_pop frame=sidequest:look@1 depth=0
        """.replace("NEEDS", "detour:aside needs why_now (trigger, relevance_to_charter)").replace(
            "WHEN", str(fires_after("a")["if"])
        ),
    ),
    Case(
        "an agent's signal for a detour, with its reasons",
        [LINE],
        {"a": {**HALF, **signals("detour:look", why_now=WHY)}},
        DETOURED.replace("look (deterministic)", "look (envelope_fallback)"),
        sidequests=[QUEST],
    ),
    Case(
        "a signal outside of the candidates",
        [LINE],
        {"a": {**HALF, **signals("advance:c")}},
        OPEN,
        events="routing_rejected from=envelope candidate_id=advance:c problem='advance:c' is none of the candidates",
    ),
    Case(
        "a signal is not heard in deterministic_only",
        [LINE],
        {"a": {**HALF, **signals("repeat:a")}},
        OPEN,
        options=DETERMINISTIC,
        no_events=True,
    ),
    Case("a signal is not heard where nothing is open", [LINE], {"a": signals("repeat:a")}, STRAIGHT, no_events=True),
    Case(
        "the navigator's answer comes before the signal",
        [LINE],
        {"a": {**HALF, **signals("repeat:a"), **chooses("advance:b")}},
        OPEN.replace("b (fast_path)", "b (navigator)"),
        no_events=True,
    ),
    Case(
        "the signal counts when the navigator's answer does not",
        [LINE],
        {"a": [{**HALF, **signals("repeat:a"), **chooses("advance:zoo")}, {}]},
        AGAIN.replace("navigator", "envelope_fallback"),
        events="""
        routing_rejected from=navigator candidate_id=advance:zoo problem='advance:zoo' is none of the candidates
        """,
    ),
    Case(
        "a signal decides a branch that no condition decides",
        [JUDGE],
        {"judge": signals("branch:b")},
        """
        f/judge VERIFIED > branch:b (envelope_fallback)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
]


@by_name(BY_MODE)
def test_mode(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(WISHES)
def test_signal(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize(("mode", "route"), [("deterministic_only", OPEN), ("assist", AGAIN)])
def test_the_project_chooses_the_mode(project: Project, mode: str, route: str) -> None:
    files = {".swarm/config.yaml": f"routing: {{mode: {mode}}}\n"}
    checked(project, Case("", [LINE], {"a": [{**HALF, **chooses("repeat:a")}, {}]}, route, files=files))
