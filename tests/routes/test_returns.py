"""Where a run goes on after a sidequest: each mode, in the middle and at the end of a flow."""

from __future__ import annotations

from typing import Any

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, fires_after, flow, quest, step
from tests.routes.common import DOUBT, HALF, LINE, by_name, critic_loop

TWO = [LINE, flow("g", step("x"))]
BOTH = ("flow:f", "flow:g")


def look(after: str = "a", status: str = "PARTIAL", uses: int = 3, **returns: Any) -> list[dict[str, Any]]:
    more = {"returns": returns} if returns else {}
    return [quest("look", fires_after(after, status), max_uses_per_run=uses, **more)]


def depends(condition: str, then: str, otherwise: str) -> list[dict[str, Any]]:
    returns = {"mode": "conditional", "if": condition, "then": then, "otherwise": otherwise}
    return [quest("look", fires_after("a"), returns=returns)]


TO_B = """
    f/a PARTIAL > detour:look (deterministic)
      f/sq-look-look VERIFIED > advance:b (deterministic)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""
HALTED = """
    f/a PARTIAL > detour:look (deterministic)
      f/sq-look-look VERIFIED > pause (deterministic)
"""
LAST = """
    f/a VERIFIED > advance:b (fast_path)
    f/b VERIFIED > advance:c (fast_path)
    f/c PARTIAL > detour:look (deterministic)
