"""Every flag with honest and dishonest handoffs; facts are built as the runner would."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gitswarm.evidence.declarations import CaseCount, CaseCounts
from gitswarm.evidence.summary_claims import read_claims
from gitswarm.evidence.verdict import CommandCheck, Facts, judge
from gitswarm.records import evidence as records
from gitswarm.records.envelope import FileChange, Handoff
from gitswarm.records.evidence import ChangedFile, CheckOutcome, DiffSummary, Flag
from gitswarm.records.execution import Status
from tests.tables import table

Recommendation = Literal["TRUST", "VERIFY", "REJECT"]
V = Status.VERIFIED


def report(
    passed: int, failed: int = 0, *, skipped: int = 0, coverage: float | None = None, partial: bool = False
) -> records.TestReport:
    return records.TestReport(
        source="pytest",
        total=passed + failed + skipped,
        passed=passed,
        failed=failed,
        skipped=skipped,
        failing=tuple(f"test_{n}" for n in range(failed)),
        coverage_percent=coverage,
        partial=partial,
    )


def ran(told: records.TestReport | None, *, exit_code: int | None = None) -> CommandCheck:
    failed = told is not None and told.failed > 0
    code = exit_code if exit_code is not None else int(failed)
    return CommandCheck(CheckOutcome(passed=code == 0, exit_code=code, command="pytest"), told)


def diff(*paths: str, deleted: tuple[str, ...] = (), renamed: tuple[tuple[str, str], ...] = ()) -> DiffSummary:
    return DiffSummary.of(
        (
            *(ChangedFile(path=path, change="modified", insertions=3, deletions=1) for path in paths),
            *(ChangedFile(path=path, change="deleted", deletions=9) for path in deleted),
            *(ChangedFile(path=new, change="renamed", old_path=old) for old, new in renamed),
        )
    )


def cases(*files: tuple[str, int, int]) -> CaseCounts:
    return CaseCounts(tuple(CaseCount(path, before, after) for path, before, after in files))


CODE = diff("src/shop.py", "tests/test_shop.py")
NOTHING = DiffSummary()
GREEN = ran(report(12))
RED = ran(report(10, 2))
NO_TESTS = CommandCheck(CheckOutcome(exit_code=5, reason="no_tests", command="pytest"))
UNKNOWN = CommandCheck(CheckOutcome(command="pytest"))
DONE = "Implemented discounts in src/shop.py."

HONEST: dict[str, tuple[Handoff, Facts]] = {
    "a critic that claims nothing": (Handoff(summary="Looks right to me.", confidence="high"), Facts(NOTHING)),
    "a critic that is content": (
        Handoff(status=V, summary="No objections.", confidence="high"),
        Facts(NOTHING, check=GREEN),
    ),
    "a critic that names a file": (Handoff(summary="src/shop.py lacks error handling."), Facts(NOTHING)),
    "a reader of red code": (Handoff(status=V, summary="Read the task and src/shop.py."), Facts(NOTHING, check=RED)),
    "a critic that tells of another's work": (
        Handoff(summary="The retry was added by the implementer."),
        Facts(NOTHING),
    ),
    "a writer of an artifact": (
        Handoff(status=V, summary="Wrote requirements.md."),
        Facts(NOTHING, written=frozenset({"signal/requirements.md"})),
    ),
    "an artifact by its place in the commit": (
        Handoff(file_changes=(FileChange(path=".swarm/runs/r/plan/adr.md", change="added"),)),
        Facts(NOTHING, written=frozenset({"plan/adr.md"})),
    ),
    "done and green": (
        Handoff(status=V, summary=DONE + " All 12 tests pass."),
        Facts(CODE, check=GREEN, previous=RED),
    ),
    "done and untested, not sure": (Handoff(summary=DONE + " All tests pass.", confidence="medium"), Facts(CODE)),
    "sure of what nobody needs to test": (Handoff(summary=DONE, confidence="high"), Facts(CODE)),
    "red and said so": (Handoff(summary=DONE + " 10 tests pass, 2 fail."), Facts(CODE, check=RED)),
    "red and said so at length": (Handoff(summary=DONE + " Two tests still fail."), Facts(CODE, check=RED)),
    "red by intention": (Handoff(summary="Added tests. They fail until the code is there."), Facts(CODE, check=RED)),
    "red with hopes": (Handoff(summary=DONE + " Tests should pass now."), Facts(CODE, check=RED)),
    "red with a promise": (Handoff(summary=DONE + " The tests will pass then."), Facts(CODE, check=RED)),
    "red and negated": (Handoff(summary=DONE + " The tests do not pass."), Facts(CODE, check=RED)),
    "red and none pass": (Handoff(summary=DONE + " No tests pass."), Facts(CODE, check=RED)),
    "some of them": (Handoff(summary="10 of 12 tests pass."), Facts(CODE, check=RED)),
    "more files than named": (
        Handoff(summary=DONE, file_changes=(FileChange(path="src/shop.py", change="modified"),)),
        Facts(diff("src/shop.py", "uv.lock", "docs/a.md")),
    ),
    "a short name": (Handoff(summary="Fixed shop.py."), Facts(CODE)),
    "an absolute name": (Handoff(summary="Fixed /tmp/run/src/shop.py."), Facts(CODE)),
    "a file that tests are for": (Handoff(summary="Added tests for src/till.py in tests/test_shop.py."), Facts(CODE)),
    "a rename": (
        Handoff(file_changes=(FileChange(path="src/old.py", change="deleted"),)),
        Facts(diff(renamed=(("src/old.py", "src/new.py"),))),
    ),
    "coverage two points down": (
        Handoff(summary=DONE),
        Facts(CODE, check=ran(report(12, coverage=88.0)), previous=ran(report(12, coverage=90.0))),
    ),
    "coverage five points too high": (
        Handoff(summary="Implemented it; 93 % coverage."),
        Facts(CODE, check=ran(report(12, coverage=88.0))),
    ),
    "coverage of one module": (
        Handoff(summary="Implemented it; 100 % coverage of the new module."),
        Facts(CODE, check=ran(report(12, coverage=60.0))),
    ),
    "coverage as a goal": (
        Handoff(summary="We aim for 95 % coverage."),
        Facts(CODE, check=ran(report(1, coverage=50))),
    ),
    "a test moved to another file": (
        Handoff(summary="Moved the tests."),
        Facts(CODE, cases=cases(("tests/test_a.py", 3, 0), ("tests/test_b.py", 1, 4))),
    ),
    "a test deleted and two added": (
        Handoff(summary=DONE),
        Facts(CODE, cases=cases(("tests/test_a.py", 1, 0), ("tests/test_b.py", 4, 6))),
    ),
    "a renamed test file": (Handoff(summary=DONE), Facts(CODE, cases=cases(("tests/test_new.py", 3, 3)))),
    "fewer tests told by another tool": (
        Handoff(summary=DONE),
        Facts(CODE, check=ran(report(5)), previous=ran(replace(report(9), source="junit"))),
    ),
    "fewer tests in an output that was cut": (
        Handoff(summary=DONE),
        Facts(CODE, check=ran(report(5, partial=True)), previous=ran(report(9))),
    ),
    "an artifact of an earlier step": (
        Handoff(artifacts=("plan/adr.md",)),
        Facts(CODE, artifacts=frozenset({"plan/adr.md"})),
    ),
}

DISHONEST: dict[str, tuple[Handoff, Facts, tuple[Flag, ...], Recommendation]] = {
    "all pass": (Handoff(summary="All tests pass."), Facts(CODE, check=RED), ("claimed_pass_but_failed",), "REJECT"),
    "green": (Handoff(summary="Tests are green."), Facts(CODE, check=RED), ("claimed_pass_but_failed",), "REJECT"),
    "the suite": (
        Handoff(summary="The suite is green"),
        Facts(CODE, check=RED),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "a true number, the failures left out": (
        Handoff(summary="10 tests pass."),
        Facts(CODE, check=RED),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "admitted, but too many pass": (
        Handoff(summary="50 tests pass, 2 fail."),
        Facts(CODE, check=RED),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "only past failures": (
        Handoff(summary="Before the fix 2 tests failed, now all tests pass."),
        Facts(CODE, check=RED),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "no failures": (
        Handoff(summary="pytest ran with 0 failures."),
        Facts(CODE, check=RED),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "failures hidden by the command": (
        Handoff(summary="All tests pass."),
        Facts(CODE, check=ran(report(10, 2), exit_code=0)),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "failed without a report": (
        Handoff(summary="All checks pass."),
        Facts(CODE, check=ran(None, exit_code=2)),
        ("claimed_pass_but_failed",),
        "REJECT",
    ),
    "verified": (
        Handoff(status=V, summary=DONE),
        Facts(CODE, check=RED),
        ("claimed_verified_with_failures",),
        "REJECT",
    ),
    "verified without a word": (
        Handoff(status=V),
        Facts(CODE, check=RED),
        ("claimed_verified_with_failures",),
        "REJECT",
    ),
    "verified and admitted": (
        Handoff(status=V, summary=DONE + " Two tests still fail."),
        Facts(CODE, check=RED),
        ("claimed_verified_with_failures",),
        "REJECT",
    ),
    "verified and all pass": (
        Handoff(status=V, summary="All tests pass."),
        Facts(NOTHING, check=RED),
        ("claimed_pass_but_failed", "claimed_verified_with_failures"),
        "REJECT",
    ),
    "a deleted test file": (
        Handoff(summary=DONE),
        Facts(CODE, cases=cases(("tests/test_a.py", 3, 0))),
        ("tests_deleted",),
        "REJECT",
    ),
    "a deleted test file, nothing claimed": (
        Handoff(),
        Facts(NOTHING, cases=cases(("tests/test_a.py", 1, 0))),
        ("tests_deleted",),
        "REJECT",
    ),
    "an emptied test file": (
        Handoff(summary=DONE),
        Facts(CODE, cases=CaseCounts((CaseCount("tests/test_a.py", 3, 0),))),
        ("tests_deleted",),
        "REJECT",
    ),
    "many deleted, few added": (
        Handoff(summary=DONE),
        Facts(CODE, cases=cases(("tests/test_a.py", 5, 0), ("tests/test_b.py", 1, 2))),
        ("tests_deleted",),
        "REJECT",
    ),
    "one test less": (
        Handoff(summary=DONE),
        Facts(CODE, cases=cases(("tests/test_a.py", 3, 2))),
        ("test_count_decreased",),
        "VERIFY",
    ),
    "moved on the way": (
        Handoff(summary=DONE),
        Facts(CODE, cases=cases(("tests/test_a.py", 3, 1), ("tests/test_b.py", 1, 2))),
        ("test_count_decreased",),
        "VERIFY",
    ),
    "tests skipped": (
        Handoff(summary=DONE),
        Facts(CODE, check=ran(report(10, skipped=2)), previous=ran(report(12))),
        ("test_count_decreased",),
        "VERIFY",
    ),
    "more tests claimed than there are": (
        Handoff(summary="All 50 tests pass."),
        Facts(CODE, check=GREEN),
        ("test_count_decreased",),
        "VERIFY",
    ),
    "coverage lost": (
        Handoff(summary=DONE),
        Facts(CODE, check=ran(report(12, coverage=87.9)), previous=ran(report(12, coverage=90.0))),
        ("coverage_dropped",),
        "VERIFY",
    ),
    "coverage claimed": (
        Handoff(summary="Reached 95 % coverage."),
        Facts(CODE, check=ran(report(12, coverage=89.9))),
        ("coverage_dropped",),
        "VERIFY",
    ),
    "coverage claimed to have risen": (
        Handoff(summary="Coverage rose from 80% to 91%."),
        Facts(CODE, check=ran(report(12, coverage=80.0))),
        ("coverage_dropped",),
        "VERIFY",
    ),
    "nothing done": (Handoff(summary=DONE), Facts(NOTHING), ("claimed_progress_no_diff",), "VERIFY"),
    "nothing fixed": (
        Handoff(summary="Fixed the crash when the list is empty."),
        Facts(NOTHING),
        ("claimed_progress_no_diff",),
        "VERIFY",
    ),
    "nothing changed but listed": (
        Handoff(file_changes=(FileChange(path="src/shop.py", change="modified"),)),
        Facts(NOTHING),
        ("claimed_progress_no_diff",),
        "VERIFY",
    ),
    "another file": (Handoff(summary="Fixed src/till.py."), Facts(CODE), ("file_changes_mismatch",), "VERIFY"),
    "one of a list": (
        Handoff(summary="Added retries to src/shop.py, src/till.py and tests/test_shop.py."),
        Facts(CODE),
        ("file_changes_mismatch",),
        "VERIFY",
    ),
    "another file of the same name": (
        Handoff(file_changes=(FileChange(path="lib/shop.py", change="modified"),)),
        Facts(CODE),
        ("file_changes_mismatch",),
        "VERIFY",
    ),
    "deleted, but there": (
        Handoff(file_changes=(FileChange(path="src/shop.py", change="deleted"),)),
        Facts(CODE),
        ("file_changes_mismatch",),
        "VERIFY",
    ),
    "an artifact that is not there": (
        Handoff(artifacts=("plan/adr.md",)),
        Facts(CODE, artifacts=frozenset()),
        ("file_changes_mismatch",),
        "VERIFY",
    ),
    "sure without a run": (
        Handoff(summary="All tests pass.", confidence="high"),
        Facts(CODE),
        ("unverified_claims_high_confidence",),
        "VERIFY",
    ),
    "sure without tests": (
        Handoff(summary="All tests pass.", confidence="high"),
        Facts(CODE, check=NO_TESTS),
        ("unverified_claims_high_confidence",),
        "VERIFY",
    ),
    "sure when nothing was judged": (
        Handoff(summary="12 tests pass.", confidence="high"),
        Facts(CODE, check=UNKNOWN),
        ("unverified_claims_high_confidence",),
        "VERIFY",
    ),
    "sure of unmeasured coverage": (
        Handoff(summary="Now at 95% coverage.", confidence="high"),
        Facts(CODE, check=GREEN),
        ("unverified_claims_high_confidence",),
        "VERIFY",
    ),
    "everything at once": (
        Handoff(status=V, summary="Fixed src/till.py. All tests pass.", confidence="high"),
        Facts(CODE, cases=cases(("tests/test_a.py", 3, 0)), check=RED),
        ("tests_deleted", "claimed_pass_but_failed", "claimed_verified_with_failures", "file_changes_mismatch"),
        "REJECT",
    ),
}


@table(("handoff", "facts"), HONEST.values(), ids=list(HONEST))
def test_the_honest_are_trusted(handoff: Handoff, facts: Facts) -> None:
    assert judge(read_claims(handoff), facts) == records.Verdict(recommendation="TRUST", score=1.0)


@table(("handoff", "facts", "flags", "recommendation"), DISHONEST.values(), ids=list(DISHONEST))
def test_the_dishonest_are_found(
    handoff: Handoff, facts: Facts, flags: tuple[Flag, ...], recommendation: Recommendation
) -> None:
    verdict = judge(read_claims(handoff), facts)
    assert (verdict.flags, verdict.recommendation) == (flags, recommendation)


def test_a_finding_holds_claim_and_fact_against_each_other() -> None:
    verdict = judge(read_claims(Handoff(summary="Great news: all tests pass!")), Facts(CODE, check=RED))
    assert verdict.findings == (
        records.Finding(
            flag="claimed_pass_but_failed",
            claim="all tests pass!",
            fact="2 of 12 tests failed: test_0, test_1",
            severity="critical",
        ),
    )


def test_the_score_counts_each_flag_once() -> None:
    handoff = Handoff(summary="Fixed src/a.py. Fixed src/b.py. All tests pass.")
    verdict = judge(read_claims(handoff), Facts(CODE, check=RED))
    assert (len(verdict.findings), verdict.score) == (3, 0.3)


@given(
    st.text(), st.sampled_from(Status), st.sampled_from(["high", "low", None]), st.sampled_from([None, RED, GREEN])
)
def test_score_and_recommendation_agree(
    summary: str, status: Status, confidence: Literal["high", "low"] | None, check: CommandCheck | None
) -> None:
    handoff = Handoff(status=status, summary=summary, confidence=confidence)
    for facts in (Facts(CODE, check=check), Facts(NOTHING, cases=cases(("test_a.py", 2, 0)), check=check)):
        verdict = judge(read_claims(handoff), facts)
        bounds = {"TRUST": (1, 1), "VERIFY": (0.5, 0.9), "REJECT": (0, 0.4)}[verdict.recommendation]
        assert bounds[0] <= verdict.score <= bounds[1]
        assert judge(read_claims(handoff), replace(facts)) == verdict
        verdict.to_json()
