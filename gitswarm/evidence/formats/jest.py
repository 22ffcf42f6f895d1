"""Terminal output of jest and vitest, and the JSON file that both write in nearly one form. No library reads them.

A file that could not be loaded counts as one failed test. Skipped, pending and todo count as skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gitswarm.evidence.formats.test_output import (
    CountedCases,
    Failure,
    Plain,
    document,
    milliseconds,
    number,
    objects,
)
from gitswarm.records.evidence import CaseOutcome, CaseResult, ReportSource

_TITLES = 50
_KINDS = {"passed": "passed", "failed": "failed", "skipped": "skipped", "todo": "skipped", "pending": "skipped"}
_ITEM = re.compile(r"([0-9]{1,9}) (passed|failed|skipped|todo|pending)\b")

_JEST_FAILURE = re.compile(r"\n(?:FAIL ([^\n]{1,500})|  ● ([^\n]{1,1000})\n\n?([^\n]{0,500}\n[^\n]{0,500}))")
_UNLOADED = "Test suite failed to run"
_VITEST_FAILURE = re.compile(r"\n FAIL  ([^\n]{1,1000})\n([^\n]{0,500})")
_VITEST_SUITES = re.compile(r"\n⎯{1,200} Failed Suites ([0-9]{1,9}) ⎯")
_VITEST_ERRORS = re.compile(r"\n {2,20}Errors  ([0-9]{1,9}) error")


class _Tool(Struct, frozen=True):
    """What the text of a run ends with: the line of its `tests`, of `none` where there were none, of its `time`."""

    source: ReportSource
    tests: re.Pattern[str]
    none: re.Pattern[str]
    time: re.Pattern[str]

    def summary(self, text: str) -> re.Match[str] | None:
        """Of several runs in one output the last counts."""
        found = list(self.tests.finditer(text))
        return found[-1] if found else self.none.search(text)


_JEST = _Tool(
    "jest",
    tests=re.compile(r"\nTests: {1,20}([^\n]{0,200}?)[0-9]{1,9} total(?=\n)"),
    none=re.compile(r"\nNo tests found, exiting with code [0-9]"),
    time=re.compile(r"\nTime: {1,20}([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m)\b"),
)
_VITEST = _Tool(
    "vitest",
    tests=re.compile(r"\n {2,20}Tests  ([^\n]{1,200})"),
    none=re.compile(r"\nNo test files found, exiting with code [0-9]"),
    time=re.compile(r"\n {2,20}Duration  ([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m)\b"),
)


def read(plain: Plain) -> CountedCases | None:
    """Text of jest."""
    summary = _JEST.summary(plain.text)
    return _counted(_JEST, plain.text, summary, *_jest_failures(plain.text)) if summary else None


def read_vitest(plain: Plain) -> CountedCases | None:
    """Text of vitest."""
    text = plain.text
    summary = _VITEST.summary(text)
    if summary is None:
        return None
    unnamed = sum(number(found[1]) for found in (_VITEST_SUITES.search(text), _VITEST_ERRORS.search(text)) if found)
    named = {match[1].strip(): match[2] for match in _VITEST_FAILURE.finditer(text)}
    failures = tuple(Failure(_file(name), why) for name, why in named.items())
    return _counted(_VITEST, text, summary, failures, unnamed)


def read_json(plain: Plain) -> CountedCases | None:
    """The JSON report of jest (`--json`) or vitest (`--reporter=json`), alone or as one line of an output."""
    if '"numTotalTests"' not in plain.whole:
        return None
    found, ends_at = document(plain.whole), len(plain.whole)
    if found is None or "numTotalTests" not in found:
        lines = [line for line in objects(plain.whole, '"numTotalTests"') if "testResults" in line[0]]
        found, ends_at = lines[-1] if lines else ({}, 0)
    if not found:
        return None
    source: ReportSource = "jest" if "numRuntimeErrorTestSuites" in found else "vitest"
    return CountedCases(source, ends_at=ends_at).plus(
        _suite(source, suite) for suite in _mappings(found.get("testResults"))
    )


def _counted(
    tool: _Tool, text: str, summary: re.Match[str], failures: tuple[Failure, ...], more_failed: int
) -> CountedCases:
    """
    :param more_failed: what the summary does not count as failed tests.
    """
    counted: Counter[str] = Counter()
    for digits, word in _ITEM.findall(summary[0]):
        counted[_KINDS[word]] += number(digits)
    failed = counted["failed"] + more_failed
    took = tool.time.search(text, summary.end())
    return CountedCases(
        tool.source,
        passed=counted["passed"],
        failed=failed,
        skipped=counted["skipped"],
        failures=failures[:failed],
        duration_ms=milliseconds(took[1], took[2]) if took else None,
        ends_at=summary.end(),
    )


def _jest_failures(text: str) -> tuple[tuple[Failure, ...], int]:
    """What failed, and how many of them are files that could not be loaded. jest repeats failures of long runs."""
    failures: dict[str, Failure] = {}
    file, unloaded = "", set()
    for match in _JEST_FAILURE.finditer(text):
        if match[1]:
            file = match[1].split(" (", 1)[0].strip()
            continue
        name = match[2].strip()
        if name == _UNLOADED:
            name = file
            unloaded.add(file)
        failures.setdefault(name, Failure(name, match[3].strip()))
    return tuple(failures.values()), len(unloaded)


def _file(name: str) -> str:
    """`shop.test.js [ shop.test.js ]`, as vitest calls a file that it could not load, is that file."""
    return name.split(" [ ", 1)[0] if name.endswith(" ]") else name


def _suite(source: ReportSource, suite: Mapping[str, object]) -> CountedCases:
    path, tests = str(suite.get("name", "")), list(_mappings(suite.get("assertionResults")))
    found = [(test, outcome) for test in tests if (outcome := _outcome(test)) is not None]
    cases = [CaseResult(" > ".join((path, *_titles(test))), outcome, path) for test, outcome in found]
    failed = (test for test, outcome in found if outcome == "failed")
    failures = [Failure(str(test.get("fullName", "")), _first_message(test)) for test in failed]
    if suite.get("status") == "failed" and not failures:
        failures.append(Failure(path, str(suite.get("message", ""))[:300]))
        cases.append(CaseResult(path, "error", path))
    return CountedCases(
        source,
        passed=sum(outcome in {"passed", "xfailed"} for _, outcome in found),
        failed=len(failures),
        skipped=sum(outcome == "skipped" for _, outcome in found),
        failures=tuple(failures),
        cases=tuple(cases),
        duration_ms=_duration(suite.get("startTime"), suite.get("endTime")),
    )


def _titles(test: Mapping[str, object]) -> tuple[str, ...]:
    above = test.get("ancestorTitles")
    titles = above if isinstance(above, list) else []
    return (*(str(title) for title in titles[:_TITLES]), str(test.get("title", test.get("fullName", ""))))


def _outcome(test: Mapping[str, object]) -> CaseOutcome | None:
    """`failing`: jest says `passed` of a test that failed as `test.failing` wants it."""
    kind = _KINDS.get(str(test.get("status")))
    if kind == "passed":
        return "xfailed" if test.get("failing") is True else "passed"
    return "failed" if kind == "failed" else "skipped" if kind == "skipped" else None


def _duration(begin: object, end: object) -> int | None:
    if not (isinstance(begin, (int, float)) and isinstance(end, (int, float))):
        return None
    try:
        return milliseconds(float(str(end)) - float(str(begin)), "ms")
    except ValueError:
        return None


def _first_message(test: Mapping[str, object]) -> str:
    messages = test.get("failureMessages")
    first = messages[0] if isinstance(messages, list) and messages else ""
    return "\n".join(line for line in str(first)[:1_000].splitlines() if not line.lstrip().startswith("at "))


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()
