"""Steps that lead on, and loops of critics: each way out of them."""

from __future__ import annotations

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, command, flow, step
from tests.routes.common import DOUBT, HALF, LINE, STRAIGHT, by_name, critic_loop, exits

TERMINAL = flow(
    "f",
    step("a"),
    command(kind="branch", when=[("evidence.tests.passed", "c")]),
    step("b", kind="terminal"),
    step("c", CLEANUP),
)

NESTED = flow(
    "f",
    step("write"),
    step("inner", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
    step("polish"),
    step("outer", "code-critic", kind="microloop", loop_target="write", max_iterations=2),
)

FROM_OUTSIDE = flow(
    "f",
    step("write"),
    step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
    command(kind="branch", when=[("evidence.tests.passed", "done")], default="write", max_iterations=3),
    step("done", CLEANUP),
)

LINEAR = [
    Case("straight on to the end", [LINE], {}, STRAIGHT),
    Case("one step", [flow("f", step("a"))], {}, "f/a VERIFIED > terminate (fast_path)"),
    Case(
        "next leaves steps out",
        [flow("f", step("a", kind="linear", next="c"), step("b"), step("c", CLEANUP))],
        {},
        """
        f/a VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "terminal in the middle ends the flow",
        [TERMINAL],
        {"test": exits(1)},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:b (deterministic)
        f/b VERIFIED > terminate (fast_path)
        """,
        end="unproven",
    ),
    Case(
        "past a terminal in the middle",
        [TERMINAL],
        {},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test VERIFIED > branch:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "terminal ends its flow, not the run",
        [flow("f", step("a", kind="terminal"), step("b")), flow("g", step("x"))],
        {},
        """
        f/a VERIFIED > advance:g/x (deterministic)
        g/x VERIFIED > terminate (fast_path)
        """,
        options=("flow:f", "flow:g"),
    ),
]

MICROLOOP = [
    Case(
        "a content critic leads on",
        [critic_loop(3)],
        {},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic sends back once",
        [critic_loop(3)],
        {"critique": [DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic at its maximum leads on",
        [critic_loop(3)],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a maximum of one never sends back",
        [critic_loop(1)],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic that cannot help leads on",
        [critic_loop(3)],
        {"critique": {**DOUBT, "can_further_iteration_help": "no"}},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic that can help sends back",
        [critic_loop(3)],
        {"critique": [{**DOUBT, "can_further_iteration_help": "yes"}, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "several success values",
        [critic_loop(3, loop_success_values=["VERIFIED", "PARTIAL"])],
        {"critique": [DOUBT, HALF]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 PARTIAL > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a field of the envelope decides",
        [critic_loop(3, loop_condition_field="confidence", loop_success_values=["high", "medium"])],
        {
            "critique": [
                {"envelope": {"status": "VERIFIED", "confidence": "low"}},
                {"envelope": {"status": "UNVERIFIED", "confidence": "medium"}},
            ]
        },
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique VERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a field that only the receipt has decides",
        [critic_loop(3, loop_condition_field="mode", loop_success_values=["stub"])],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a field that nobody has never succeeds",
        [critic_loop(2, loop_condition_field="mood", loop_success_values=["fine"])],
        {},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique VERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic's next is its way out",
        [
            flow(
                "f",
                step("write"),
                step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2, next="c"),
                step("b"),
                step("c", CLEANUP),
            )
        ],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "a critic as the last step ends the flow",
        [flow("f", step("write"), step("critique", CRITIC, kind="microloop", loop_target="write"))],
        {"critique": [DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > terminate (deterministic)
        """,
    ),
    Case(
        "a step that loops to itself",
        [flow("f", step("write", kind="microloop", loop_target="write", max_iterations=3), step("done", CLEANUP))],
        {"write": [DOUBT, DOUBT, {}]},
        """
        f/write UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "every step of a long loop is executed again",
        [
            flow(
                "f",
                step("write"),
                command(),
                step("read"),
                step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
            )
        ],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test VERIFIED > advance:read (fast_path)
        f/read VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 VERIFIED > advance:read (fast_path)
        f/read@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > terminate (deterministic)
        """,
    ),
    Case(
        "the outer loop enters the inner one anew",
        [NESTED],
        {"inner": DOUBT, "outer": DOUBT},
        """
        f/write VERIFIED > advance:inner (fast_path)
        f/inner UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:inner (fast_path)
        f/inner@2 UNVERIFIED > advance:polish (deterministic)
        f/polish VERIFIED > advance:outer (fast_path)
        f/outer UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@3 VERIFIED > advance:inner (fast_path)
        f/inner@3 UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@4 VERIFIED > advance:inner (fast_path)
        f/inner@4 UNVERIFIED > advance:polish (deterministic)
        f/polish@2 VERIFIED > advance:outer (fast_path)
        f/outer@2 UNVERIFIED > terminate (deterministic)
        """,
    ),
    Case(
        "a jump back from outside is a new entry",
        [FROM_OUTSIDE],
        {"critique": DOUBT, "test": exits(1, 0)},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:test (deterministic)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@4 VERIFIED > advance:critique (fast_path)
        f/critique@4 UNVERIFIED > advance:test (deterministic)
        f/test@2 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
    ),
    Case(
        "failed executions of the critic do not count",
        [critic_loop(2)],
        {"critique": [{"fail": "overloaded"}, DOUBT]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique failed > terminate (deterministic)
        -- failed > repeat:critique (deterministic)
        f/critique@2 UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
    Case(
        "a failed author leaves the loop's count alone",
        [critic_loop(2)],
        {"write": [{}, {"fail": "overloaded"}, {}], "critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 failed > terminate (deterministic)
        -- failed > repeat:write (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        then=[("resume",)],
    ),
]


@by_name(LINEAR)
def test_linear(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(MICROLOOP)
def test_microloop(project: Project, case: Case) -> None:
    checked(project, case)
