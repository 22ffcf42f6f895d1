"""What an author, a critic and a command can end with, and how the run goes on after each end."""

from __future__ import annotations

from tests.conftest import Project
from tests.routed import CLEANUP, Case, checked, command, flow, step
from tests.routes.common import (
    BLOCKED,
    DOUBT,
    HALF,
    LINE,
    STRAIGHT,
    back_from_tests,
    by_name,
    critic_loop,
    exits,
)

COMMAND = flow("f", command(), step("done", CLEANUP))
NO_TESTS = flow("f", {"id": "test", "engine": "command", "command": "test"}, step("done", CLEANUP))
FAIL = {"fail": "model overloaded"}

AUTHOR = [
    Case("an author's doubt stops nothing", [LINE], {"a": DOUBT}, STRAIGHT.replace("a VERIFIED", "a UNVERIFIED")),
    Case("half a work leads on", [LINE], {"a": HALF}, STRAIGHT.replace("a VERIFIED", "a PARTIAL")),
    Case(
        "half a work at the last step ends the flow",
        [LINE],
        {"c": HALF},
        STRAIGHT.replace("c VERIFIED", "c PARTIAL"),
    ),
    Case(
        "an envelope that is none is UNVERIFIED",
        [LINE],
        {"a": {"envelope": {"status": "SPLENDID"}}},
        STRAIGHT.replace("a VERIFIED", "a UNVERIFIED"),
    ),
    Case(
        "BLOCKED waits for a person",
        [LINE],
        {"a": BLOCKED},
        "f/a BLOCKED > pause (deterministic)",
        end="paused",
    ),
    Case(
        "an answer has the blocked step executed again",
        [LINE],
        {"a": [BLOCKED, {}]},
        """
        f/a BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("resume", "-m", "red")],
    ),
    Case(
        "BLOCKED twice",
        [LINE],
        {"a": [BLOCKED, BLOCKED, {}]},
        """
        f/a BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@2 BLOCKED > pause (deterministic)
        """,
        end="paused",
        then=[("resume", "-m", "red")],
    ),
    Case(
        "BLOCKED at the last step",
        [LINE],
        {"c": [BLOCKED, {}]},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c BLOCKED > pause (deterministic)
        -- paused > repeat:c (deterministic)
        f/c@2 VERIFIED > terminate (fast_path)
        """,
        then=[("resume", "-m", "red")],
    ),
    Case(
        "BLOCKED waits in deterministic_only too",
        [LINE],
        {"a": BLOCKED},
        "f/a BLOCKED > pause (deterministic)",
        end="paused",
        options=("--routing", "deterministic_only"),
    ),
    Case("a failure ends the run", [LINE], {"a": FAIL}, "f/a failed > terminate (deterministic)", end="failed"),
    Case(
        "a failed step is executed again when resumed",
        [LINE],
        {"a": [FAIL, {}]},
        """
        f/a failed > terminate (deterministic)
        -- failed > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "failed three times, resumed each time",
        [LINE],
        {"b": [FAIL, FAIL, FAIL, {}]},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b failed > terminate (deterministic)
        -- failed > repeat:b (deterministic)
        f/b@2 failed > terminate (deterministic)
        -- failed > repeat:b (deterministic)
        f/b@3 failed > terminate (deterministic)
        -- failed > repeat:b (deterministic)
        f/b@4 VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)] * 3,
    ),
    Case(
        "a failure at the last step",
        [LINE],
        {"c": [FAIL, {}]},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c failed > terminate (deterministic)
        -- failed > repeat:c (deterministic)
        f/c@2 VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "failed, then BLOCKED, then done",
        [LINE],
        {"a": [FAIL, BLOCKED, {}]},
        """
        f/a failed > terminate (deterministic)
        -- failed > repeat:a (deterministic)
        f/a@2 BLOCKED > pause (deterministic)
        -- paused > repeat:a (deterministic)
        f/a@3 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("resume",), ("resume", "-m", "red")],
    ),
    Case("resuming a finished run changes nothing", [LINE], {}, STRAIGHT, then=[("resume",)]),
]

