"""Acceptance criteria against the tests that they name."""

from __future__ import annotations

from gitswarm.evidence.criteria import CriteriaFacts, NamedCriterion, criteria_names, judge_criteria, resolve
from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.test_changes import read_changes
from gitswarm.records.evidence import CaseResults
from tests.evidence.suites import results
from tests.tables import table

A, B = "tests/test_a.py", "tests/test_b.py"
NEW = "def test_new(): assert f() == 1\ndef test_void(): f()\nclass TestX:\n  def test_x(self): assert g()\n"
CHANGES = read_changes([TextChange(A, "def test_old(): assert f()\n", f"def test_old(): assert f()\n{NEW}")])
BASE = results({f"{A}::test_old": ".", f"{B}::test_red": "F", f"{B}::test_new": "."})
FINAL = results(
    {
        f"{A}::test_old": ".",
        f"{A}::test_new": ".",
        f"{A}::test_void": ".",
        f"{A}::TestX::test_x[1]": ".",
        f"{A}::TestX::test_x[2]": ".",
        f"{B}::test_new": ".",
        f"{B}::test_red": ".",
        f"{B}::test_fails": "F",
        f"{B}::test_skipped": "s",
        f"{B}::test_xfail": "x",
    }
)

JUDGED = [
    (("test_new",), "proven", f"{A}::test_new passed"),
    (("TestX::test_x",), "proven", f"{A}::TestX::test_x[1] passed"),
    (("tests/test_a.py::TestX::test_x[1]",), "proven", f"{A}::TestX::test_x[1] passed"),
    (("test_red",), "proven", f"{B}::test_red passed"),
    (("test_old", "test_new"), "proven", f"{A}::test_new passed"),
    (("test_old",), "claimed", "its tests already passed at the base, or assert nothing"),
    (("tests.test_b.test_new",), "claimed", "its tests already passed at the base, or assert nothing"),
    (("test_void",), "claimed", "its tests already passed at the base, or assert nothing"),
    ((), "untested", "it names no test"),
    (("test_unknown",), "untested", "no test is called test_unknown"),
    (("test_new", "test_unknown"), "untested", "no test is called test_unknown"),
    (("test_skipped",), "untested", f"{B}::test_skipped is skipped"),
    (("test_xfail",), "untested", f"{B}::test_xfail is xfailed"),
    (("test_fails", "test_unknown"), "failing", f"{B}::test_fails failed"),
]


def judge(names: tuple[str, ...], final: CaseResults | None = FINAL) -> tuple[str, str, bool]:
    facts = CriteriaFacts(final, BASE, CHANGES)
    (found,) = judge_criteria([NamedCriterion("AC-1", names)], facts)
    return found.proof, found.reason, found.is_blocking


@table(("names", "proof", "reason"), JUDGED, ids=[", ".join(row[0]) or "none" for row in JUDGED])
def test_a_criterion_is_judged(names: tuple[str, ...], proof: str, reason: str) -> None:
    assert judge(names) == (proof, reason, proof in {"untested", "failing"})


def test_without_names_a_criterion_is_claimed() -> None:
    assert judge(("test_new",), None) == ("claimed", "the test tool names no tests", False)
    partly = results({f"{A}::test_old": "."}, complete=False)
    assert judge(("test_new",), partly) == ("claimed", "no test is called test_new", False)


RESOLVED = [
    ("test_new", {A}, [f"{A}::test_new"]),
    ("test_new", {B}, [f"{B}::test_new"]),
    ("test_new", set(), [f"{A}::test_new", f"{B}::test_new"]),
    ("test_b.test_new", {A}, [f"{B}::test_new"]),
    (f"{B}::test_new", {A}, [f"{B}::test_new"]),
    ("test_x", set(), [f"{A}::TestX::test_x[1]", f"{A}::TestX::test_x[2]"]),
    ("test_nothing", set(), []),
]


@table(("name", "near", "expected"), RESOLVED, ids=[f"{row[0]} {row[1]}" for row in RESOLVED])
def test_a_name_is_resolved(name: str, near: set[str], expected: list[str]) -> None:
    assert [case.name for case in resolve(name, FINAL, near)] == expected


OTHERS = results(
    {
        "a.test.js > till > adds two": ".",
        "example.test/shop.TestAdd/zero": ".",
        "shop tests::adds": ".",
        "com.x.TillTest.adds(int)[1]": ".",
        "shop::shop sums::right": ".",
    }
)


@table(
    ("name", "expected"),
    [
        ("adds two", "a.test.js > till > adds two"),
        ("till > adds two", "a.test.js > till > adds two"),
        ("TestAdd", "example.test/shop.TestAdd/zero"),
        ("tests::adds", "shop tests::adds"),
        ("TillTest.adds", "com.x.TillTest.adds(int)[1]"),
        ("right", "shop::shop sums::right"),
    ],
)
def test_names_of_other_tools_are_resolved(name: str, expected: str) -> None:
    assert [case.name for case in resolve(name, OTHERS, ())] == [expected]


def test_what_criteria_stand_on_is_told() -> None:
    criteria = [NamedCriterion("a", ("test_new",)), NamedCriterion("b", ("test_red",))]
    assert criteria_names(criteria, FINAL, {A}) == {f"{A}::test_new", f"{B}::test_red"}
    assert criteria_names(criteria, None, {A}) == frozenset()
