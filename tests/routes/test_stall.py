"""When a loop has stalled, when it has not, and what that calls for."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, command, eliminated, flow, quest, step, taken
from tests.routes.common import (
    BLOCKED,
    DOUBT,
    FAILING,
    OTHER_FAILING,
    back_from_tests,
    by_name,
    chooses,
    critic_loop,
    edits,
    exits,
)

REPORTS = {"failing.txt": FAILING, "other.txt": OTHER_FAILING}
SAME = {"run": ["cat failing.txt; exit 1"]}
OTHER = {"run": ["cat other.txt; exit 1"]}
AFTER_TESTS = flow(
    "f",
    step("write"),
    step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=3),
    command(kind="branch", when=[("evidence.tests.passed", "done")], default="write", max_iterations=4),
    step("done", CLEANUP),
)

NOTED = critic_loop(5)
NOTED["steps"][0]["teaching"] = {"outputs": ["notes.md"]}


def stalls(count: int = 3, **more: Any) -> list[dict[str, Any]]:
    return [quest("look", {"kind": "stall", "count": count, **more}, max_uses_per_run=1)]


def critic_rounds(most: int, *, stalled_at: int = 0, left: str = "VERIFIED") -> list[str]:
    """`most` rounds of a critic's loop, with the detour after one of them."""
    route: list[str] = []
    for number in range(1, most + 1):
        n = f"@{number}" if number > 1 else ""
        on = f"loop:write:iter_{number + 1}" if number < most else "advance:done"
        ended = "UNVERIFIED" if number < most else left
        route.append(f"f/write{n} VERIFIED > advance:critique (fast_path)")
        if number == stalled_at:
            route.append(f"f/critique{n} {ended} > detour:look (deterministic)")
            route.append(f"  f/sq-look-look VERIFIED > {on} (deterministic)")
        else:
            route.append(f"f/critique{n} {ended} > {on} (deterministic)")
    return [*route, "f/done VERIFIED > terminate (fast_path)"]


def rounds_of_tests(most: int, *, stalled_at: int = 0) -> list[str]:
    """The same of tests that send an author back, and pass at last."""
    route: list[str] = []
    for number in range(1, most + 1):
        n = f"@{number}" if number > 1 else ""
        route.append(f"f/write{n} VERIFIED > advance:test (fast_path)")
        if number == most:
            route.append(f"f/test{n} VERIFIED > branch:done (deterministic)")
        elif number == stalled_at:
            route.append(f"f/test{n} UNVERIFIED > detour:look (deterministic)")
            route.append("  f/sq-look-look VERIFIED > branch:write (deterministic)")
        else:
            route.append(f"f/test{n} UNVERIFIED > branch:write (deterministic)")
    return [*route, "f/done VERIFIED > terminate (fast_path)"]