CRITICS = [
    Case(
        "half content sends back",
        [critic_loop(3)],
        {"critique": [HALF, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique PARTIAL > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a blocked critic waits, and is asked again",
        [critic_loop(2)],
        {"critique": [BLOCKED, DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique BLOCKED > pause (deterministic)
        -- paused > repeat:critique (deterministic)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume", "-m", "red")],
    ),
    Case(
        "a blocked author inside a loop",
        [critic_loop(2)],
        {"write": [{}, BLOCKED, {}], "critique": [DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 BLOCKED > pause (deterministic)
        -- paused > repeat:write (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume", "-m", "red")],
    ),
    Case(
        "a failed critic",
        [critic_loop(2)],
        {"critique": [FAIL, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique failed > terminate (deterministic)
        -- failed > repeat:critique (deterministic)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
]

COMMANDS = [
    Case(
        "tests that fail are a result",
        [COMMAND],
        {"test": exits(1)},
        """
        f/test UNVERIFIED > advance:done (fast_path)
        f/done VERIFIED > terminate (fast_path)
        """,
        end="unproven",
    ),
    Case(
        "a command that cannot start has failed",
        [COMMAND],
        {"test": [{"run": ["no-such-program-here"]}, {}]},
        """
        f/test failed > terminate (deterministic)
        -- failed > repeat:test (deterministic)
        f/test@2 VERIFIED > advance:done (fast_path)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "a command that may not be executed has failed",
        [COMMAND],
        {"test": {"run": ["./README.md"]}},
        "f/test failed > terminate (deterministic)",
        end="failed",
    ),
    Case(
        "a command that was killed has failed",
        [COMMAND],
        {"test": {"run": ["kill -9 $$"]}},
        "f/test failed > terminate (deterministic)",
        end="failed",
    ),
    Case(
        "a command that takes too long has failed",
        [flow("f", {"id": "test", "engine": "command", "command": {"run": "sleep 9", "timeout_s": 1}})],
        {},
        "f/test failed > terminate (deterministic)",
        end="failed",
    ),
    Case(
        "without a test command the step is skipped",
        [NO_TESTS],
        {},
        """
        f/test skipped > advance:done (fast_path)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "skipped is not passed",
        [
            flow(
                "f",
                step("write"),
                {
                    "id": "test",
                    "engine": "command",
                    "command": "test",
                    "routing": {
                        "kind": "branch",
                        "when": [{"if": "evidence.tests.passed", "next": "done"}],
                        "default": "write",
                        "max_iterations": 2,
                    },
                },
                step("done", CLEANUP),
            )
        ],
        {},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test skipped > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 skipped > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a branch knows that there are no tests",
        [
            flow(
                "f",
                {
                    "id": "test",
                    "engine": "command",
                    "command": "test",
                    "routing": {
                        "kind": "branch",
                        "when": [
                            {"if": "evidence.tests.passed", "next": "done"},
                            {"if": "evidence.tests.reason == 'no_tests'", "next": "report"},
                        ],
                        "default": "done",
                    },
                },
                step("fix"),
                step("report"),
                step("done", CLEANUP),
            )
        ],
        {},
        """
        f/test skipped > branch:report (deterministic)
        f/report VERIFIED > advance:done (fast_path)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a failed command in a branch goes back to nobody",
        [back_from_tests()],
        {"test": [{"run": ["no-such-program-here"]}, *exits(1, 0)]},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test failed > terminate (deterministic)
        -- failed > repeat:test (deterministic)
        f/test@2 UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@3 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
]


@by_name(AUTHOR)
def test_author(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(CRITICS)
def test_critic(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(COMMANDS)
def test_command(project: Project, case: Case) -> None:
    checked(project, case)
