"""`go test`: text, verbose or not, and the events of `-json`. No maintained Python library reads them.

Leaves are counted: a test with subtests stands for them, unless it failed while they passed. Without `-v` go
does not say which tests passed: every package that is ok counts as one, and the report is partial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import Struct, field

from gitswarm.evidence.formats.test_output import CountedCases, Failure, Plain, milliseconds, objects, total_coverage
from gitswarm.records.evidence import CaseOutcome, CaseResult

_LINE = re.compile(
    r"\n(?: *--- (?P<result>PASS|FAIL|SKIP): (?P<test>[^ \n]{1,500}) \([0-9.]{1,20}s\)"
    r"(?P<output>(?:\n[ \t]+[^- \t\n][^\n]{0,500}|\npanic: [^\n]{0,500}){0,3})"
    r"|(?P<status>ok  |FAIL|\?   )\t(?P<package>[^\s\[]{1,500})(?:\s+(?P<time>[0-9]{1,9}(?:\.[0-9]{1,6})?)s)?"
    r"(?P<note>[^\n]{0,200}))"
)
_VERBOSE_OUTPUT = re.compile(r"\n=== RUN   ([^ \n]{1,500})((?:\n {4}[^- \n][^\n]{0,500}){1,3})")
_PANIC = re.compile(r"\npanic: ([^\n]{1,300})")
_BUILD_ERROR = re.compile(r"\n[^\s:]{1,300}\.go:[0-9]{1,9}:[0-9]{1,9}: ([^\n]{1,300})")
_NO_TESTS = ("[no test files]", "[no tests to run]")
_ACTIONS = {"pass": "PASS", "fail": "FAIL", "skip": "SKIP"}
_OUTCOMES: dict[str, CaseOutcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
_OUTPUT_CHARS = 500


class _Package(Struct):
    """Test → PASS, FAIL or SKIP, and what tests printed."""

    results: dict[str, str] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)

    def counted(self, name: str, *, failed: bool, why: str) -> CountedCases:
        broken = {test for test, result in self.results.items() if result == "FAIL"}
        above_all, above_broken = _parents(self.results), _parents(broken)
        counted = [test for test in self.results if test not in above_all or test in broken - above_broken]
        failures = [Failure(f"{name}.{test}", self.output.get(test, "")) for test in counted if test in broken]
        cases = [CaseResult(f"{name}.{test}", _OUTCOMES[self.results[test]]) for test in counted]
        if failed and not failures:
            failures.append(Failure(name, why))
            cases.append(CaseResult(name, "error"))
        return CountedCases(
            "go",
            passed=sum(self.results[test] == "PASS" for test in counted),
            failed=len(failures),
            skipped=sum(self.results[test] == "SKIP" for test in counted),
            failures=tuple(failures),
            cases=tuple(cases),
        )


def read(plain: Plain) -> CountedCases | None:
    text = plain.text
    reasons = _Reasons.of(text)
    verbose = {match[1]: match[2].strip() for match in _VERBOSE_OUTPUT.finditer(text)}
    package, ends_at, ended = _Package(output=verbose), 0, []
    for match in _LINE.finditer(text):
        if match["result"]:
            package.results[match["test"]] = match["result"]
            package.output[match["test"]] = match["output"].strip() or package.output.get(match["test"], "")
            continue
        ended.append(_ended(match, package, reasons))
        package, ends_at = _Package(output=package.output), match.end()
    return CountedCases("go", partial=plain.cut, ends_at=ends_at).plus(ended) if ends_at else None


def read_json(plain: Plain) -> CountedCases | None:
    """The events of `go test -json`; lines of go itself between them, such as a failed build, count too."""
    packages: dict[str, _Package] = {}
    ended, ends_at = [], 0
    for event, end in objects(plain.whole, '"Action"'):
        name = str(event.get("Package", event.get("ImportPath", "")))[:_OUTPUT_CHARS]
        package, ends_at = packages.setdefault(name, _Package()), end
        if event.get("Test"):
            _note(package, event)
        elif event.get("Action") in {"pass", "fail"}:
            failed = event["Action"] == "fail"
            counted = package.counted(name, failed=failed, why=package.output.get("", ""))
            ended.append(replace(counted, duration_ms=milliseconds(event.get("Elapsed"))))
            packages[name] = _Package()
        elif event.get("Action") in {"output", "build-output"}:
            _note(package, event)
    if not ends_at:
        return None
    for name, package in packages.items():
        if package.results:
            ended.append(replace(package.counted(name, failed=True, why="the test run did not finish"), partial=True))
    counted = CountedCases(
        "go", partial=plain.whole_cut, coverage_percent=total_coverage(plain.text), ends_at=ends_at
    )
    return counted.plus([*ended, _not_built(plain.text)])


def _parents(tests: Mapping[str, str] | set[str]) -> set[str]:
    return {test[: test.rfind("/")] for test in tests if "/" in test} | {
        test[: test.find("/")] for test in tests if "/" in test
    }


class _Reasons(Struct, frozen=True):
    """What the whole output says about why packages failed without a failed test."""

    panic: str
    build: str
    verbose: bool

    @classmethod
    def of(cls, text: str) -> _Reasons:
        panic, build = _PANIC.search(text), _BUILD_ERROR.search(text)
        return cls(panic[1] if panic else "", build[1] if build else "", verbose="\n=== RUN   " in text)

    def why(self, note: str) -> str:
        return (self.build if "failed]" in note else self.panic) or note.strip()


def _ended(match: re.Match[str], package: _Package, reasons: _Reasons) -> CountedCases:
    """What the line that ends a package says, with the results of its tests before it."""
    failed = match["status"] == "FAIL"
    counted = package.counted(match["package"], failed=failed, why=reasons.why(match["note"]))
    counted = replace(counted, duration_ms=milliseconds(match["time"]))
    silent = (
        match["status"] == "ok  " and not package.results and not any(note in match["note"] for note in _NO_TESTS)
    )
    if silent:
        return replace(counted, passed=1, partial=True)
    return replace(counted, partial=failed and not reasons.verbose)


def _not_built(text: str) -> CountedCases:
    reasons = _Reasons.of(text)
    lines = (match for match in _LINE.finditer(text) if match["status"] == "FAIL" and "failed]" in match["note"])
    failures = tuple(Failure(match["package"], reasons.why(match["note"])) for match in lines)
    cases = tuple(CaseResult(failure.name, "error") for failure in failures)
    return CountedCases("go", failed=len(failures), failures=failures, cases=cases)


def _note(package: _Package, event: Mapping[str, object]) -> None:
    test = str(event.get("Test", ""))[:_OUTPUT_CHARS]
    action = event.get("Action")
    if isinstance(action, str) and action in _ACTIONS:
        package.results[test] = _ACTIONS[action]
    elif isinstance(output := event.get("Output"), str):
        line, before = output.strip(), package.output.get(test, "")
        is_of_go = line.startswith(("=== ", "--- ", "FAIL", "ok", "PASS", "?", "#"))
        if line and not is_of_go and len(before) < _OUTPUT_CHARS:
            package.output[test] = f"{before}\n{line}"[:_OUTPUT_CHARS]
