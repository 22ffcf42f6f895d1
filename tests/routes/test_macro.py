"""From flow to flow: the order of a run, what follows a flow, a Gate's verdict, and what is looked for before."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project
from tests.routed import CRITIC, Case, checked, command, flow, step
from tests.routes.common import BLOCKED, DOUBT, by_name, critic_loop

FAIL = {"fail": "model overloaded"}
PLAN = flow("plan", step("think"))
BUILD = flow("build", step("make"))
GATE = flow("gate", {"id": "decide", "station": "policy-analyst", "teaching": {"outputs": ["merge_decision.json"]}})
DEPLOY = flow("deploy", step("ship"))
RELEASE = ("flow:plan", "flow:build", "flow:gate", "flow:deploy")
ALL = [PLAN, BUILD, GATE, DEPLOY]
LOOPING = flow(
    "build",
    step("make"),
    step("critique", CRITIC, kind="microloop", loop_target="make", max_iterations=2),
)
TO_GATE = """
    plan/think VERIFIED > advance:build/make (deterministic)
    build/make VERIFIED > advance:gate/decide (deterministic)
"""
SHIPPED = "    deploy/ship VERIFIED > terminate (fast_path)\n"


def verdicts(*said: str) -> dict[str, Any]:
    """What the Gate leaves, decision by decision."""
    path = "RUN_BASE/gate/merge_decision.json"
    return {"decide": [{"write": {path: f'{{"verdict": "{verdict}"}}\n'}} for verdict in said]}


def once(flow_id: str, step_id: str, iteration: int, on: str) -> str:
    at = f"@{iteration}" if iteration > 1 else ""
    return f"    {flow_id}/{step_id}{at} VERIFIED > {on} (deterministic)\n"


def bounced(count: int) -> str:
    """`count` bounces to build, up to the Gate's next decision."""
    again = [
        once("gate", "decide", number, "advance:build/make")
        + once("build", "make", number + 1, "advance:gate/decide")
        for number in range(1, count + 1)
    ]
    return TO_GATE + "".join(again)


SEQUENCE = [
    Case(
        "several flows in order",
        [flow("f", step("a"), step("b")), flow("g", step("x")), flow("h", step("y"))],
        {},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > advance:h/y (deterministic)
        h/y VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g", "flow:h"),
        no_events=True,
    ),
    Case(
        "in the order of the command line",
        [flow("f", step("a")), flow("g", step("x"))],
        {},
        """
        g/x VERIFIED > advance:f/a (deterministic)
        f/a VERIFIED > terminate (fast_path)
        """,
        options=("flow:g", "flow:f"),
    ),
    Case(
        "a failure in the second flow is executed again there",
        [flow("f", step("a")), flow("g", step("x"), step("y"))],
        {"x": [FAIL, {}]},
        """
        f/a VERIFIED > advance:g/x (deterministic)
        g/x failed > terminate (deterministic)
        -- failed > repeat:x (deterministic)
        g/x@2 VERIFIED > advance:y (fast_path)
        g/y VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
        then=[("resume",)],
    ),
    Case(
        "BLOCKED at the end of the first flow",
        [flow("f", step("a")), flow("g", step("x"))],
        {"a": [BLOCKED, {}]},
        """
        f/a BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
        then=[("resume", "-m", "red")],
    ),
    Case(
        "a critic as the last step of a flow",
        [critic_loop(2), flow("g", step("x"))],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
    ),
]

