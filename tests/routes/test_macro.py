"""From flow to flow: the order of a run, what follows a flow, and what is looked for before."""

from __future__ import annotations

from tests.conftest import Project
from tests.routed import Case, checked, command, flow, step
from tests.routes.common import BLOCKED, DOUBT, by_name, critic_loop

FAIL = {"fail": "model overloaded"}

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

WITH_TESTS = flow("f", step("a"), command("test", "true"), step("b"))

BY_NAME = flow("f", step("a"), {"id": "test", "engine": "command", "command": "test"}, step("b"))

LACKING = "why_now=[preflight: the command test needs 'no-such-program-here', which is not installed]"
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
        events=[
            "stack_push frame=sidequest:env-doctor@0 depth=1 interrupted=f back_to=f/a",
            f"routing_offroad candidate_id=detour:env-doctor from_step=None instead_of=advance:a {LACKING}",
            "stack_pop frame=sidequest:env-doctor@0 depth=0",
        ],
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


@by_name(PREFLIGHT)
def test_preflight(project: Project, case: Case) -> None:
    checked(project, case)
