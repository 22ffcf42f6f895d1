"""Test runs of made-up projects, as few words as they need."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.evidence.suite_run import SuiteRun
from gitswarm.evidence.test_report import read_report
from gitswarm.records.evidence import CaseOutcome, CaseResult, CaseResults, ReportSource, TestReport

OUTCOMES: dict[str, CaseOutcome] = {
    ".": "passed",
    "F": "failed",
    "E": "error",
    "s": "skipped",
    "x": "xfailed",
    "X": "xpassed",
}


def results(tests: Mapping[str, str], *, source: ReportSource = "junit", complete: bool = True) -> CaseResults:
    """:param tests: name → `.`, F, E, s, x or X; the file is what stands before `::` or ` > `."""
    return CaseResults.of(
        source, [CaseResult(name, OUTCOMES[letter], _file(name)) for name, letter in tests.items()], complete=complete
    )


def ran(
    tests: Mapping[str, str] | None = None,
    *,
    failed: bool | None = None,
    source: ReportSource = "junit",
    complete: bool = True,
    output: str = "",
    executed: int | None = None,
) -> SuiteRun:
    """A run with these tests; without any, one whose output nobody can read.

    :param executed: of a report that counts them, but names none.
    """
    if tests is None:
        counted = (
            None
            if executed is None
            else TestReport(source=source, total=executed, passed=executed, failed=0, skipped=0)
        )
        return SuiteRun(failed is True, counted, None if counted is None else results({}, complete=False), output)
    found = results(tests, source=source, complete=complete)
    red = sum(case.is_red for case in found.cases)
    green = sum(case.is_green for case in found.cases)
    report = TestReport(
        source=source, total=len(found.cases), passed=green, failed=red, skipped=len(found.cases) - red - green
    )
    return SuiteRun(red > 0 if failed is None else failed, report, found, output)


def _file(name: str) -> str | None:
    for separator in ("::", " > "):
        head = name.partition(separator)[0]
        if separator in name and "." in head and " " not in head:
            return head
    return name if name.endswith((".py", ".js")) else None


def read_output(text: str) -> TestReport | None:
    return read_report(text, {})


def read_file(content: bytes) -> TestReport | None:
    return read_report("", {"report": content})
