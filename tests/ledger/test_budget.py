"""The arithmetic of budgets."""

from __future__ import annotations

import pytest

from gitswarm.records.budget import (
    BudgetLimits,
    Total,
    Use,
    left,
    option_in,
    reached,
    seconds,
    spent_words,
    time_words,
    total,
)
from tests.tables import table

ALLOWED = BudgetLimits(cost_usd=2.0, tokens=1000)


@table("text, expected", [("90", 90), ("45s", 45), ("1h30m", 5400), ("2d", 172_800), ("0.5h", 1800)])
def test_a_duration_is_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@table("text", ["4 hours", "h", "", "1h-3m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        seconds(text)


@table("given", [0, 59, 60, 3661, 90_000])
def test_words_for_a_time_read_as_the_same_time(given: float) -> None:
    assert seconds(time_words(given)) == given


def test_an_unknown_cost_counts_as_all_that_was_allowed() -> None:
    used = total([Use("a", "f", 10, 0.5), Use("b", "f", 20, None, ALLOWED)])
    assert (used.cost_usd, used.reserved_usd, used.doubtful) == (0.5, 2.0, ("b",))
    assert used.counted["cost_usd"] == 2.5
    assert used.counted["tokens"] == 30


def test_what_was_in_flight_counts_as_all_that_was_allowed_and_never_as_less_than_it_told() -> None:
    used = total(
        [Use("a", "f", 300, 0.5, ALLOWED, in_flight=True), Use("b", "f", 1200, 3.0, ALLOWED, in_flight=True)]
    )
    assert (used.cost_usd, used.reserved_usd) == (3.5, 1.5)
    assert (used.tokens, used.reserved_tokens) == (1500, 700)


def test_a_cost_that_nothing_bounds_leaves_nothing() -> None:
    used = total([Use("f/a@1", "f", 10, None)])
    found = reached(BudgetLimits(cost_usd=100), used, "the run")
    assert found is not None
    assert found.option == "--max-cost none"
    assert "the cost of f/a@1 is not known" in found.reason
    assert left(BudgetLimits(cost_usd=100, tokens=50), used) == BudgetLimits(cost_usd=0.0, tokens=40)


def test_time_counts_once_for_what_is_executed_at_the_same_time() -> None:
    spans = [(100.0, 110.0), (105.0, 120.0), (106.0, 107.0), (200.0, 201.5), (0.0, 0.0)]
    assert total(Use("a", "f", 0, 0.0, begun=begun, ended=ended) for begun, ended in spans).time_s == 21.5


LIMITS = BudgetLimits(cost_usd=5, tokens=1000, time_s=3600)


@table(
    "used, expected",
    [
        (Total(4.99, 999, 3599), None),
        (Total(5.0, 0, 0), "the run spent $5.00 of $5.00 --max-cost 10"),
        (Total(5.25, 0, 0), "the run spent $5.25 of $5.00 --max-cost 11"),
        (Total(0, 1000, 0), "the run used 1,000 of 1,000 tokens --max-tokens 2000"),
        (Total(0, 0, 3700), "the run took 1h1m40s of 1h --max-time 2h2m"),
        (
            Total(1.0, 0, 0, reserved_usd=4.0, doubtful=("f/a@1",)),
            "the run spent $1.00 of $5.00, and f/a@1 may have used $4.00 more --max-cost 10",
        ),
    ],
)
def test_a_limit_is_reached_when_nothing_is_left(used: Total, expected: str | None) -> None:
    found = reached(LIMITS, used, "the run")
    assert (f"{found.what} {found.option}" if found else None) == expected
    if found is not None:
        assert option_in(found.reason) == found.option


def test_another_reason_has_no_option() -> None:
    assert option_in("paused; continue with: git swarm resume --max-cost 3") == ""


def test_a_limit_of_a_flow_names_what_the_run_needs() -> None:
    found = reached(BudgetLimits(cost_usd=1), Total(1.5), "the flow build", whole=Total(4.0))
    assert found is not None
    assert found.reason == "budget: the flow build spent $1.50 of $1.00; continue with: git swarm resume --max-cost 5"


def test_limits_are_combined_and_shared() -> None:
    assert BudgetLimits(5, None, 60).within(BudgetLimits(3, 100)) == BudgetLimits(3, 100, 60)
    assert BudgetLimits(5, 100).over({"cost_usd": 8, "tokens": None}) == BudgetLimits(8)
    assert BudgetLimits(1.0, 10, 60).shared_by(3) == BudgetLimits(0.333333, 3, 60)
    assert not BudgetLimits()
    assert BudgetLimits.of(LIMITS.plain) == LIMITS


def test_what_was_spent_of_what() -> None:
    assert spent_words(LIMITS, Total(1.2, 250, 180)) == (
        "spent $1.20 of $5.00, used 250 of 1,000 tokens, took 3m of 1h"
    )
