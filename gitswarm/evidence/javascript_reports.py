"""Reports of jest, vitest and node: terminal output of the first two, and the JSON file that both write in nearly one
form; the Test Anything Protocol 12 to 14, as node, vitest, Perl and bats write it. No library reads the first; of
those for TAP on PyPI tap.py 3.2 (the one that is maintained) does not see subtests, cuts names at an escaped `#`,
prints to our output and raises at an old version line.

jest, vitest: a file that could not be loaded counts as one failed test. Skipped, pending and todo count as skipped.

TAP: leaves are counted: a test with subtests stands for them, unless it failed while they passed. SKIP and TODO count
as skipped. A planned test that did not run is a failure, and so is `Bail out!`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from msgspec import Struct, field

from gitswarm.evidence.test_output import (
    SCRIPTS,
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
_VITEST_FAILURE = re.compile(r"\n FAIL  ([^\n]{1,1000})(?:\n(?! FAIL  )([^\n]{0,500}))?")
_VITEST_SUITES = re.compile(r"\n⎯{1,200} Failed Suites ([0-9]{1,9}) ⎯")
_VITEST_ERRORS = re.compile(r"\n {2,20}Errors  ([0-9]{1,9}) error")


class _Tool(Struct, frozen=True):
    """What the text of a run ends with: the line of its `tests`, of `none` where there were none, of its `time`."""

    source: ReportSource
    tests: re.Pattern[str]
    none: re.Pattern[str]
    time: re.Pattern[str]

    def summary(self, text: str) -> re.Match[str] | None:
        """The summary; of several runs in one output the last counts."""
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


def read_jest(plain: Plain) -> CountedCases | None:
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
    named = {match[1].strip(): match[2] or "" for match in _VITEST_FAILURE.finditer(text)}
    failures = tuple(Failure(_file(name), why) for name, why in named.items())
    return _counted(_VITEST, text, summary, failures, unnamed)


def read_jest_json(plain: Plain) -> CountedCases | None:
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
    found = [(test, outcome) for test in tests if (outcome := _jest_outcome(test)) is not None]
    cases = [CaseResult(" > ".join((path, *_titles(test))), outcome, path) for test, outcome in found]
    failed = (test for test, outcome in found if outcome == "failed")
    failures = [Failure(str(test.get("fullName", "")), _first_message(test)) for test in failed]
    if suite.get("status") == "failed" and not failures:
        failures.append(Failure(path, str(suite.get("message", ""))[:300]))
        cases.append(CaseResult(path, "error", path))
    counted = CountedCases.named(
        source, cases, failures, passed=sum(outcome in {"passed", "xfailed"} for _, outcome in found)
    )
    return replace(counted, duration_ms=_duration(suite.get("startTime"), suite.get("endTime")))


def _titles(test: Mapping[str, object]) -> tuple[str, ...]:
    above = test.get("ancestorTitles")
    titles = above if isinstance(above, list) else []
    return (*(str(title) for title in titles[:_TITLES]), str(test.get("title", test.get("fullName", ""))))


def _jest_outcome(test: Mapping[str, object]) -> CaseOutcome | None:
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


_LINE = re.compile(
    r"\n(?P<indent> *)(?:(?P<failed>not )?ok\b(?: +(?P<id>[0-9]{1,9}))?(?: +-)?(?P<name>[^\n]{0,1000})"
    r"|1\.\.(?P<plan>[0-9]{1,9})(?= *(?:#|\n))"
    r"|(?P<bail>Bail out!)(?P<why>[^\n]{0,200}))"
)
_VERSION = re.compile(r"\nTAP version [0-9]{1,3}(?=\n)")
_DIRECTIVE = re.compile(r"(?<!\\)# *(skip|todo)", re.IGNORECASE)
_COMMENT = re.compile(r" *(?<!\\)# (?:time=|SKIP|TODO|skip|todo)")
_ERROR = re.compile(r"\n {0,40}(?:error|message): *(?:\|-?\n)?([^\n]{1,300})")
_COMMENTED = re.compile(r"(?:\n *# [^\n]{0,300}){1,4}")
_DURATION = re.compile(r"\n# duration_ms ([0-9]{1,12}(?:\.[0-9]{1,9})?)")


class _Count(Struct):
    """What is counted so far. `pending`: results whose parent has not come yet, by indentation, whether one failed
    there, and the cases: a parent that comes last gives its name to them.

    `braces`: parents come first, as vitest writes them, and end with one; `around` are those that are open.
    """

    pending: list[tuple[int, bool, list[CaseResult]]] = field(default_factory=list)
    around: list[tuple[int, str]] = field(default_factory=list)
    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    top: int = 0
    plan: int | None = None
    bailed: bool = False
    braces: bool = False


def read_tap(plain: Plain) -> CountedCases | None:
    text, counting, ends_at = plain.text, _Count(), 0
    for match in _LINE.finditer(text):
        ends_at = match.end()
        if match["plan"] is not None:
            counting.plan = number(match["plan"]) if not match["indent"] else counting.plan
        elif match["bail"]:
            counting.bailed = True
            counting.failures.append(Failure("Bail out!", match["why"].strip()))
        else:
            _result(counting, match, text)
    if not _VERSION.search(text) and (counting.plan is None or not (counting.top or counting.plan == 0)):
        return None
    _missing(counting, cut=plain.cut)
    duration = _DURATION.search(text)
    return CountedCases(
        "tap",
        passed=counting.passed,
        failed=len(counting.failures),
        skipped=counting.skipped,
        failures=tuple(counting.failures),
        cases=tuple(case for _depth, _failed, cases in counting.pending for case in cases),
        duration_ms=milliseconds(duration[1], "ms") if duration else None,
        partial=plain.cut or counting.plan is None,
        runs=max(1, len(_VERSION.findall(text))),
        ends_at=ends_at,
    )


def _result(counting: _Count, match: re.Match[str], text: str) -> None:
    depth, name, title = len(match["indent"]), match["name"], _title(match)
    opens = name.rstrip().endswith("{")
    counting.braces = counting.braces or opens
    below: list[tuple[int, bool, list[CaseResult]]] = []
    while counting.pending and counting.pending[-1][0] > depth and not counting.braces:
        below.append(counting.pending.pop())
    below.reverse()
    directive = _DIRECTIVE.search(name)
    failed, failed_below = bool(match["failed"]) and not directive, any(each[1] for each in below)
    cases = [case._replace(name=f"{title} > {case.name}") for _depth, _failed, inner in below for case in inner]
    counting.pending.append((depth, failed or failed_below, cases))
    counting.top += depth == 0
    if opens:
        counting.around = [*(each for each in counting.around if each[0] < depth), (depth, title)]
        return
    if below and (failed_below or not failed):
        return
    if failed:
        counting.failures.append(Failure(title, _message(text, match.end())))
    elif directive:
        counting.skipped += 1
    else:
        counting.passed += 1
    outcome = _outcome(directive, failed=bool(match["failed"]), braces=counting.braces)
    if title.startswith("/") and title.endswith(SCRIPTS):  # a whole file, as node calls one that it could not load
        cases.append(CaseResult(title, "error" if outcome == "failed" else outcome, title))
    else:
        above = (around for at, around in counting.around if at < depth)
        cases.append(CaseResult(" > ".join((*above, title)), outcome))


def _outcome(directive: re.Match[str] | None, *, failed: bool, braces: bool) -> CaseOutcome:
    """What is TODO was run and may fail; vitest, whose tests stand in braces, does not run it."""
    if directive is None:
        return "failed" if failed else "passed"
    if braces or directive[1].lower() == "skip":
        return "skipped"
    return "xfailed" if failed else "xpassed"


def _title(match: re.Match[str]) -> str:
    title = _COMMENT.split(match["name"].rstrip().removesuffix("{"), maxsplit=1)[0].strip().replace("\\#", "#")
    return title or f"test {match['id'] or '?'}"


def _message(text: str, begin: int) -> str:
    """What stands below a failed test: the error of a YAML block, or comments."""
    below = text[begin : begin + 1_000]
    following = _LINE.search(below)
    below = below[: following.start()] if following else below
    found = _ERROR.search(below) or _COMMENTED.match(below)
    return found[0].strip() if found else ""


def _missing(counting: _Count, *, cut: bool) -> None:
    if counting.plan is None or counting.bailed or cut or counting.top >= counting.plan:
        return
    counting.failures.append(Failure("plan", f"{counting.plan} planned, {counting.top} run"))
