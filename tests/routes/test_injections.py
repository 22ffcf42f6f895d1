"""Flows and nodes that a navigator injects: who lets them in, that all are executed, and where they return."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.routed import CRITIC, Case, checked, drive, fires_after, flow, problems, quest, routed, step
from tests.routes.common import ASKED, AUTHORITATIVE, BLOCKED, DOUBT, HALF, LINE, STRAIGHT, WHY, by_name, chooses

TOOL = flow("tool", step("t1"), step("t2"), utility=True)
LOOPING = flow(
    "tool",
    step("t1"),
    step("t2", CRITIC, kind="microloop", loop_target="t1", max_iterations=2),
    utility=True,
)
X = {"id": "x", "station": "context-loader", "objective": "look"}
Y = {"id": "y", "station": "code-implementer", "objective": "mend"}
INJECT = {**HALF, **chooses("inject:tool", why_now=WHY)}
TAIL = """
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""


def nodes(*wanted: dict[str, Any], key: str = "inject_nodes", why: bool = True) -> dict[str, Any]:
    """A navigator that wants steps which no flow has, after the first one of the flow."""
    return {**HALF, "route": {key: list(wanted), "reasoning": "as I see it", **({"why_now": WHY} if why else {})}}


INTO_TOOL = """
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 VERIFIED > advance:t2 (fast_path)
      tool/t2 VERIFIED > advance:b (fast_path)
"""
PROPOSED = """
    f/a PARTIAL > pause (navigator)
"""
APPROVED = f"""{PROPOSED}    -- paused > inject:node-x (navigator)
      f/node-x VERIFIED > advance:node-y (fast_path)
      f/node-y VERIFIED > advance:b (deterministic)
{TAIL}"""
AT_ONCE = """
    f/a PARTIAL > inject:node-x (navigator)
      f/node-x VERIFIED > advance:node-y (fast_path)
      f/node-y VERIFIED > advance:b (deterministic)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""

FLOWS = [
    Case(
        "a utility flow, and back",
        [LINE, TOOL],
        {"a": INJECT},
        f"{INTO_TOOL}{TAIL}",
        events="""
        stack_push frame=flow:tool@1 depth=1 interrupted=f/a back_to=f/b
        flow_injected flow=tool
        routing_offroad candidate_id=inject:tool from_step=a instead_of=advance:b why_now=[the map is old]
        stack_pop frame=flow:tool@1 depth=0
        """,
    ),
    Case(
        "where nothing is open, only with authority",
        [LINE, TOOL],
        {"a": chooses("inject:tool", why_now=WHY)},
        f"{INTO_TOOL}{TAIL}".replace("a PARTIAL", "a VERIFIED"),
        options=AUTHORITATIVE,
    ),
    Case("not without authority", [LINE, TOOL], {"a": chooses("inject:tool", why_now=WHY)}, STRAIGHT, no_events=True),
    Case(
        "at the last step, and then the end",
        [LINE, TOOL],
        {"c": INJECT},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c PARTIAL > inject:tool (navigator)
          tool/t1 VERIFIED > advance:t2 (fast_path)
          tool/t2 VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a failure inside is executed again inside",
        [LINE, TOOL],
        {"a": INJECT, "t2": [{"fail": "overloaded"}, {}]},
        f"""
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 VERIFIED > advance:t2 (fast_path)
      tool/t2 failed > terminate (deterministic)
    -- failed > repeat:t2 (deterministic)
      tool/t2@2 VERIFIED > advance:b (fast_path)
{TAIL}""",
        then=[("resume",)],
    ),
    Case(
        "BLOCKED inside waits, and goes on inside",
        [LINE, TOOL],
        {"a": INJECT, "t1": [BLOCKED, {}]},
        f"""
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 BLOCKED > pause (deterministic)
    -- paused > repeat:t1 (deterministic)
      tool/t1@2 VERIFIED > advance:t2 (fast_path)
      tool/t2 VERIFIED > advance:b (fast_path)
{TAIL}""",
        then=[("resume", "-m", "red")],
    ),
    Case(
        "each entry into an injected flow counts its loops anew",
        [LINE, LOOPING],
        {"a": INJECT, "b": INJECT, "t2": DOUBT},
        """
        f/a PARTIAL > inject:tool (navigator)
          tool/t1 VERIFIED > advance:t2 (fast_path)
          tool/t2 UNVERIFIED > loop:t1:iter_2 (deterministic)
          tool/t1@2 VERIFIED > advance:t2 (fast_path)
          tool/t2@2 UNVERIFIED > advance:b (deterministic)
        f/b PARTIAL > inject:tool (navigator)
          tool/t1@3 VERIFIED > advance:t2 (fast_path)
          tool/t2@3 UNVERIFIED > loop:t1:iter_2 (deterministic)
          tool/t1@4 VERIFIED > advance:t2 (fast_path)
          tool/t2@4 UNVERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a sidequest inside an injected flow",
        [LINE, TOOL],
        {"a": INJECT, "t1": HALF},
        f"""
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 PARTIAL > detour:look (deterministic)
        tool/sq-look-look VERIFIED > advance:t2 (deterministic)
      tool/t2 VERIFIED > advance:b (fast_path)
{TAIL}""",
        sidequests=[quest("look", fires_after("t1"))],
    ),
    Case(
        "a sidequest at an injected flow's last step",
        [LINE, TOOL],
        {"a": INJECT, "t2": HALF},
        f"""
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 VERIFIED > advance:t2 (fast_path)
      tool/t2 PARTIAL > detour:look (deterministic)
      tool/sq-look-look VERIFIED > advance:b (deterministic)
{TAIL}""",
        sidequests=[quest("look", fires_after("t2"))],
    ),
    Case(
        "one injected flow inside another",
        [LINE, TOOL, flow("kit", step("k"), utility=True)],
        {"a": INJECT, "t1": {**HALF, **chooses("inject:kit", why_now=WHY)}},
        f"""
    f/a PARTIAL > inject:tool (navigator)
      tool/t1 PARTIAL > inject:kit (navigator)
        kit/k VERIFIED > advance:t2 (fast_path)
      tool/t2 VERIFIED > advance:b (fast_path)
{TAIL}""",
    ),
]