TAIL = flow("tail", step("t"))
FOLLOWING = [
    Case(
        "on_complete at the end of the run",
        [flow("f", step("a"), on_complete="tail"), TAIL],
        {},
        """
        f/a VERIFIED > inject:tail (deterministic)
          tail/t VERIFIED > terminate (fast_path)
        """,
        events="""
        stack_push frame=flow:tail@1 depth=1 interrupted=f/a back_to=None
        flow_injected flow=tail
        routing_offroad candidate_id=inject:tail from_step=a instead_of=inject:tail why_now=[f is complete]
        stack_pop frame=flow:tail@1 depth=0
        """,
    ),
    Case(
        "on_complete, then the next flow",
        [flow("f", step("a"), on_complete="tail"), TAIL, flow("g", step("x"))],
        {},
        """
        f/a VERIFIED > inject:tail (deterministic)
          tail/t VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
    ),
    Case(
        "on_complete of each flow",
        [flow("f", step("a"), on_complete="tail"), TAIL, flow("g", step("x"), on_complete="tail")],
        {},
        """
        f/a VERIFIED > inject:tail (deterministic)
          tail/t VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > inject:tail (deterministic)
          tail/t@2 VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
    ),
    Case(
        "on_complete of what follows",
        [flow("f", step("a"), on_complete="tail"), {**TAIL, "on_complete": "last"}, flow("last", step("l"))],
        {},
        """
        f/a VERIFIED > inject:tail (deterministic)
          tail/t VERIFIED > inject:last (deterministic)
            last/l VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a failure in what follows is executed again there",
        [flow("f", step("a"), on_complete="tail"), TAIL],
        {"t": [FAIL, {}]},
        """
        f/a VERIFIED > inject:tail (deterministic)
          tail/t failed > terminate (deterministic)
        -- failed > repeat:t (deterministic)
          tail/t@2 VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "on_failure, and the run has failed",
        [flow("f", step("a"), step("b"), on_failure="tail"), TAIL],
        {"b": FAIL},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b failed > inject:tail (deterministic)
          tail/t VERIFIED > terminate (fast_path)
        """,
        end="failed",
    ),
    Case(
        "after on_failure the failed step is executed again",
        [flow("f", step("a"), step("b"), on_failure="tail"), TAIL],
        {"b": [FAIL, {}]},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b failed > inject:tail (deterministic)
          tail/t VERIFIED > terminate (fast_path)
        -- failed > repeat:b (deterministic)
        f/b@2 VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "on_failure at each failure",
        [flow("f", step("a"), on_failure="tail"), TAIL],
        {"a": FAIL},
        """
        f/a failed > inject:tail (deterministic)
          tail/t VERIFIED > terminate (fast_path)
        -- failed > repeat:a (deterministic)
        f/a@2 failed > inject:tail (deterministic)
          tail/t@2 VERIFIED > terminate (fast_path)
        """,
        end="failed",
        then=[("resume",)],
    ),
    Case(
        "on_failure that fails itself",
        [flow("f", step("a"), on_failure="tail"), TAIL],
        {"a": [FAIL, {}], "t": [FAIL, {}]},
        """
        f/a failed > inject:tail (deterministic)
          tail/t failed > terminate (deterministic)
        -- failed > repeat:t (deterministic)
          tail/t@2 VERIFIED > terminate (fast_path)
        -- failed > repeat:a (deterministic)
        f/a@2 VERIFIED > terminate (fast_path)
        """,
        then=[("resume",), ("resume",)],
    ),
]

VERDICTS = [
    Case(
        "MERGE waits for a person before deploy",
        ALL,
        verdicts("MERGE"),
        TO_GATE + once("gate", "decide", 1, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "MERGE, and a person lets it be deployed",
        ALL,
        verdicts("MERGE"),
        TO_GATE
        + once("gate", "decide", 1, "pause")
        + "    -- paused > advance:deploy/ship (deterministic)\n"
        + SHIPPED,
        options=RELEASE,
        then=[("resume",)],
    ),
    Case(
        "MERGE_WITH_CONDITIONS, and a person lets it be deployed",
        ALL,
        verdicts("MERGE_WITH_CONDITIONS"),
        TO_GATE
        + once("gate", "decide", 1, "pause")
        + "    -- paused > advance:deploy/ship (deterministic)\n"
        + SHIPPED,
        options=RELEASE,
        then=[("resume",)],
    ),
    Case(
        "MERGE on autopilot",
        ALL,
        verdicts("MERGE"),
        TO_GATE + once("gate", "decide", 1, "advance:deploy/ship") + SHIPPED,
        options=(*RELEASE, "--autopilot"),
    ),
    Case(
        "MERGE without a deploy is the end",
        ALL,
        verdicts("MERGE"),
        TO_GATE + "    gate/decide VERIFIED > terminate (fast_path)",
        options=RELEASE[:3],
    ),
    Case(
        "BOUNCE_BUILD once, then MERGE",
        ALL,
        verdicts("BOUNCE_BUILD", "MERGE"),
        bounced(1) + once("gate", "decide", 2, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "BOUNCE_BUILD twice at most",
        ALL,
        verdicts("BOUNCE_BUILD"),
        bounced(2) + once("gate", "decide", 3, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "after too many bounces the Gate decides again",
        ALL,
        verdicts("BOUNCE_BUILD", "BOUNCE_BUILD", "BOUNCE_BUILD", "MERGE"),
        bounced(2)
        + once("gate", "decide", 3, "pause")
        + "    -- paused > repeat:decide (deterministic)\n"
        + once("gate", "decide", 4, "pause"),
        end="paused",
        options=RELEASE,
        then=[("resume", "-m", "enough")],
    ),
    Case(
        "BOUNCE_PLAN once, then MERGE",
        ALL,
        verdicts("BOUNCE_PLAN", "MERGE"),
        TO_GATE
        + once("gate", "decide", 1, "advance:plan/think")
        + once("plan", "think", 2, "advance:build/make")
        + once("build", "make", 2, "advance:gate/decide")
        + once("gate", "decide", 2, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "BOUNCE_PLAN once at most",
        ALL,
        verdicts("BOUNCE_PLAN"),
        TO_GATE
        + once("gate", "decide", 1, "advance:plan/think")
        + once("plan", "think", 2, "advance:build/make")
        + once("build", "make", 2, "advance:gate/decide")
        + once("gate", "decide", 2, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "a bounce to a flow that the run does not have",
        ALL,
        verdicts("BOUNCE_PLAN"),
        """
        build/make VERIFIED > advance:gate/decide (deterministic)
        gate/decide VERIFIED > pause (deterministic)
        """,
        end="paused",
        options=("flow:build", "flow:gate"),
    ),
    Case(
        "ESCALATE, and the Gate decides again",
        ALL,
        verdicts("ESCALATE", "MERGE"),
        TO_GATE
        + once("gate", "decide", 1, "pause")
        + "    -- paused > repeat:decide (deterministic)\n"
        + once("gate", "decide", 2, "pause")
        + "    -- paused > advance:deploy/ship (deterministic)\n"
        + SHIPPED,
        options=RELEASE,
        then=[("resume", "-m", "look again"), ("resume",)],
    ),
    Case(
        "ESCALATE on autopilot",
        ALL,
        verdicts("ESCALATE", "MERGE"),
        TO_GATE
        + once("gate", "decide", 1, "detour:clarifier")
        + "      gate/sq-clarifier-clarify VERIFIED > repeat:decide (deterministic)\n"
        + once("gate", "decide", 2, "advance:deploy/ship")
        + SHIPPED,
        options=(*RELEASE, "--autopilot"),
        bundled_sidequests=True,
    ),
    Case(
        "BLOCK fails the run",
        ALL,
        verdicts("BLOCK"),
        TO_GATE + once("gate", "decide", 1, "terminate"),
        end="failed",
        options=RELEASE,
    ),
    Case(
        "after BLOCK the Gate decides again",
        ALL,
        verdicts("BLOCK", "MERGE"),
        TO_GATE
        + once("gate", "decide", 1, "terminate")
        + "    -- failed > repeat:decide (deterministic)\n"
        + once("gate", "decide", 2, "pause"),
        end="paused",
        options=RELEASE,
        then=[("resume",)],
    ),
    Case(
        "a verdict that is none is not deployed",
        ALL,
        verdicts("PERHAPS"),
        TO_GATE + once("gate", "decide", 1, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "no verdict at all is not deployed",
        ALL,
        {},
        TO_GATE + once("gate", "decide", 1, "pause"),
        end="paused",
        options=RELEASE,
    ),
    Case(
        "a verdict that cannot be read is not deployed on autopilot either",
        ALL,
        {"decide": {"write": {"RUN_BASE/gate/merge_decision.json": "{"}}},
        TO_GATE
        + "".join(
            once("gate", "decide", number, "detour:clarifier")
            + once("  gate", "sq-clarifier-clarify", number, "repeat:decide")
            for number in (1, 2, 3)
        )
        + once("gate", "decide", 4, "pause"),
        end="paused",
        options=(*RELEASE, "--autopilot"),
        bundled_sidequests=True,
    ),
    Case(
        "a bounce enters a flow anew: its loops start again",
        [PLAN, LOOPING, GATE, DEPLOY],
        {**verdicts("BOUNCE_BUILD", "MERGE"), "critique": DOUBT},
        """
        build/make VERIFIED > advance:critique (fast_path)
        build/critique UNVERIFIED > loop:make:iter_2 (deterministic)
        build/make@2 VERIFIED > advance:critique (fast_path)
        build/critique@2 UNVERIFIED > advance:gate/decide (deterministic)
        gate/decide VERIFIED > advance:build/make (deterministic)
        build/make@3 VERIFIED > advance:critique (fast_path)
        build/critique@3 UNVERIFIED > loop:make:iter_2 (deterministic)
        build/make@4 VERIFIED > advance:critique (fast_path)
        build/critique@4 UNVERIFIED > advance:gate/decide (deterministic)
        gate/decide@2 VERIFIED > terminate (fast_path)
        """,
        options=("flow:build", "flow:gate"),
    ),
    Case(
        "a bounce that was rolled back does not count",
        ALL,
        verdicts("BOUNCE_BUILD"),
        TO_GATE
        + "    gate/decide VERIFIED > advance:build/make (deterministic) > advance:build/make (deterministic)\n"
        + once("build", "make", 2, "advance:gate/decide")
        + once("gate", "decide", 2, "advance:build/make")
        + once("build", "make", 3, "advance:gate/decide")
        + once("gate", "decide", 3, "pause"),
        end="paused",
        options=RELEASE,
        then=[("rollback", "decide@1"), ("resume",)],
    ),
]

WITH_TESTS = flow("f", step("a"), command("test", "true"), step("b"))
BY_NAME = flow("f", step("a"), {"id": "test", "engine": "command", "command": "test"}, step("b"))
MISSING = {".swarm/config.yaml": "commands: {test: no-such-program-here all}\n"}
PREFLIGHT = [
    Case(
        "env-doctor before the first step",
        [BY_NAME],
        {"test": {"run": ["true"]}},
        """
        start > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose VERIFIED > advance:a (deterministic)
        f/a VERIFIED > advance:test (fast_path)
        f/test VERIFIED > advance:b (fast_path)
        f/b VERIFIED > terminate (fast_path)
        """,
        files=MISSING,
        bundled_sidequests=True,
        events="""
        stack_push frame=sidequest:env-doctor@0 depth=1 interrupted=f back_to=f/a
        stack_pop frame=sidequest:env-doctor@0 depth=0
        """,
    ),
    Case(
        "env-doctor that is BLOCKED before the first step",
        [BY_NAME],
        {"sq-env-doctor-diagnose": [BLOCKED, {}], "test": {"run": ["true"]}},
        """
        start > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose BLOCKED > pause (deterministic)
        -- paused > repeat:sq-env-doctor-diagnose (deterministic)
          f/sq-env-doctor-diagnose@2 VERIFIED > advance:a (deterministic)
        f/a VERIFIED > advance:test (fast_path)
        f/test VERIFIED > advance:b (fast_path)
        f/b VERIFIED > terminate (fast_path)
        """,
        files=MISSING,
        bundled_sidequests=True,
        then=[("resume", "-m", "installed")],
    ),
    Case(
        "nothing is missing that the run does not use",
        [WITH_TESTS],
        {},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test VERIFIED > advance:b (fast_path)
        f/b VERIFIED > terminate (fast_path)
        """,
        files=MISSING,
        bundled_sidequests=True,
    ),
    Case(
        "nothing is missing that is there",
        [BY_NAME],
        {},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test VERIFIED > advance:b (fast_path)
        f/b VERIFIED > terminate (fast_path)
        """,
        files={".swarm/config.yaml": "commands: {test: git --version}\n"},
        bundled_sidequests=True,
    ),
]


@by_name(SEQUENCE)
def test_sequence(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(FOLLOWING)
def test_what_follows_a_flow(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(VERDICTS)
def test_verdict(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(PREFLIGHT)
def test_preflight(project: Project, case: Case) -> None:
    checked(project, case)
