"""The context pack: what is taken into a prompt, what is left out first, and that this is said."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gitswarm.specs.context import Budget, EarlierStep, Priority, Profile, cut, pack_history, priority_of
from tests.tables import table

CRITIC, SPEC, INFRA = Priority.CRITICAL, Priority.HIGH, Priority.LOW


def step(name: str, priority: Priority = SPEC, length: int = 10) -> EarlierStep:
    return EarlierStep(name, "agent", "VERIFIED", "x" * length, priority)


@table(
    ("profile", "window", "budget"),
    [
        ("lean", 200_000, Budget(100_000, 30_000, 5_000)),
        ("balanced", 200_000, Budget(200_000, 60_000, 10_000)),
        ("heavy", 200_000, Budget(200_000, 60_000, 20_000)),
        ("heavy", 1_000_000, Budget(400_000, 120_000, 20_000)),
        ("balanced", 8_000, Budget(8_000, 2_400, 800)),
    ],
)
def test_a_budget_is_the_profile_s_or_a_share_of_the_window(profile: Profile, window: int, budget: Budget) -> None:
    assert Budget.of(profile, window) == budget


def test_everything_that_fits_is_told_in_the_order_of_the_run() -> None:
    earlier = [step("a", INFRA), step("b", CRITIC), step("c")]
    packed = pack_history(earlier, Budget(1000, 300, 100), "balanced")
    assert packed.text.splitlines() == [f"- {name} (agent): VERIFIED: {'x' * 10}" for name in "abc"]
    assert (packed.use.steps_included, packed.use.truncated) == (3, False)


def test_the_less_important_go_first_and_of_those_the_older() -> None:
    earlier = [
        step("old", SPEC),
        step("infra", INFRA),
        step("critic", CRITIC),
        step("new", SPEC),
        step("last", INFRA),
    ]
    size = len(step("critic").text(1000)) + 2
    packed = pack_history(earlier, Budget(3 * size, 300, 100), "lean")
    lines = packed.text.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["critic", "new", "last"]
    note = "[CONTEXT_TRUNCATED] 3 of 5 earlier steps; left out: 1 HIGH, 1 LOW"
    assert lines[-1] == f"{note}: old (35 characters), infra (37 characters)"
    assert packed.use.to_plain() == {
        "profile": "lean",
        "budget_chars": 3 * size,
        "chars_used": len(packed.text),
        "steps_included": 3,
        "steps_total": 5,
        "truncated": True,
        "priorities": {"CRITICAL": 1, "HIGH": 1, "LOW": 1},
    }


def test_a_long_entry_loses_its_middle_and_says_so() -> None:
    packed = pack_history([step("long", length=500), step("last", length=500)], Budget(1000, 300, 100), "lean")
    long, last = packed.text.split("\n- last")
    assert (len(long), len(f"- last{last}")) == (100, 300)
    assert "[… cut: 460 of 526 characters …]" in long
    assert packed.use.truncated


def test_files_are_pointed_to_and_notes_told() -> None:
    told = EarlierStep("a", "critic", "UNVERIFIED", "No.", CRITIC, ("concern: x",), ("build/c.md",)).text(1000)
    assert told == "- a (critic): UNVERIFIED: No.\n  - concern: x\n  - file: build/c.md"


@table(("category", "priority"), [("critic", 3), ("spec", 2), ("shaping", 1), ("infra", 0), (None, 2)])
def test_a_category_has_its_priority(category: str | None, priority: int) -> None:
    assert priority_of(category) == priority


PRIORITIES = st.sampled_from(list(Priority))
STEPS = st.lists(
    st.builds(step, st.text("abc", min_size=1, max_size=3), PRIORITIES, st.integers(0, 400)), max_size=12
)


@given(STEPS, st.integers(200, 2000))
def test_no_pack_is_larger_than_its_budget_and_its_note(earlier: list[EarlierStep], total: int) -> None:
    packed = pack_history(earlier, Budget(total, total // 3, total // 8), "lean")
    assert packed.use.chars_used <= total + 100 + 30 * len(earlier)
    assert packed.use.steps_included <= packed.use.steps_total == len(earlier)


@given(st.text(max_size=300), st.integers(60, 200))
def test_a_cut_text_keeps_its_ends_and_the_limit(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    if short != text:
        missing, whole = re.findall(r"cut: (\d+) of (\d+) characters", short)[-1]
        note = f"\n[… cut: {missing} of {whole} characters …]\n"
        assert (int(whole), int(whole) - int(missing)) == (len(text), len(short) - len(note))
        assert short[:1] == text[:1]
