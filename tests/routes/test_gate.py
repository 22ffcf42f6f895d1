"""What a Gate decides: deploy, back to an earlier flow, a person, the end."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project
from tests.routed import CRITIC, Case, checked, flow, step
from tests.routes.common import DOUBT, by_name, decision

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
    return {"decide": [{"write": {path: decision(verdict)}} for verdict in said]}


def once(flow_id: str, step_id: str, iteration: int, on: str) -> str:
    at = f"@{iteration}" if iteration > 1 else ""
    return f"    {flow_id}/{step_id}{at} VERIFIED > {on} (deterministic)\n"


def unreadable(iteration: int, on: str) -> str:
    """A decision that does not match its schema: the artifact is invalid, and the step is asked again."""
    return once("gate", "decide", iteration, on).replace("VERIFIED", "UNVERIFIED")


def bounced(count: int) -> str:
    """`count` bounces to build, up to the Gate's next decision."""
    again = [
        once("gate", "decide", number, "advance:build/make")
        + once("build", "make", number + 1, "advance:gate/decide")
        for number in range(1, count + 1)
    ]
    return TO_GATE + "".join(again)


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
        "ESCALATE on autopilot asks the clarifier once",
        ALL,
        verdicts("ESCALATE"),
        TO_GATE
        + once("gate", "decide", 1, "detour:clarifier")
        + once("  gate", "sq-clarifier-clarify", 1, "repeat:decide")
        + once("gate", "decide", 2, "pause"),
        end="paused",
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
        TO_GATE + unreadable(1, "repeat:decide") + unreadable(2, "pause"),
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
        + unreadable(1, "repeat:decide")
        + unreadable(2, "detour:clarifier")
        + once("  gate", "sq-clarifier-clarify", 1, "repeat:decide")
        + unreadable(3, "repeat:decide")
        + unreadable(4, "pause"),
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


@by_name(VERDICTS)
def test_verdict(project: Project, case: Case) -> None:
    checked(project, case)
