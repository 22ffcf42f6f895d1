"""Sidequests inside sidequests: how deep they may go, and that all of them return."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project
from tests.projects import ask
from tests.routed import Case, checked, ended, fires_after, quest, routed, told_by_events
from tests.routes.common import BLOCKED, HALF, LINE, by_name

TAIL = ["f/b VERIFIED > advance:c (fast_path)", "f/c VERIFIED > terminate (fast_path)"]
TWO_STEPS = [{"id": name, "station": "context-loader"} for name in ("one", "two")]
DEEP = quest(
    "deep",
    [fires_after("a"), fires_after("sq-deep-one")],
    nested=True,
    max_uses_per_run=20,
    steps=TWO_STEPS,
)


def at(iteration: int) -> str:
    return f"@{iteration}" if iteration > 1 else ""


def nest(depth: int, *, bottom: str) -> list[str]:
    """The route into `depth` sidequests and out again; `bottom`: how the innermost first step ends."""
    into = [
        f"{'  ' * level}f/sq-deep-one{at(level)} PARTIAL > detour:deep (deterministic)" for level in range(1, depth)
    ]
    out = [
        f"{'  ' * level}f/sq-deep-two{at(depth - level + 1)} VERIFIED > "
        f"advance:{'sq-deep-two' if level > 1 else 'b'} (deterministic)"
        for level in range(depth, 0, -1)
    ]
    return [
        "f/a PARTIAL > detour:deep (deterministic)",
        *into,
        f"{'  ' * depth}f/sq-deep-one{at(depth)} {bottom}",
        *out,
        *TAIL,
    ]


def first_steps(count: int, last: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"a": HALF, "sq-deep-one": [*[HALF] * count, last or {}]}


INNER = quest("inner", fires_after("sq-outer-one"), priority=60)
OUTER = quest("outer", fires_after("a"), steps=TWO_STEPS)

CASES = [
    Case(
        "two deep",
        [LINE],
        first_steps(1),
        nest(2, bottom="VERIFIED > advance:sq-deep-two (fast_path)"),
        sidequests=[DEEP],
    ),
    Case(
        "as deep as it may go",
        [LINE],
        first_steps(9),
        nest(10, bottom="VERIFIED > advance:sq-deep-two (fast_path)"),
        sidequests=[DEEP],
    ),
    Case(
        "no deeper than that: nothing is lost, all return",
        [LINE],
        first_steps(10),
        nest(10, bottom="PARTIAL > advance:sq-deep-two (deterministic)"),
        sidequests=[DEEP],
    ),
    Case(
        "one that is not nested is refused inside another",
        [LINE],
        {"a": HALF, "sq-outer-one": HALF},
        """
        f/a PARTIAL > detour:outer (deterministic)
          f/sq-outer-one PARTIAL > advance:sq-outer-two (deterministic)
          f/sq-outer-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[OUTER, INNER],
    ),
    Case(
        "one that is nested is taken inside one that is not",
        [LINE],
        {"a": HALF, "sq-outer-one": HALF},
        """
        f/a PARTIAL > detour:outer (deterministic)
          f/sq-outer-one PARTIAL > detour:inner (deterministic)
            f/sq-inner-look VERIFIED > advance:sq-outer-two (deterministic)
          f/sq-outer-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[OUTER, {**INNER, "nested": True}],
    ),
    Case(
        "what a sidequest's last step calls for comes after it, not inside it",
        [LINE],
        {"a": HALF, "sq-outer-two": HALF},
        """
        f/a PARTIAL > detour:outer (deterministic)
          f/sq-outer-one VERIFIED > advance:sq-outer-two (fast_path)
          f/sq-outer-two PARTIAL > detour:inner (deterministic)
          f/sq-inner-look VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[OUTER, quest("inner", fires_after("sq-outer-two"))],
        events="""
        stack_push frame=sidequest:outer@1 depth=1 interrupted=f/a back_to=f/b
        routing_offroad candidate_id=detour:outer from_step=a instead_of=advance:b why_now=[A]
        stack_pop frame=sidequest:outer@1 depth=0
        stack_push frame=sidequest:inner@3 depth=1 interrupted=f/sq-outer-two back_to=f/b
        routing_offroad candidate_id=detour:inner from_step=sq-outer-two instead_of=advance:b why_now=[TWO]
        stack_pop frame=sidequest:inner@3 depth=0
        """.replace("TWO", str(fires_after("sq-outer-two")["if"])).replace("[A]", f"[{fires_after('a')['if']}]"),
    ),
    Case(
        "a failure three deep is executed again three deep",
        [LINE],
        first_steps(2, {"fail": "overloaded"}) | {"sq-deep-two": {}},
        [
            *nest(3, bottom="failed > terminate (deterministic)")[:4],
            "-- failed > repeat:sq-deep-one (deterministic)",
            "      f/sq-deep-one@4 failed > terminate (deterministic)",
        ],
        end="failed",
        sidequests=[DEEP],
        then=[("resume",)],
    ),
    Case(
        "BLOCKED two deep waits, and returns twice",
        [LINE],
        {"a": HALF, "sq-deep-one": [HALF, BLOCKED, {}]},
        [
            *nest(2, bottom="BLOCKED > pause (deterministic)")[:3],
            "-- paused > repeat:sq-deep-one (deterministic)",
            "    f/sq-deep-one@3 VERIFIED > advance:sq-deep-two (fast_path)",
            *nest(2, bottom="")[3:],
        ],
        sidequests=[DEEP],
        then=[("resume", "-m", "red")],
    ),
    Case(
        "the use of a nested one counts",
        [LINE],
        first_steps(3),
        [
            *nest(2, bottom="PARTIAL > advance:sq-deep-two (deterministic)"),
        ],
        sidequests=[{**DEEP, "max_uses_per_run": 2}],
    ),
    Case(
        "halt inside: on with the sidequest that was interrupted",
        [LINE],
        {"a": HALF, "sq-outer-one": HALF},
        """
        f/a PARTIAL > detour:outer (deterministic)
          f/sq-outer-one PARTIAL > detour:inner (deterministic)
            f/sq-inner-look VERIFIED > pause (deterministic)
        -- paused > advance:sq-outer-two (deterministic)
          f/sq-outer-two VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[OUTER, {**INNER, "nested": True, "returns": {"mode": "halt"}}],
        then=[("resume",)],
    ),
]


@by_name(CASES)
def test_nested(project: Project, case: Case) -> None:
    checked(project, case)


def test_what_would_be_too_deep_is_told(project: Project) -> None:
    run = checked(project, next(case for case in CASES if case.name.startswith("no deeper")))
    told = told_by_events(project, run)
    prevented = "stack_overflow_prevented candidate_id=detour:deep depth=10 max_depth=10"
    assert [line for line in told if line.startswith("stack_overflow")] == [prevented]
    pushed = [line.split(" ")[1] for line in told if line.startswith("stack_push")]
    popped = [line.split(" ")[1] for line in told if line.startswith("stack_pop")]
    assert pushed == [f"frame=sidequest:deep@{number}" for number in range(1, 11)]
    assert popped == pushed[::-1]


def test_rolled_back_into_the_depth_it_returns_as_before(project: Project) -> None:
    case = next(case for case in CASES if case.name == "two deep")
    run = checked(project, case)
    for words in (("rollback", "sq-deep-one@2", "--run", run), ("resume", run)):
        assert ask(project, *words).code in (0, 4, 5)
    once_more = [line.replace("(fast_path)", "(fast_path) > advance:sq-deep-two (fast_path)") for line in case.route]
    expected = [once_more[i] if i == 2 else line for i, line in enumerate(case.route)]
    assert (routed(project, run), ended(project, run)) == (expected, "succeeded")
