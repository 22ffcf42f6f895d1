from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitswarm.evidence.summary_claims import named_files, read_claims
from gitswarm.evidence.verdict import Claims, any_means, means
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Status
from tests.tables import table

PASSES = [
    ("all tests pass", None),
    ("All 12 tests pass.", 12),
    ("12 tests pass", 12),
    ("14/14 passed", 14),
    ("tests are green", None),
    ("The suite is green.", None),
    ("Implemented, tests green", None),
    ("`pytest` ran: 12 passed in 0.3 s", 12),
    ("I ran the tests; everything passes.", None),
    ("The tests for the new parser module now pass", None),
    ("All tests in tests/test_x.py pass without warnings", None),
    ("passes all 12 tests", 12),
    ("All tests succeeded", None),
    ("Before the fix 2 tests failed, now all tests pass.", None),
    ("All tests pass. The two tests that failed are fixed.", None),
    ("Two tests failed. Fixed both: all tests pass.", None),
    ("No failing tests.", None),
    ("✅ All tests passing (24/24)", None),
    ("**Tests**: 24 passed", 24),
    ("test suite: PASS", None),
    ("100% pass rate", None),
    ("All existing tests continue to pass", None),
    ("## Summary\n- Rewrote `src/a.py`\n- All tests pass", None),
]

NO_PASSES = [
    "tests do not pass",
    "The tests don't pass yet",
    "tests will pass",
    "should pass",
    "Tests should pass now",
    "no tests pass",
    "None of the tests pass",
    "tests failed",
    "Make all tests pass",
    "Changed the parser to pass the tests",
    "Added tests that pass an empty list",
    "Checks that callers pass a list",
    "It isn't true that all tests pass",
    "Do all tests pass?",
    "Once the tests pass we can land",
    "The tests passed before",
    "All but 2 tests pass",
    "All tests pass except two",
    "Code review: PASS",
    "Almost all tests pass",
    "The new tests fail without the change and pass with it",
    "Looks right to me",
    "",
]


@table(("summary", "passed"), PASSES)
def test_a_pass_claim_is_heard(summary: str, passed: int | None) -> None:
    (claim,) = read_claims(Handoff(summary=summary)).passes
    assert (claim.passed, claim.all_green) == (passed, True)


@table("summary", NO_PASSES)
def test_negations_futures_and_others_claim_no_pass(summary: str) -> None:
    assert read_claims(Handoff(summary=summary)).passes == ()


@table(
    "summary",
    [
        "12 tests pass, 2 fail",
        "12 of 14 tests pass",
        "tests pass locally but fail in CI",
        "All tests pass, except test_x which fails",
        "All unit tests pass. Two integration tests fail without a network.",
        "Unit tests pass; the integration tests fail.",
        "- 12 passed\n- 1 failed",
        "All 12 tests pass. Known issue: test_e2e still fails.",
    ],
)
def test_who_admits_failures_does_not_claim_that_all_is_green(summary: str) -> None:
    assert [claim.all_green for claim in read_claims(Handoff(summary=summary)).passes] == [False]


@table(
    ("summary", "files"),
    [
        ("Implemented discounts", ()),
        ("- Fixed the crash when the list is empty", ()),
        ("I've added retries to src/x.py", ("src/x.py",)),
        ("Added retry to src/a.py, src/b.py and tests/test_c.py.", ("src/a.py", "src/b.py", "tests/test_c.py")),
        ("src/x.py: added retries", ("src/x.py",)),
        ("Added tests for src/shop.py in tests/test_shop.py", ("tests/test_shop.py",)),
        ("Rewrote src/a.py like src/b.py", ("src/a.py",)),
        ("Rewrote src/a.py similar to src/b.py", ("src/a.py",)),
        ("Moved the parser from src/a.py to src/b.py", ("src/a.py", "src/b.py")),
        ("Retry has been implemented in `src/x.py`", ("src/x.py",)),
        ("Removed dead code from src/x.py", ("src/x.py",)),
    ],
)
def test_a_progress_claim_is_heard(summary: str, files: tuple[str, ...]) -> None:
    (claim,) = read_claims(Handoff(summary=summary)).progress
    assert claim.files == files


@table(
    "summary",
    [
        "Nothing was changed",
        "Changed nothing.",
        "Not implemented yet",
        "Retry could not be fixed",
        "The retry was added by the implementer",
        "src/x.py lacks error handling",
        "Will be fixed next",
        "Should be implemented in src/x.py",
        "Read src/x.py and the added tests",
        "Newly added code reads well",
        "Added tests cover the edge cases",
    ],
)
def test_no_progress_is_heard_where_none_is_claimed(summary: str) -> None:
    assert read_claims(Handoff(summary=summary)).progress == ()


@table(
    ("summary", "percents"),
    [
        ("87 % coverage", [87.0]),
        ("Coverage is now 87.5%", [87.5]),
        ("coverage rose from 80% to 91 %", [91.0]),
        ("We aim for 90 % coverage", []),
        ("Coverage must be 90 %", []),
        ("Coverage is not 90 %", []),
        ("100 % coverage of the new module", []),
        ("Coverage of src/x.py is 100 %", []),
        ("900 % coverage", []),
    ],
)
def test_coverage_is_heard(summary: str, percents: list[float]) -> None:
    assert [claim.percent for claim in read_claims(Handoff(summary=summary)).coverage] == percents


def test_a_summary_without_file_and_result_claims_nothing() -> None:
    claims = read_claims(Handoff(status=Status.VERIFIED, summary="Thought about it. Looks good.", confidence="high"))
    assert claims == Claims(status=Status.VERIFIED, confidence="high")
    assert not claims.says_something


def test_files_are_named_in_prose() -> None:
    text = (
        "See src/a.py:12, `b.toml`, Makefile and https://x.test/c.py. "
        "Not Node.js, 3.12, e.g. self.path, log.md(), src/**.py or tests/."
    )
    assert named_files(text) == ("src/a.py", "b.toml", "Makefile")


@table(
    ("name", "path", "same"),
    [
        ("x.py", "src/x.py", True),
        ("./src/x.py", "src/x.py", True),
        ("src\\x.py", "src/x.py", True),
        ("/tmp/run/src/x.py", "src/x.py", True),
        (".swarm/runs/r/plan/adr.md", "plan/adr.md", True),
        ("src/x.py", "x.py", False),
        ("lib/x.py", "src/x.py", False),
        ("ax.py", "src/x.py", False),
        ("", "src/x.py", False),
    ],
)
def test_a_name_means_a_path(name: str, path: str, *, same: bool) -> None:
    assert means(name, path) == same


def test_a_folder_means_what_lies_in_it() -> None:
    assert any_means("tests/", ["src/x.py", "tests/test_x.py"])
    assert not any_means("docs/", ["src/x.py", "tests/docs/test_x.py"])


@given(st.text())
def test_no_summary_raises(summary: str) -> None:
    read_claims(Handoff(summary=summary))


@table("unit", ["tests ", "0 ", "added and ", "coverage ", "a/", "1/1 of the ", "%", "no failing "])
def test_a_long_summary_is_read_in_a_second(unit: str) -> None:
    read_claims(Handoff(summary=unit * 20_000))