NODES = [
    Case(
        "assist: nodes wait for approval",
        [LINE],
        {"a": nodes(X, Y)},
        PROPOSED,
        end="paused",
        no_events=True,
    ),
    Case(
        "assist: approved nodes are executed",
        [LINE],
        {"a": nodes(X, Y)},
        APPROVED,
        then=[("resume", "--approve")],
        events="""
        stack_push frame=nodes:x@1 depth=1 interrupted=f/a back_to=f/b
        node_injected flow=f step=node-x station=context-loader
        node_injected flow=f step=node-y station=code-implementer
        graph_extended proposal=a-1 after=a nodes=x,y
        routing_offroad candidate_id=inject:node-x from_step=a instead_of=advance:b why_now=[the map is old]
        stack_pop frame=nodes:x@1 depth=0
        """,
    ),
    Case(
        "assist: an approved extension of the graph is executed",
        [LINE],
        {"a": nodes(X, Y, key="extend_graph")},
        APPROVED,
        then=[("resume", "--approve")],
    ),
    Case(
        "assist: without approval on as the flow says",
        [LINE],
        {"a": nodes(X, Y)},
        f"{PROPOSED}    -- paused > advance:b (deterministic)\n{TAIL}",
        then=[("resume",)],
        no_events=True,
    ),
    Case(
        "assist: approved at the last step, and then the end",
        [LINE],
        {"c": nodes(X)},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c PARTIAL > pause (navigator)
        -- paused > inject:node-x (navigator)
          f/node-x VERIFIED > terminate (deterministic)
        """,
        then=[("resume", "--approve")],
    ),
    Case(
        "autopilot: proposed, and on",
        [LINE],
        {"a": nodes(X, Y)},
        ASKED,
        options=("--autopilot",),
        events="""
        routing_rejected from=navigator candidate_id=None problem=PROBLEM
        """.replace("PROBLEM", "proposed, not executed: nobody is there to approve"),
    ),
    Case(
        "authoritative: executed at once",
        [LINE],
        {"a": nodes(X, Y)},
        AT_ONCE,
        options=AUTHORITATIVE,
        events="""
        stack_push frame=nodes:x@1 depth=1 interrupted=f/a back_to=f/b
        node_injected flow=f step=node-x station=context-loader
        node_injected flow=f step=node-y station=code-implementer
        routing_offroad candidate_id=inject:node-x from_step=a instead_of=advance:b why_now=[the map is old]
        stack_pop frame=nodes:x@1 depth=0
        """,
    ),
    Case(
        "authoritative: an extension of the graph",
        [LINE],
        {"a": nodes(X, Y, key="extend_graph")},
        AT_ONCE,
        options=AUTHORITATIVE,
        events="""
        stack_push frame=nodes:x@1 depth=1 interrupted=f/a back_to=f/b
        node_injected flow=f step=node-x station=context-loader
        node_injected flow=f step=node-y station=code-implementer
        graph_extended proposal=a-1 after=a nodes=x,y
        routing_offroad candidate_id=inject:node-x from_step=a instead_of=advance:b why_now=[the map is old]
        stack_pop frame=nodes:x@1 depth=0
        """,
    ),
    Case(
        "a node that is BLOCKED waits, and the others follow",
        [LINE],
        {"a": nodes(X, Y), "node-x": [BLOCKED, {}]},
        f"""
    f/a PARTIAL > inject:node-x (navigator)
      f/node-x BLOCKED > pause (deterministic)
    -- paused > repeat:node-x (deterministic)
      f/node-x@2 VERIFIED > advance:node-y (fast_path)
      f/node-y VERIFIED > advance:b (deterministic)
{TAIL}""",
        options=AUTHORITATIVE,
        then=[("resume", "-m", "red")],
    ),
    Case(
        "a node that failed is executed again",
        [LINE],
        {"a": nodes(X, Y), "node-y": [{"fail": "overloaded"}, {}]},
        f"""
    f/a PARTIAL > inject:node-x (navigator)
      f/node-x VERIFIED > advance:node-y (fast_path)
      f/node-y failed > terminate (deterministic)
    -- failed > repeat:node-y (deterministic)
      f/node-y@2 VERIFIED > advance:b (deterministic)
{TAIL}""",
        options=AUTHORITATIVE,
        then=[("resume",)],
    ),
    Case(
        "nodes instead of a detour that is called for",
        [LINE],
        {"a": nodes(X)},
        f"""
    f/a PARTIAL > inject:node-x (navigator)
      f/node-x VERIFIED > advance:b (deterministic)
{TAIL}""",
        options=AUTHORITATIVE,
        sidequests=[quest("look", fires_after("a"))],
    ),
]


@by_name(FLOWS)
def test_flow(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(NODES)
def test_nodes(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        pytest.param(nodes(X, why=False), "new nodes need why_now (trigger, relevance_to_charter)", id="no why"),
        pytest.param(nodes(X, X), "two new nodes have the same id", id="same id"),
        pytest.param(nodes({**X, "station": "wizard"}), "this run has no station 'wizard'", id="unknown station"),
        pytest.param(
            {**HALF, **chooses("inject:tool")}, "inject:tool needs why_now (trigger, relevance_to_charter)", id="flow"
        ),
        pytest.param(
            {**HALF, **chooses("inject:f", why_now=WHY)}, "'inject:f' is none of the candidates", id="itself"
        ),
    ],
)
@pytest.mark.parametrize("options", [(), AUTHORITATIVE], ids=["assist", "authoritative"])
def test_what_may_not_be_injected(
    project: Project, wanted: dict[str, Any], problem: str, options: tuple[str, ...]
) -> None:
    run = checked(project, Case("", [LINE, TOOL], {"a": wanted}, ASKED, options=options))
    assert problems(project, run) == [problem]


@pytest.mark.parametrize(
    ("options", "then"),
    [
        pytest.param((), (), id="assist"),
        pytest.param((), (("resume", "--approve"),), id="approved"),
        pytest.param(("--autopilot",), (), id="autopilot"),
        pytest.param(AUTHORITATIVE, (), id="authoritative"),
    ],
)
def test_a_proposal_lies_in_the_tree(project: Project, options: tuple[str, ...], then: tuple[Any, ...]) -> None:
    case = Case("", [LINE], {"a": nodes(X, Y, key="extend_graph")}, "", options=options, then=then)
    run = drive(project, case)
    text = project.git("show", f"shadow/{run}:.swarm/runs/{run}/f/routing/proposals/a-1.json")
    proposal = json.loads(text)
    assert (proposal["after_step"], proposal["nodes"], proposal["why_now"]["trigger"]) == (
        "a",
        [X, Y],
        "the map is old",
    )


def test_a_skip_that_is_refused_leaves_a_proposal_to_be_approved(project: Project) -> None:
    run = drive(project, Case("", [LINE], {"a": nodes(X)}, ""))
    assert ask(project, "skip", "c", "--run", run).code == 1
    assert ask(project, "resume", "--approve", run).code == 0
    assert routed(project, run)[:3] == [
        "f/a PARTIAL > pause (navigator)",
        "-- paused > advance:b (deterministic) > inject:node-x (navigator)",
        "  f/node-x VERIFIED > advance:b (deterministic)",
    ]


def test_approval_needs_a_proposal(project: Project) -> None:
    run = drive(project, Case("", [LINE], {"a": BLOCKED}, ""))
    answer = ask(project, "resume", "--approve", run)
    assert (answer.code, answer.stderr.splitlines()[0]) == (
        1,
        f"git-swarm: {run} has no proposal that waits for approval",
    )
