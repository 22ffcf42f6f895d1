"""Branches: which condition decides, what happens when none does, and how often they go back."""

from __future__ import annotations

import pytest

from tests.conftest import Project
from tests.routed import AUTHOR, CLEANUP, CRITIC, Case, checked, command, eliminated, flow, step
from tests.routes.common import DOUBT, back_from_tests, by_name, critic_loop, exits

TWO_WAYS_BACK = flow(
    "f",
    step("plan"),
    step("write"),
    command(
        kind="branch",
        when=[("evidence.tests.exit_code == 1", "write", 2), ("evidence.tests.exit_code == 2", "plan", 3)],
        next="done",
    ),
    step("done", CLEANUP),
)

JUDGE = flow(
    "f",
    step("a"),
    step("judge", CRITIC, kind="branch", when=[("envelope.observations[0] == 'go'", "c")]),
    step("b"),
    step("c", CLEANUP),
)

SAYS_WHO = "receipt.step_id == 'judge' && envelope.summary == 'ok'"

GO = {"envelope": {"status": "VERIFIED", "observations": ["go"]}}

BRANCH = [
    Case(
        "the first condition that holds decides",
        [
            flow(
                "f",
                command(kind="branch", when=[("false", "b"), ("evidence.tests.passed", "c"), ("true", "b")]),
                step("b"),
                step("c", CLEANUP),
            )
        ],
        {},
        """
        f/test VERIFIED > branch:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "no condition holds: the default",
        [back_from_tests()],
        {"test": exits(1, 2, 0)},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > branch:write (deterministic)
        f/write@3 VERIFIED > advance:test (fast_path)
        f/test@3 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "no condition holds, no default: the following step",
        [JUDGE],
        {"judge": {"envelope": {"status": "VERIFIED", "observations": ["stay"]}}},
        """
        f/a VERIFIED > advance:judge (fast_path)
        f/judge VERIFIED > branch:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "no condition holds at the last step: the end",
        [flow("f", step("a"), command(kind="branch", when=[("evidence.tests.exit_code == 3", "a")]))],
        {"test": exits(1)},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > terminate (deterministic)
        """,
        end="unproven",
    ),
    Case(
        "conditions see receipt, envelope, evidence and run",
        [
            flow(
                "f",
                step("a"),
                step(
                    "judge",
                    AUTHOR,
                    kind="branch",
                    when=[
                        (
                            f"{SAYS_WHO} && run.steps_executed == 2 && evidence.diff.files.size() == 1",
                            "c",
                        )
                    ],
                ),
                step("b"),
                step("c", CLEANUP),
            )
        ],
        {"judge": {"write": {"x.txt": "1"}}},
        """
        f/a VERIFIED > advance:judge (fast_path)
        f/judge VERIFIED > branch:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "null is not true",
        [flow("f", command(kind="branch", when=[("evidence.tests.passed", "c")]), step("b"), step("c", CLEANUP))],
        {"test": {"run": ["pytest --version >/dev/null; exit 5"]}},
        """
        f/test UNVERIFIED > branch:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a number is not true",
        [flow("f", command(kind="branch", when=[("evidence.tests.exit_code", "c")]), step("b"), step("c", CLEANUP))],
        {"test": exits(1)},
        """
        f/test UNVERIFIED > branch:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        end="unproven",
    ),
    Case(
        "a condition that errors leaves the default",
        [back_from_tests(when=[("envelope.assumptions[9] == 1", "done")], most=2)],
        {},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test VERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a condition that errors leaves one that holds",
        [back_from_tests(when=[("envelope.assumptions[9] == 1", "write"), ("evidence.tests.passed", "done")])],
        {},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a condition that errors without a default needs a person",
        [JUDGE],
        {"judge": [{}, GO]},
        """
        f/a VERIFIED > advance:judge (fast_path)
        f/judge VERIFIED > escalate (escalate)
        """,
        end="paused",
    ),
    Case(
        "an undecided branch is judged again when resumed",
        [JUDGE],
        {"judge": [{}, GO]},
        """
        f/a VERIFIED > advance:judge (fast_path)
        f/judge VERIFIED > escalate (escalate)
        -- paused > repeat:judge (deterministic)
        f/judge@2 VERIFIED > branch:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        then=[("resume", "-m", "look again")],
    ),
    Case(
        "a branch at its maximum goes on",
        [back_from_tests(2)],
        {"test": exits(1)},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        end="unproven",
    ),
    Case(
        "a way back has its own maximum",
        [TWO_WAYS_BACK],
        {"test": exits(1, 1)},
        """
        f/plan VERIFIED > advance:write (fast_path)
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        end="unproven",
    ),
    Case(
        "the longer way back enters the shorter one anew",
        [TWO_WAYS_BACK],
        {"test": exits(1, 2, 1, 0)},
        """
        f/plan VERIFIED > advance:write (fast_path)
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > branch:plan (deterministic)
        f/plan@2 VERIFIED > advance:write (fast_path)
        f/write@3 VERIFIED > advance:test (fast_path)
        f/test@3 UNVERIFIED > branch:write (deterministic)
        f/write@4 VERIFIED > advance:test (fast_path)
        f/test@4 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "failed executions of a branch do not count",
        [back_from_tests(2)],
        {"test": [{"fail": "no disk"}, *exits(1, 1)]},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test failed > terminate (deterministic)
        -- failed > repeat:test (deterministic)
        f/test@2 UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@3 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
        end="unproven",
    ),
]


@by_name(BRANCH)
def test_branch(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize(
    ("case", "candidate", "reasons"),
    [
        pytest.param(
            Case(
                "",
                [back_from_tests(2)],
                {"test": exits(1)},
                """
                f/write VERIFIED > advance:test (fast_path)
                f/test UNVERIFIED > branch:write (deterministic)
                f/write@2 VERIFIED > advance:test (fast_path)
                f/test@2 UNVERIFIED > advance:done (deterministic)
                f/done VERIFIED > terminate (fast_path)
                """,
                end="unproven",
            ),
            "branch:write",
            ["at its maximum of 2"],
            id="a way back at its maximum",
        ),
        pytest.param(
            Case(
                "",
                [critic_loop(1)],
                {"critique": DOUBT},
                """
                f/write VERIFIED > advance:critique (fast_path)
                f/critique UNVERIFIED > advance:done (deterministic)
                f/done VERIFIED > terminate (fast_path)
                """,
            ),
            "loop:write:iter_2",
            ["at its maximum of 1"],
            id="a loop at its maximum",
        ),
        pytest.param(
            Case(
                "",
                [JUDGE],
                {},
                """
                f/a VERIFIED > advance:judge (fast_path)
                f/judge VERIFIED > escalate (escalate)
                """,
                end="paused",
            ),
            "branch:c",
            ["cannot be evaluated: index out of bounds: 0"],
            id="a condition that errors",
        ),
    ],
)
def test_a_way_not_taken_says_why(project: Project, case: Case, candidate: str, reasons: list[str]) -> None:
    run = checked(project, case)
    assert eliminated(project, run, candidate) == reasons
