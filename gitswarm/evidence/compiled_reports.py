"""Reports of `cargo test` and `go test`, as text and as JSON lines, and of cargo-nextest. No maintained Python
library reads them.

`cargo test`: libtest's text, and its JSON lines, which nextest writes too (`--message-format libtest-json`). The doc
tests and test binaries of a workspace are added up.

`go test`: text, verbose or not, and the events of `-json`. Leaves are counted: a test with subtests stands for them,
unless it failed while they passed. Without `-v` go does not say which tests passed: every package that is ok counts
as one, and the report is partial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from msgspec import Struct, field

from gitswarm.evidence.test_output import (
    CountedCases,
    Failure,
    Plain,
    count,
    milliseconds,
    number,
    objects,
    total_coverage,
)
from gitswarm.records.evidence import CaseOutcome, CaseResult, ReportSource

_RESULT = re.compile(
    r"\ntest result: (?:ok|FAILED)\. ([0-9]{1,9}) passed; ([0-9]{1,9}) failed; ([0-9]{1,9}) ignored;"
    r"[^\n]{0,200}?(?:finished in ([0-9]{1,9}(?:\.[0-9]{1,6})?)s)?(?=\n)"
)
_RUNNING = re.compile(r"\nrunning [0-9]{1,9} tests?(?=\n)")
_NAMES = re.compile(r"\nfailures:\n((?:    [^ \n][^\n]{0,1000}\n){1,1000})")
_STDOUT = re.compile(r"\n---- ([^\n]{1,1000}?) stdout ----\n((?:[^\n]{0,1000}\n(?!---- |failures:)){1,6})")
_NOT_COMPILED = re.compile(r"\nerror: could not compile `([^`\n]{1,200})`([^\n]{0,200})")
_COMPILER_ERROR = re.compile(r"\nerror(?:\[E[0-9]{4}\])?: (?!could not compile|aborting)[^\n]{1,300}")
_DIED = re.compile(
    r"\n  process didn't exit successfully: [^\n]{0,1000}?\((signal: [^\n]{1,100}|exit [^\n]{1,100})\)(?=\n)"
)
_THREAD = re.compile(r"^(?:thread '|stack backtrace:|note: run with)")

_TEST = re.compile(
    r"\n(?: *Running (?:unittests (?P<unit>[^\s(]{1,500})|(?P<file>[^\s(]{1,500})) \((?P<binary>[^)\n]{1,1000})\)"
    r"| *Doc-tests (?P<crate>[^\n]{1,200})"
    r"|test (?P<test>[^\n]{1,1000}?)(?: - should panic)? \.\.\. (?P<result>ok|FAILED|ignored)(?:, [^\n]{0,500})?)"
    r"(?=\n)"
)
_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_LINE_OF = re.compile(r" \(line [0-9]+\)| - compile(?: fail)?$")
_CARGO_OUTCOMES: dict[str, CaseOutcome] = {
    "ok": "passed",
    "FAILED": "failed",
    "ignored": "skipped",
    "failed": "failed",
    "timeout": "failed",
}

_NEXTEST_SUMMARY = re.compile(
    r"\n *Summary \[ *([0-9]{1,9}(?:\.[0-9]{1,6})?)s\] ([0-9]{1,9})(?:/([0-9]{1,9}))? tests? run: ([^\n]{1,300})"
)
_NEXTEST_COUNT = re.compile(r"(?:^|, )([0-9]{1,9}) ([a-z]+(?: [a-z]+){0,2})")
_NEXTEST_LINE = re.compile(
    r"\n *(?:TRY [0-9]{1,4} )?"
    r"(?P<status>PASS|SKIP|LEAK|FLAKY|FAIL|TIMEOUT|ABORT|XFAIL|SIG[A-Z0-9]{1,10}|[A-Z]+-(?P<ended>FAIL))"
    r"(?: [0-9]{1,4}/[0-9]{1,4})?(?: \+ LEAK)? \[ *[>0-9.s]{0,20}\]"
    r" (?:\( *[0-9]{1,9}/[0-9]{1,9}\) )?(?P<name>[^\n]{1,1000})"
)
_BRACKETS = re.compile(r" \([^()]{0,100}\)")
_NEXTEST_OUTCOMES: dict[str, CaseOutcome] = {
    **dict.fromkeys(("PASS", "LEAK", "FLAKY"), "passed"),
    "SKIP": "skipped",
}


def read_cargo(plain: Plain) -> CountedCases | None:
    text = plain.text
    results = list(_RESULT.finditer(text))
    running = [match.start() for match in _RUNNING.finditer(text)]
    broken = list(_NOT_COMPILED.finditer(text))
    if not results and not broken and not (running and _DIED.search(text)):
        return None
    parts = [
        CountedCases("cargo", number(passed), number(failed), number(skipped), duration_ms=milliseconds(took))
        for passed, failed, skipped, took in (match.groups() for match in results)
    ]
    if len(running) > len(results) and not plain.cut:
        parts.append(_died(text))
    parts.append(_not_compiled(text, broken))
    ends_at = max(match.end() for match in (*results, *broken)) if results or broken else len(text)
    counted = CountedCases("cargo", failures=_failures(text), cases=_cases(text), partial=plain.cut, ends_at=ends_at)
    return counted.plus(parts)


def read_cargo_json(plain: Plain) -> CountedCases | None:
    """The events of libtest, one JSON object a line."""
    source: ReportSource = "cargo"
    suites: list[CountedCases] = []
    failures: list[Failure] = []
    cases: list[CaseResult] = []
    started, ends_at = 0, 0
    for event, end in objects(plain.whole, '"event"'):
        if event.get("type") == "test" and (outcome := _CARGO_OUTCOMES.get(str(event.get("event")))):
            name, output = str(event.get("name", "")), str(event.get("message") or event.get("stdout") or "")
            cases.append(CaseResult(_LINE_OF.sub("", name.replace("$", " ", 1)), outcome))
            if outcome == "failed":
                failures.append(Failure(name, _message("\n".join(output[:2_000].splitlines()[:6]))))
        if event.get("type") != "suite":
            continue
        source, ends_at = "nextest" if "nextest" in event else source, end
        if event.get("event") == "started":
            started += 1
            continue
        passed, failed, skipped = (count(event.get(name)) for name in ("passed", "failed", "ignored"))
        took = milliseconds(event.get("exec_time"))
        suites.append(CountedCases("cargo", passed, failed, skipped, duration_ms=took))
    if not ends_at:
        return None
    if started > len(suites):
        suites.append(CountedCases(source, failed=1, partial=True))
        failures.append(Failure(source, "the test run did not finish"))
    return CountedCases(
        source, failures=tuple(failures), cases=tuple(cases), partial=plain.whole_cut, ends_at=ends_at
    ).plus(suites)


def read_nextest(plain: Plain) -> CountedCases | None:
    summaries = list(_NEXTEST_SUMMARY.finditer(plain.text))
    if not summaries:
        return None
    last = summaries[-1]
    counted = {word: number(digits) for digits, word in _NEXTEST_COUNT.findall(_BRACKETS.sub("", last[4]))}
    run, planned, passed = number(last[2]), number(last[3]), counted.get("passed", 0)
    cases: dict[str, CaseOutcome] = {}  # `shop::tests sums::right`: the binary and the test; the last try counts
    failures: dict[Failure, None] = {}
    for match in _NEXTEST_LINE.finditer(plain.text):
        name, status = match["name"].strip(), match["ended"] or match["status"]
        cases[name] = _NEXTEST_OUTCOMES.get(status, "failed")
        if cases[name] == "failed":
            failures[Failure(name, status)] = None
    failed = max(run - passed, 0)
    return CountedCases(
        "nextest",
        passed=passed,
        failed=failed,
        skipped=counted.get("skipped", 0),
        failures=tuple(failures)[:failed],
        cases=tuple(CaseResult(name, outcome) for name, outcome in cases.items()),
        duration_ms=milliseconds(last[1]),
        partial=planned > run,
        ends_at=last.end(),
    )


def _failures(text: str) -> tuple[Failure, ...]:
    messages = {match[1]: _message(match[2]) for match in _STDOUT.finditer(text)}
    names = (line.strip() for match in _NAMES.finditer(text) for line in match[1].splitlines())
    return tuple(Failure(name, messages.get(name, "")) for name in names)


def _cases(text: str) -> tuple[CaseResult, ...]:
    """`tests/shop.rs sums::right` of an integration test, `shop sums::right` of a unit test in the crate `shop`; a
    documentation test without its line. The file is the package's, which in a workspace is not the repository's."""
    cases, where, file = [], "", None
    for match in _TEST.finditer(text):
        if match["test"]:
            name = _LINE_OF.sub("", match["test"])
            cases.append(CaseResult(f"{where} {name}".strip(), _CARGO_OUTCOMES[match["result"]], file))
        elif match["crate"]:
            where, file = f"doc {match['crate'].strip()}", None
        elif match["unit"]:
            where, file = _HASH.sub("", match["binary"].replace("\\", "/").rsplit("/", 1)[-1]), None
        else:
            where = file = match["file"]
    return tuple(cases)


def _message(output: str) -> str:
    return "\n".join(line for line in output.splitlines() if line.strip() and not _THREAD.match(line.strip()))


def _not_compiled(text: str, broken: list[re.Match[str]]) -> CountedCases:
    error = _COMPILER_ERROR.search(text)
    why = error[0].strip() if error else ""
    return CountedCases.not_built("cargo", {match[1]: Failure(match[1], why) for match in broken}.values())


def _died(text: str) -> CountedCases:
    died = _DIED.search(text)
    failure = Failure("cargo test", died[1] if died else "the test run did not finish")
    return CountedCases("cargo", failed=1, failures=(failure,), partial=True)


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
_GO_OUTCOMES: dict[str, CaseOutcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
_OUTPUT_CHARS = 500


class _Package(Struct):
    """Test → PASS, FAIL or SKIP, and what tests printed."""

    results: dict[str, str] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> set[str]:
        return {test for test, result in self.results.items() if result == "FAIL"}

    def is_rerun_of(self, earlier: _Package) -> bool:
        """Whether it holds nothing but tests that failed there, as `gotestsum --rerun-fails` calls them again."""
        tests = {test.partition("/")[0] for test in self.results}
        return bool(tests) and tests <= earlier.broken

    def counted(self, name: str, *, failed: bool, why: str) -> CountedCases:
        broken = self.broken
        above_all, above_broken = _parents(self.results), _parents(broken)
        counted = [test for test in self.results if test not in above_all or test in broken - above_broken]
        failures = [Failure(f"{name}.{test}", self.output.get(test, "")) for test in counted if test in broken]
        cases = [CaseResult(f"{name}.{test}", _GO_OUTCOMES[self.results[test]]) for test in counted]
        if failed and not failures:
            failures.append(Failure(name, why))
            cases.append(CaseResult(name, "error"))
        passed = sum(self.results[test] == "PASS" for test in counted)
        return CountedCases.named("go", cases, failures, passed)


def read_go(plain: Plain) -> CountedCases | None:
    text = plain.text
    reasons = _Reasons.of(text)
    verbose = {match[1]: match[2].strip() for match in _VERBOSE_OUTPUT.finditer(text)}
    package, ends_at, ended = _Package(output=verbose), 0, []
    for match in _LINE.finditer(text):
        if match["result"]:
            package.results[match["test"]] = match["result"]
            package.output[match["test"]] = match["output"].strip() or package.output.get(match["test"], "")
            continue
        ended.append(_go_ended(match, package, reasons))
        package, ends_at = _Package(output=package.output), match.end()
    return CountedCases("go", partial=plain.cut, ends_at=ends_at).plus(ended) if ends_at else None


def read_go_json(plain: Plain) -> CountedCases | None:
    """The events of `go test -json`; lines of go itself between them, such as a failed build, count too."""
    packages: dict[str, _Package] = {}
    newest: dict[str, tuple[int, _Package]] = {}  # where in `ended` it stands
    ended: list[CountedCases] = []
    ends_at = 0
    for event, end in objects(plain.whole, '"Action"'):
        built = str(event.get("ImportPath", "")).partition(" ")[0]  # `example.test/shop [example.test/shop.test]`
        name = str(event.get("Package", built))[:_OUTPUT_CHARS]
        package, ends_at = packages.setdefault(name, _Package()), end
        if event.get("Test"):
            _note(package, event)
        elif event.get("Action") in {"pass", "fail"}:
            failed = event["Action"] == "fail"
            at, earlier = newest.get(name, (len(ended), _Package()))
            if package.is_rerun_of(earlier):
                package = _Package(earlier.results | package.results, earlier.output | package.output)
            else:
                at = len(ended)
            counted = package.counted(name, failed=failed, why=package.output.get("", ""))
            ended[at : at + 1] = [replace(counted, duration_ms=milliseconds(event.get("Elapsed")))]
            newest[name], packages[name] = (at, package), _Package()
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


def _go_ended(match: re.Match[str], package: _Package, reasons: _Reasons) -> CountedCases:
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
    return CountedCases.not_built("go", (Failure(match["package"], reasons.why(match["note"])) for match in lines))


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
