"""pytest's terminal output, verbose, plain or quiet. pytest's machine formats need a plugin or `--junitxml`.

Several sessions in one output (tox, nox, a makefile) are added up. xfailed counts as skipped, xpassed as
passed; an error counts as failed, so that a test with a broken teardown counts twice, as it does for pytest.
"""

from __future__ import annotations

import re
from collections import Counter

from gitswarm.evidence.formats.test_output import CountedCases, Failure, Plain, milliseconds, number
from gitswarm.records.evidence import CaseOutcome, CaseResult

_SUMMARY = re.compile(
    r"\n(?:=+ )?(no tests ran|[0-9]{1,9} (?:subtests )?[a-z]+(?:, [0-9]{1,9} (?:subtests )?[a-z]+){0,12})"
    r" in ([0-9]{1,9}(?:\.[0-9]{1,6})?)s(?: \([0-9:, a-z]{1,40}\))?(?: =+)?(?=\n)"
)
_ITEM = re.compile(r"([0-9]{1,9}) ([a-z]+)")
_KINDS = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
    "deselected": "not run",
    "warning": "no test",
    "warnings": "no test",
}
_SESSION = re.compile(r"\n=+ test session starts =+(?=\n)")
_SHORT = re.compile(r"\n=+ short test summary info =+(?=\n)")
_FAILED = re.compile(r"\n(?:FAILED|ERROR) ([^ \n][^\n]{0,2000})")
_TITLE = re.compile(
    r"\n_{3,} (?:ERROR (?:collecting|at setup of|at teardown of) )?([^_ \n][^\n]{0,500}?) _{3,}(?=\n)"
)
_DIED = re.compile(r"(?:\nINTERNALERROR> (?=\w{0,60}(?:Error|Exception)\b)|Fatal Python error: )[^\n]{0,200}")
_BROKEN_OFF = re.compile(r"\n!{2,} [^\n]{1,300} !{2,}(?=\n)")
_RESULTS: dict[str, CaseOutcome] = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
_VERBOSE = re.compile(
    r"\n(?:(?P<name>[^\s:][^\n]{0,2000}?::[^\n]{1,2000}?) (?P<result>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
    r"(?: \([^\n]{0,500}\))? *(?:\[ *[0-9]{1,3}%\]| *)"
    r"|\[gw[0-9]{1,4}\] (?:\[ *[0-9]{1,3}%\] )?(?P<result_of>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
    r" (?P<named>[^\s:][^\n]{0,2000}?) *)(?=\n)"
)
_SHORT_LINE = re.compile(
    r"\n(?:SUB(?=FAILED[\[(]))?(PASSED|FAILED|ERROR|XFAIL|XPASS)(?:\[[^\n]{0,200}?\]|\([^\n]{0,200}?\))?"
    r" ([^ \n][^\n]{0,2000})"
)
_SEPARATORS = 20  # " - " may stand inside a parameter; nobody writes this many


def read(plain: Plain) -> CountedCases | None:
    text = plain.text
    summaries = [match for match in _SUMMARY.finditer(text) if _counted(match[1]) is not None]
    last_session = max((match.start() for match in _SESSION.finditer(text)), default=-1)
    if not summaries and last_session < 0:
        return None
    sessions, begin = [], 0
    for summary in summaries:
        sessions.append(_finished(text[begin : summary.start() + 1], summary))
        begin = summary.end()
    if last_session >= begin:
        sessions.append(_unfinished(text[last_session:]))
        begin = len(text)
    return CountedCases("pytest", runs=len(sessions), ends_at=begin).plus(sessions)


def _finished(session: str, summary: re.Match[str]) -> CountedCases:
    counted = _counted(summary[1]) or Counter()
    failures = _failures(session) if counted["failed"] else ()
    died = _DIED.search(session)
    if died and not counted["failed"]:
        failures = (Failure("pytest", died[0].strip()),)
    return CountedCases(
        "pytest",
        passed=counted["passed"],
        failed=counted["failed"],
        skipped=counted["skipped"],
        failures=failures[: counted["failed"] or 1],
        cases=_cases(session),
        duration_ms=milliseconds(summary[2]),
        partial=bool(died or _BROKEN_OFF.search(session)),
    )


def _unfinished(session: str) -> CountedCases:
    died = _DIED.search(session)
    failure = Failure("pytest", died[0].strip() if died else "the test run did not finish")
    return CountedCases("pytest", failed=1, failures=(failure,), cases=_cases(session), partial=True)


def _cases(session: str) -> tuple[CaseResult, ...]:
    """The lines of `-v`, and from the short summary what they do not tell: files that could not be collected, failed
    subtests. Without `-v` the summary names all tests only with `-rA`."""
    short = _SHORT.search(session)
    results = [
        (match["name"] or match["named"], match["result"] or match["result_of"])
        for match in _VERBOSE.finditer(session, 0, short.start() + 1 if short else len(session))
    ]
    if short is not None:
        known = set(results)
        summed = ((_named(match[2]).name, match[1]) for match in _SHORT_LINE.finditer(session, short.end() - 1))
        results += [pair for pair in summed if pair not in known]
    return tuple(CaseResult(name, _RESULTS[result], name.partition("::")[0]) for name, result in results)


def _counted(summary: str) -> Counter[str] | None:
    """None if a word of the summary is none of pytest's."""
    items = [item for part in summary.split(", ") if "subtests" not in part for item in _ITEM.findall(part)]
    if any(word not in _KINDS for _, word in items):
        return None
    counted: Counter[str] = Counter()
    for digits, word in items:
        counted[_KINDS[word]] += number(digits)
    return counted


def _failures(session: str) -> tuple[Failure, ...]:
    """From the short summary; without one, from the titles of the tracebacks."""
    short = _SHORT.search(session)
    if short is None:
        return tuple(Failure(match[1]) for match in _TITLE.finditer(session))
    return tuple(_named(match[1]) for match in _FAILED.finditer(session, short.end()))


def _named(line: str) -> Failure:
    """`path::test[a - b] - message`: the first separator outside of brackets."""
    parts = line.split(" - ", _SEPARATORS)
    for end in range(1, len(parts)):
        name = " - ".join(parts[:end])
        if name.count("[") == name.count("]"):
            return Failure(name, " - ".join(parts[end:]))
    return Failure(line)
