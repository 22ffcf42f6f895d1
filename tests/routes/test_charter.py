"""What leaves the graph names the rule of the charter that allows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitswarm.resources import bundled
from gitswarm.specs.fragments import offroad_problem
from gitswarm.specs.library import load_library
from tests.conftest import Project
from tests.projects import ask
from tests.routed import CLEANUP, Case, drive, fires_after, flow, problems, quest, routed, step, taken
from tests.routes.common import AUTHORITATIVE, HALF, JUSTIFIED, WHY, chooses

DOUBT, LATE = "Asking when two readings\n  lead to different code.", "It is late."
LINE = flow(
    "f",
    step("a"),
    step("b"),
    step("c", CLEANUP),
    charter={"goal": "Greet.", "offroad_policy": {"justified": [DOUBT], "not_justified": [LATE]}},
    cross_cutting=["gh-researcher"],
)
QUEST = quest("look", fires_after("a"))
NAMED = "asking when two readings lead to different code"
"""The rule, as somebody quotes it."""

NEEDS = "one of offroad_policy.justified in the charter of f, word for word"
NODE = {"id": "x", "station": "gh-researcher", "objective": "Search."}


def offroad(project: Project, run: str) -> list[str | None]:
    """The rules that the offroad events name."""
    events = map(json.loads, ask(project, "events", run, "--json").stdout.splitlines())
    return [event["payload"]["offroad_rule"] for event in events if event["kind"] == "routing_offroad"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(chooses("skip:b", **JUSTIFIED), id="a skip"),
        pytest.param(chooses("detour:look", why_now=WHY), id="a detour that is called for"),
        pytest.param({"route": {"inject_nodes": [NODE], "why_now": WHY}}, id="nodes of a cross-cutting station"),
    ],
)
@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (NAMED, None),
        (None, f"needs offroad_rule: {NEEDS}"),
        ("Because.", f"offroad_rule 'Because.' is no entry: {NEEDS}"),
        (LATE, f"the charter of f does not allow it: {LATE!r} is not_justified"),
    ],
    ids=["justified", "none", "unknown", "not justified"],
)
def test_a_navigator_names_the_rule(
    project: Project, answer: dict[str, Any], rule: str | None, problem: str | None
) -> None:
    said = {**HALF, "route": {**answer["route"], "offroad_rule": rule}}
    run = drive(project, Case("", [LINE], {"a": said}, (), options=AUTHORITATIVE, sidequests=[QUEST]))
    assert problems(project, run) == ([problem] if problem else [])
    # Without its answer the detour that is called for is taken, and nobody names a rule.
    assert offroad(project, run) == [None if problem else DOUBT]


@pytest.mark.parametrize(("rule", "source"), [(NAMED, "envelope_fallback"), (None, "deterministic")])
def test_so_does_an_agent_that_wishes_to_leave(project: Project, rule: str | None, source: str) -> None:
    signal = {"chosen_candidate_id": "detour:look", "why_now": WHY, "offroad_rule": rule}
    run = drive(project, Case("", [LINE], {"a": {**HALF, "routing": signal}}, (), sidequests=[QUEST]))
    assert routed(project, run)[0] == f"f/a PARTIAL > detour:look ({source})"
    assert offroad(project, run) == [DOUBT if rule else None]


def test_a_charter_without_reasons_asks_for_none(project: Project) -> None:
    free = {**LINE, "charter": {"goal": "Greet."}}
    run = drive(project, Case("", [free], {"a": chooses("skip:b", **JUSTIFIED)}, (), options=AUTHORITATIVE))
    assert offroad(project, run) == [None]


def test_a_navigator_may_take_what_evidence_calls_for_in_every_bundled_flow() -> None:
    library = load_library(bundled("flows"), {})
    flows = [library.flow(name).flow for name in library.flow_ids]
    refusing = [
        each.id for each in flows if offroad_problem(each, "Taking a detour that the evidence of a step calls for.")
    ]
    assert (refusing, len(flows)) == ([], 8)


def test_the_rule_stands_in_the_decision(project: Project) -> None:
    said = chooses("skip:b", **JUSTIFIED, offroad_rule=NAMED)
    run = drive(project, Case("", [LINE], {"a": said}, (), options=AUTHORITATIVE))
    assert [each.offroad_rule for each in taken(project, run) if each.offroad_rule] == [DOUBT]
    shown = " ".join(ask(project, "show", "a", "--routing", "--run", run).stdout.split())
    assert f"charter {' '.join(DOUBT.split())}" in shown