CRITICS = [
    Case(
        "two honest rounds without changes are no stall",
        [critic_loop(4)],
        {"critique": [DOUBT, DOUBT, {}]},
        critic_rounds(3),
        sidequests=stalls(),
    ),
    Case(
        "three are one",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, DOUBT, {}]},
        critic_rounds(4, stalled_at=3),
        sidequests=stalls(),
    ),
    Case(
        "a critic that words its doubt otherwise has still stalled",
        [critic_loop(5)],
        {"critique": [{**DOUBT, "concerns": [word], "summary": word} for word in ("thin", "lean", "spare")] + [{}]},
        critic_rounds(4, stalled_at=3),
        sidequests=stalls(),
    ),
    Case(
        "changed code is no stall",
        [critic_loop(5)],
        {"write": edits(5), "critique": [*[DOUBT] * 4, {}]},
        critic_rounds(5),
        sidequests=stalls(),
    ),
    Case(
        "code that was changed to and fro is no stall",
        [critic_loop(5)],
        {"write": [*edits(2), *edits(2), *edits(2)], "critique": [*[DOUBT] * 4, {}]},
        critic_rounds(5),
        sidequests=stalls(),
    ),
    Case(
        "a change starts the count anew",
        [critic_loop(6)],
        {"write": [{}, {}, *edits(1), {}, {}], "critique": [*[DOUBT] * 5, {}]},
        critic_rounds(6, stalled_at=5),
        sidequests=stalls(),
    ),
    Case(
        "another artifact is no stall",
        [NOTED],
        {
            "write": [{"write": {"RUN_BASE/f/notes.md": str(number)}} for number in range(5)],
            "critique": [*[DOUBT] * 4, {}],
        },
        critic_rounds(5),
        sidequests=stalls(),
    ),
    Case(
        "a loop that is left at its maximum has not stalled",
        [critic_loop(3)],
        {"critique": DOUBT},
        critic_rounds(3, left="UNVERIFIED"),
        sidequests=stalls(),
    ),
    Case(
        "a loop that is left content has not stalled",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, {}]},
        critic_rounds(3),
        sidequests=stalls(),
    ),
    Case(
        "two are enough for a sidequest that says so",
        [critic_loop(4)],
        {"critique": [DOUBT, DOUBT, {}]},
        critic_rounds(3, stalled_at=2),
        sidequests=stalls(2),
    ),
    Case(
        "four are needed by a sidequest that says so",
        [critic_loop(6)],
        {"critique": [*[DOUBT] * 4, {}]},
        critic_rounds(5, stalled_at=4),
        sidequests=stalls(4),
    ),
    Case(
        "no failing tests: same_failure does not hold",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, DOUBT, {}]},
        critic_rounds(4),
        sidequests=stalls(same_failure=True),
    ),
    Case(
        "a new entry into the loop starts the count anew",
        [AFTER_TESTS],
        {"critique": [DOUBT, DOUBT, {}, DOUBT, DOUBT, {}], "test": exits(1, 0)},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 VERIFIED > advance:test (deterministic)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@4 VERIFIED > advance:critique (fast_path)
        f/critique@4 UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@5 VERIFIED > advance:critique (fast_path)
        f/critique@5 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@6 VERIFIED > advance:critique (fast_path)
        f/critique@6 VERIFIED > advance:test (deterministic)
        f/test@2 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=stalls(),
    ),
    Case(
        "a blocked step in the last round waits for its answer first",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, BLOCKED, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 BLOCKED > pause (deterministic)
        """,
        end="paused",
        sidequests=stalls(),
    ),
]

TESTS = [
    Case(
        "two equal failures are no stall",
        [back_from_tests()],
        {"test": [SAME, SAME, *exits(0)]},
        rounds_of_tests(3),
        files=REPORTS,
        sidequests=stalls(),
    ),
    Case(
        "three equal failures are one, whatever was edited meanwhile",
        [back_from_tests()],
        {"write": edits(5), "test": [SAME, SAME, SAME, *exits(0)]},
        rounds_of_tests(4, stalled_at=3),
        files=REPORTS,
        sidequests=stalls(same_failure=True),
    ),
    Case(
        "equal but for place and time",
        [back_from_tests()],
        {
            "write": edits(5),
            "test": [
                {"run": [f"sed 's/0.05s/0.{number}s/; s/:[0-9]*:/:{number}:/' failing.txt; exit 1"]}
                for number in (11, 12, 13)
            ]
            + exits(0),
        },
        rounds_of_tests(4, stalled_at=3),
        files=REPORTS,
        sidequests=stalls(same_failure=True),
    ),
    Case(
        "other tests that fail are no stall",
        [back_from_tests()],
        {"test": [SAME, SAME, OTHER, SAME, *exits(0)]},
        rounds_of_tests(5),
        files=REPORTS,
        sidequests=stalls(),
    ),
    Case(
        "tests that fail without a word, on the same code",
        [back_from_tests()],
        {"test": exits(1, 1, 1, 0)},
        rounds_of_tests(4, stalled_at=3),
        sidequests=stalls(same_failure=False),
    ),
    Case(
        "tests that fail without a word, on other code",
        [back_from_tests()],
        {"write": edits(5), "test": exits(1, 1, 1, 0)},
        rounds_of_tests(4),
        sidequests=stalls(),
    ),
    Case(
        "the same failing tests are no stall of another kind",
        [back_from_tests()],
        {"test": [SAME, SAME, SAME, *exits(0)]},
        rounds_of_tests(4),
        files=REPORTS,
        sidequests=stalls(same_failure=False),
    ),
]

ESCALATED = [*critic_rounds(5)[:5], "f/critique@3 UNVERIFIED > escalate (navigator)"]
NAVIGATED = [
    Case(
        "a navigator hands a stalled loop to a person",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, {**DOUBT, **chooses("escalate")}]},
        ESCALATED,
        end="paused",
    ),
    Case(
        "a loop that was handed to a person goes on with its critic",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, {**DOUBT, **chooses("escalate")}, {}]},
        [
            *ESCALATED,
            "-- paused > repeat:critique (deterministic)",
            "f/critique@4 VERIFIED > advance:done (deterministic)",
            "f/done VERIFIED > terminate (fast_path)",
        ],
        then=[("resume", "-m", "good enough")],
    ),
    Case(
        "a navigator leaves a stalled loop",
        [critic_loop(5)],
        {"critique": [DOUBT, DOUBT, {**DOUBT, **chooses("advance:done")}]},
        [
            *critic_rounds(5)[:5],
            "f/critique@3 UNVERIFIED > advance:done (navigator)",
            "f/done VERIFIED > terminate (fast_path)",
        ],
    ),
    Case(
        "nobody is asked before the stall",
        [critic_loop(5)],
        {"critique": [{**DOUBT, **chooses("advance:done")}, {}]},
        critic_rounds(2),
        no_events=True,
    ),
]


@by_name(CRITICS)
def test_critic(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(TESTS)
def test_tests(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(NAVIGATED)
def test_navigator(project: Project, case: Case) -> None:
    checked(project, case)


def test_without_an_answer_a_stalled_loop_goes_on_and_the_note_tells_of_the_stall(project: Project) -> None:
    case = Case("", [critic_loop(5)], {"critique": [DOUBT, DOUBT, DOUBT, {}]}, critic_rounds(4))
    run = checked(project, case)
    stalls_told = [decision.explanation.stall for decision in taken(project, run)]
    assert [stall.passes for stall in stalls_told if stall is not None] == [1, 2, 3]
    assert eliminated(project, run, "escalate") == ["not taken: loop_iteration:3"]
