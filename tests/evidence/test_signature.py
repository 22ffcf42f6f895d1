from __future__ import annotations

from gitswarm.evidence.test_output import Failure, masked, signature
from tests.tables import table


@table(
    ("first", "second"),
    [
        ("at /tmp/pytest-of-a/x1/shop.py:12: no", "at /home/b/shop.py:99: no"),
        ("C:\\work\\shop.py:3:4 no", "/srv/shop.py:77:1 no"),
        ("<Till object at 0x7f5c2a9a94d0>", "<Till object at 0x7f0000000010>"),
        ("timed out after 1.52s", "timed out after 1.61s"),
        ("thread 'one' (21456) panicked at src/a.rs:1:20:", "thread 'one' (7) panicked at src/a.rs:9:2:"),
        ("run 0f8fad5b-d9cb-469f-a165-70867728950e", "run 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("since 2026-11-21T12:31:04.914Z", "since 2025-01-01T00:00:00.001Z"),
        ("at t/shop.t line 4.", "at t/shop.t line 5."),
        ("a  b\n c", "a b c"),
    ],
)
def test_what_changes_from_run_to_run_is_masked(first: str, second: str) -> None:
    assert masked(first) == masked(second)


@table(
    ("first", "second"),
    [
        ("assert 3 == 4", "assert 2 == 4"),
        ("in shop.py", "in till.py"),
        ("KeyError: 'a'", "KeyError: 'b'"),
    ],
)
def test_what_was_wrong_is_not_masked(first: str, second: str) -> None:
    assert masked(first) != masked(second)


def test_the_order_of_failures_does_not_matter() -> None:
    a, b = Failure("a", "no"), Failure("b", "no")
    assert signature([a, b], 2) == signature([b, a], 2)


def test_another_failing_test_is_another_signature() -> None:
    assert signature([Failure("a")], 1) != signature([Failure("b")], 1)


def test_without_names_the_number_counts() -> None:
    assert signature([], 2) not in {signature([], 3), None}


def test_nothing_failed_nothing_signed() -> None:
    assert signature([], 0) is None