"""

MIDDLE = [
    Case("resume", [LINE], {"a": HALF}, TO_B, sidequests=look(mode="resume")),
    Case("advance", [LINE], {"a": HALF}, TO_B, sidequests=look(mode="advance")),
    Case(
        "advance leaves a loop that would have gone on",
        [critic_loop(3)],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=look("critique", "UNVERIFIED", mode="advance"),
    ),
    Case(
        "advance leaves a failed step behind",
        [LINE],
        {"a": {"fail": "overloaded"}},
        """
        f/a failed > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=[
            quest(
                "look",
                {"kind": "condition", "if": 'receipt.status == "failed"'},
                returns={"mode": "advance"},
            )
        ],
    ),
    Case(
        "bounce_to ahead",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=look(mode="bounce_to", target="c"),
    ),
    Case(
        "bounce_to back",
        [LINE],
        {"b": HALF},
        """
        f/a VERIFIED > advance:b (fast_path)
        f/b PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b@2 PARTIAL > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=look("b", uses=1, mode="bounce_to", target="a"),
    ),
    Case(
        "bounce_to the interrupted step itself",
        [LINE],
        {"a": [HALF, {}]},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=look(mode="bounce_to", target="a"),
    ),
    Case(
        "bounce_to back into a loop is a new entry",
        [
            flow(
                "f",
                step("write"),
                step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=2),
                step("judge"),
                step("done", CLEANUP),
            )
        ],
        {"critique": DOUBT, "judge": [HALF, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > advance:judge (deterministic)
        f/judge PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:write (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@4 VERIFIED > advance:critique (fast_path)
        f/critique@4 UNVERIFIED > advance:judge (deterministic)
        f/judge@2 VERIFIED > advance:done (fast_path)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=look("judge", mode="bounce_to", target="write"),
    ),
    Case(
        "bounce_to a step that this flow does not have is a resume",
        [LINE, flow("g", step("elsewhere"))],
        {"a": HALF},
        TO_B,
        sidequests=look(mode="bounce_to", target="elsewhere"),
    ),
    Case("halt", [LINE], {"a": HALF}, HALTED, end="paused", sidequests=look(mode="halt")),
    Case(
        "halt, then on where the flow was left",
        [LINE],
        {"a": HALF},
        """
        f/a PARTIAL > detour:look (deterministic)
          f/sq-look-look VERIFIED > pause (deterministic)
        -- paused > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        sidequests=look(mode="halt"),
        then=[("resume", "-m", "fine")],
    ),
    Case(
        "halt in a loop, then on with the loop",
        [critic_loop(2)],
        {"critique": [DOUBT, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > pause (deterministic)
        -- paused > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=look("critique", "UNVERIFIED", mode="halt"),
        then=[("resume",)],
    ),
    Case(
        "conditional, and it holds",
        [LINE],
        {"a": HALF, "sq-look-look": DOUBT},
        HALTED.replace("look VERIFIED", "look UNVERIFIED"),
        end="paused",
        sidequests=depends('envelope.status == "UNVERIFIED"', "halt", "resume"),
    ),
    Case(
        "conditional, and it does not hold",
        [LINE],
        {"a": HALF},
        TO_B,
        sidequests=depends('envelope.status == "UNVERIFIED"', "halt", "resume"),
    ),
    Case(
        "conditional, and it errors: otherwise",
        [LINE],
        {"a": HALF},
        HALTED,
        end="paused",
        sidequests=depends("envelope.assumptions[9] == 1", "resume", "halt"),
    ),
    Case(
        "conditional advance out of a loop",
        [critic_loop(3)],
        {"critique": DOUBT},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > detour:look (deterministic)
          f/sq-look-look VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        sidequests=[
            quest(
                "look",
                fires_after("critique", "UNVERIFIED"),
                returns={"mode": "conditional", "if": "true", "then": "advance", "otherwise": "resume"},
            )
        ],
    ),
]

END = [
    Case(
        "resume at the last step ends the flow",
        [LINE],
        {"c": HALF},
        f"{LAST}      f/sq-look-look VERIFIED > terminate (deterministic)",
        sidequests=look("c"),
    ),
    Case(
        "advance at the last step ends the flow",
        [LINE],
        {"c": HALF},
        f"{LAST}      f/sq-look-look VERIFIED > terminate (deterministic)",
        sidequests=look("c", mode="advance"),
    ),
    Case(
        "bounce_to from the last step",
        [LINE],
        {"c": [HALF, {}]},
        f"""{LAST}      f/sq-look-look VERIFIED > advance:b (deterministic)
    f/b@2 VERIFIED > advance:c (fast_path)
    f/c@2 VERIFIED > terminate (fast_path)
    """,
        sidequests=look("c", mode="bounce_to", target="b"),
    ),
    Case(
        "halt at the last step, then the end",
        [LINE],
        {"c": HALF},
        f"""{LAST}      f/sq-look-look VERIFIED > pause (deterministic)
    -- paused > terminate (deterministic)
    """,
        sidequests=look("c", mode="halt"),
        then=[("resume",)],
    ),
    Case(
        "resume at the last step goes on with the next flow",
        TWO,
        {"c": HALF},
        f"""{LAST}      f/sq-look-look VERIFIED > advance:g/x (deterministic)
    g/x VERIFIED > terminate (fast_path)
    """,
        options=BOTH,
        sidequests=look("c"),
    ),
    Case(
        "advance at the last step goes on with the next flow",
        TWO,
        {"c": HALF},
        f"""{LAST}      f/sq-look-look VERIFIED > advance:g/x (deterministic)
    g/x VERIFIED > terminate (fast_path)
    """,
        options=BOTH,
        sidequests=look("c", mode="advance"),
    ),
    Case(
        "bounce_to at the last step stays in its flow",
        TWO,
        {"c": [HALF, {}]},
        f"""{LAST}      f/sq-look-look VERIFIED > advance:b (deterministic)
    f/b@2 VERIFIED > advance:c (fast_path)
    f/c@2 VERIFIED > advance:g/x (deterministic)
    g/x VERIFIED > terminate (fast_path)
    """,
        options=BOTH,
        sidequests=look("c", mode="bounce_to", target="b"),
    ),
    Case(
        "halt at the last step, then the next flow",
        TWO,
        {"c": HALF},
        f"""{LAST}      f/sq-look-look VERIFIED > pause (deterministic)
    -- paused > advance:g/x (deterministic)
    g/x VERIFIED > terminate (fast_path)
    """,
        options=BOTH,
        sidequests=look("c", mode="halt"),
        then=[("resume",)],
    ),
]


@by_name(MIDDLE)
def test_in_the_middle(project: Project, case: Case) -> None:
    checked(project, case)


@by_name(END)
def test_at_the_end(project: Project, case: Case) -> None:
    checked(project, case)
