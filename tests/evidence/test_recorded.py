from __future__ import annotations

import json

from gitswarm.evidence.compiled_reports import read_cargo
from gitswarm.evidence.test_output import plain
from gitswarm.evidence.test_report import read_report
from gitswarm.records import evidence as records
from tests.evidence.recordings import NAMES, recorded
from tests.evidence.suites import read_file, read_output
from tests.tables import table

WHOLE, PARTIAL = False, True

# source, passed, failed, skipped, whether the counts are lower bounds: each compared by eye with the file
RECORDED = {
    "cargo-1.95.0/aborted.txt": ("cargo", 0, 1, 0, PARTIAL),
    "cargo-1.95.0/crash.txt": ("cargo", 0, 1, 0, WHOLE),
    "cargo-1.95.0/failing.txt": ("cargo", 0, 2, 0, WHOLE),
    "cargo-1.95.0/mixed-libtest.jsonl": ("cargo", 2, 3, 1, WHOLE),
    "cargo-1.95.0/mixed.txt": ("cargo", 2, 3, 1, WHOLE),
    "cargo-1.95.0/none.txt": ("cargo", 0, 0, 0, WHOLE),
    "cargo-1.95.0/passing-libtest.jsonl": ("cargo", 3, 0, 0, WHOLE),
    "cargo-1.95.0/passing.txt": ("cargo", 3, 0, 0, WHOLE),
    "cargo-1.95.0/skipped.txt": ("cargo", 0, 0, 2, WHOLE),
    "go-1.19.8/crash-verbose.txt": ("go", 0, 1, 0, PARTIAL),
    "go-1.19.8/crash.jsonl": ("go", 0, 1, 0, WHOLE),
    "go-1.19.8/crash.txt": ("go", 0, 1, 0, PARTIAL),
    "go-1.19.8/failing-verbose.txt": ("go", 0, 2, 0, WHOLE),
    "go-1.19.8/failing.jsonl": ("go", 0, 2, 0, WHOLE),
    "go-1.19.8/failing.txt": ("go", 0, 2, 0, PARTIAL),
    "go-1.19.8/mixed-verbose.txt": ("go", 2, 1, 1, WHOLE),
    "go-1.19.8/mixed.jsonl": ("go", 2, 1, 1, WHOLE),
    "go-1.19.8/mixed.txt": ("go", 0, 1, 0, PARTIAL),
    "go-1.19.8/none.jsonl": ("go", 0, 0, 0, WHOLE),
    "go-1.19.8/none.txt": ("go", 0, 0, 0, WHOLE),
    "go-1.19.8/panicked-verbose.txt": ("go", 1, 1, 0, WHOLE),
    "go-1.19.8/panicked.jsonl": ("go", 1, 1, 0, WHOLE),
    "go-1.19.8/panicked.txt": ("go", 0, 1, 0, PARTIAL),
    "go-1.19.8/passing-coverage.txt": ("go", 1, 0, 0, PARTIAL),
    "go-1.19.8/passing-verbose.txt": ("go", 3, 0, 0, WHOLE),
    "go-1.19.8/passing.txt": ("go", 1, 0, 0, PARTIAL),
    "go-1.19.8/skipped-verbose.txt": ("go", 0, 0, 2, WHOLE),
    "go-1.19.8/skipped.txt": ("go", 1, 0, 0, PARTIAL),
    "jest-30.5.2/crash.json": ("jest", 0, 1, 0, WHOLE),
    "jest-30.5.2/crash.txt": ("jest", 0, 1, 0, WHOLE),
    "jest-30.5.2/failing.json": ("jest", 0, 2, 0, WHOLE),
    "jest-30.5.2/failing.txt": ("jest", 0, 2, 0, WHOLE),
    "jest-30.5.2/mixed.json": ("jest", 1, 1, 2, WHOLE),
    "jest-30.5.2/mixed.txt": ("jest", 1, 1, 2, WHOLE),
    "jest-30.5.2/names.json": ("jest", 4, 2, 2, WHOLE),
    "jest-30.5.2/none.txt": ("jest", 0, 1, 0, WHOLE),
    "jest-30.5.2/passing-coverage.txt": ("jest", 2, 0, 0, WHOLE),
    "jest-30.5.2/passing.json": ("jest", 2, 0, 0, WHOLE),
    "jest-30.5.2/passing.txt": ("jest", 2, 0, 0, WHOLE),
    "jest-30.5.2/skipped.txt": ("jest", 0, 0, 2, WHOLE),
    "junit-pytest-9.2.0/crash.xml": ("junit", 0, 1, 0, WHOLE),
    "junit-pytest-9.2.0/failing.xml": ("junit", 0, 2, 0, WHOLE),
    "junit-pytest-9.2.0/mixed.xml": ("junit", 3, 3, 2, WHOLE),
    "junit-pytest-9.2.0/names-xunit1.xml": ("junit", 6, 8, 3, WHOLE),
    "junit-pytest-9.2.0/none.xml": ("junit", 0, 0, 0, WHOLE),
    "junit-pytest-9.2.0/passing.xml": ("junit", 3, 0, 0, WHOLE),
    "junit-pytest-9.2.0/skipped.xml": ("junit", 0, 0, 2, WHOLE),
    "nextest-by-hand/failing-libtest.jsonl": ("nextest", 1, 1, 0, WHOLE),
    "nextest-by-hand/mixed.txt": ("nextest", 1, 2, 1, WHOLE),
    "nextest-by-hand/passing.txt": ("nextest", 2, 0, 0, WHOLE),
    "node-20.20.2-junit/mixed.xml": ("junit", 4, 2, 3, WHOLE),
    "node-20.20.2-tap/crash.txt": ("tap", 0, 1, 0, WHOLE),
    "node-20.20.2-tap/failing.txt": ("tap", 0, 2, 0, WHOLE),
    "node-20.20.2-tap/mixed.txt": ("tap", 2, 1, 2, WHOLE),
    "node-20.20.2-tap/names.txt": ("tap", 4, 2, 3, WHOLE),
    "node-20.20.2-tap/none.txt": ("tap", 1, 0, 0, WHOLE),
    "node-20.20.2-tap/passing.txt": ("tap", 3, 0, 0, WHOLE),
    "node-20.20.2-tap/skipped.txt": ("tap", 0, 0, 2, WHOLE),
    "perl-test-more-1.302190-tap/bail.txt": ("tap", 1, 1, 0, WHOLE),
    "perl-test-more-1.302190-tap/crash.txt": ("tap", 1, 1, 0, WHOLE),
    "perl-test-more-1.302190-tap/failing.txt": ("tap", 0, 2, 0, WHOLE),
    "perl-test-more-1.302190-tap/mixed.txt": ("tap", 2, 2, 2, WHOLE),
    "perl-test-more-1.302190-tap/none.txt": ("tap", 0, 0, 0, WHOLE),
    "perl-test-more-1.302190-tap/passing.txt": ("tap", 2, 0, 0, WHOLE),
    "perl-test-more-1.302190-tap/skipped.txt": ("tap", 0, 0, 0, WHOLE),
    "pytest-9.2.0/aborted.txt": ("pytest", 0, 1, 0, PARTIAL),
    "pytest-9.2.0/crash.txt": ("pytest", 0, 1, 0, PARTIAL),
    "pytest-9.2.0/failing.txt": ("pytest", 0, 2, 0, WHOLE),
    "pytest-9.2.0/mixed-quiet.txt": ("pytest", 3, 3, 2, WHOLE),
    "pytest-9.2.0/mixed-verbose-colour.txt": ("pytest", 3, 3, 2, WHOLE),
    "pytest-9.2.0/mixed.txt": ("pytest", 3, 3, 2, WHOLE),
    "pytest-9.2.0/names-verbose.txt": ("pytest", 8, 9, 3, WHOLE),
    "pytest-9.2.0/names-xdist.txt": ("pytest", 8, 9, 3, WHOLE),
    "pytest-9.2.0/none.txt": ("pytest", 0, 0, 0, WHOLE),
    "pytest-9.2.0/passing-coverage.txt": ("pytest", 3, 0, 0, WHOLE),
    "pytest-9.2.0/passing.txt": ("pytest", 3, 0, 0, WHOLE),
    "pytest-9.2.0/skipped.txt": ("pytest", 0, 0, 2, WHOLE),
    "pytest-9.2.0/stopped-early.txt": ("pytest", 0, 1, 0, PARTIAL),
    "vitest-3.2.7/crash.json": ("vitest", 0, 1, 0, WHOLE),
    "vitest-3.2.7/crash.txt": ("vitest", 0, 1, 0, WHOLE),
    "vitest-3.2.7/failing.json": ("vitest", 0, 2, 0, WHOLE),
    "vitest-3.2.7/failing.txt": ("vitest", 0, 2, 0, WHOLE),
    "vitest-3.2.7/mixed-junit.xml": ("junit", 1, 1, 2, WHOLE),
    "vitest-3.2.7/mixed-tap.txt": ("tap", 1, 1, 2, WHOLE),
    "vitest-3.2.7/mixed.json": ("vitest", 1, 1, 2, WHOLE),
    "vitest-3.2.7/mixed.txt": ("vitest", 1, 1, 2, WHOLE),
    "vitest-3.2.7/none.txt": ("vitest", 0, 1, 0, WHOLE),
    "vitest-3.2.7/passing-coverage.txt": ("vitest", 2, 0, 0, WHOLE),
    "vitest-3.2.7/passing-junit.xml": ("junit", 2, 0, 0, WHOLE),
    "vitest-3.2.7/passing.json": ("vitest", 2, 0, 0, WHOLE),
    "vitest-3.2.7/passing.txt": ("vitest", 2, 0, 0, WHOLE),
    "vitest-3.2.7/skipped.txt": ("vitest", 0, 0, 2, WHOLE),
}

FAILING = {
    "cargo-1.95.0/mixed.txt": ("quiet", "result", "sums::wrong"),
    "cargo-1.95.0/aborted.txt": ("cargo test",),
    "cargo-1.95.0/crash.txt": ("shop",),
    "go-1.19.8/crash.txt": ("example.test/shop",),
    "go-1.19.8/crash.jsonl": ("example.test/shop",),
    "go-1.19.8/mixed.txt": ("example.test/shop.TestWrong/a_b",),
    "go-1.19.8/mixed.jsonl": ("example.test/shop.TestWrong/a_b",),
    "jest-30.5.2/crash.txt": ("./shop.test.js",),
    "jest-30.5.2/mixed.json": ("total wrong",),
    "jest-30.5.2/mixed.txt": ("total › wrong",),
    "junit-pytest-9.2.0/crash.xml": ("tests.test_crash",),
    "junit-pytest-9.2.0/failing.xml": (
        "tests.test_failing.TestTotal.test_is_a_sum",
        "tests.test_failing.test_discount",
    ),
    "nextest-by-hand/mixed.txt": ("shop::shop wrong", "shop::shop slow"),
    "node-20.20.2-tap/mixed.txt": ("wrong",),
    "perl-test-more-1.302190-tap/bail.txt": ("Bail out!",),
    "perl-test-more-1.302190-tap/crash.txt": ("plan",),
    "perl-test-more-1.302190-tap/failing.txt": ("one", "test 2"),
    "perl-test-more-1.302190-tap/mixed.txt": ("two", "b"),
    "pytest-9.2.0/aborted.txt": ("pytest",),
    "pytest-9.2.0/crash.txt": ("tests/test_crash.py",),
    "pytest-9.2.0/mixed.txt": (
        "tests/test_mixed.py::test_wrong",
        "tests/test_mixed.py::test_words[a b]",
        "tests/test_mixed.py::test_needs_fixture",
    ),
    "vitest-3.2.7/crash.txt": ("shop.vtest.js",),
    "vitest-3.2.7/mixed-junit.xml": ("shop.vtest.js.total > wrong",),
    "vitest-3.2.7/mixed.txt": ("shop.vtest.js > total > wrong",),
}


def report(name: str) -> records.TestReport:
    found = read_file(recorded(name))
    assert found is not None
    return found


def test_every_recording_is_in_the_table() -> None:
    assert list(RECORDED) == NAMES


@table(("name", "expected"), RECORDED.items(), ids=NAMES)
def test_a_recording_is_counted(name: str, expected: tuple[str, int, int, int, bool]) -> None:
    found = report(name)
    assert (found.source, found.passed, found.failed, found.skipped, found.partial) == expected
    assert found.total == found.passed + found.failed + found.skipped


@table(("name", "expected"), FAILING.items(), ids=list(FAILING))
def test_failing_tests_have_their_names(name: str, expected: tuple[str, ...]) -> None:
    assert report(name).failing == expected


@table("name", NAMES)
def test_a_report_has_a_signature_when_something_failed(name: str) -> None:
    found = report(name)
    assert (found.error_signature is not None) == (found.failed > 0)


@table(
    ("name", "percent"),
    [
        ("pytest-9.2.0/passing-coverage.txt", 50.0),
        ("go-1.19.8/passing-coverage.txt", 75.0),
        ("jest-30.5.2/passing-coverage.txt", 80.0),
        ("vitest-3.2.7/passing-coverage.txt", 100.0),
        ("pytest-9.2.0/passing.txt", None),
    ],
)
def test_coverage_is_the_total_of_the_table(name: str, percent: float | None) -> None:
    assert report(name).coverage_percent == percent


@table(
    ("name", "duration"),
    [
        ("pytest-9.2.0/mixed.txt", 90),
        ("junit-pytest-9.2.0/mixed.xml", 112),
        ("cargo-1.95.0/mixed.txt", 360),
        ("go-1.19.8/failing.txt", 2),
        ("jest-30.5.2/mixed.txt", 423),
        ("vitest-3.2.7/mixed.txt", 341),
        ("node-20.20.2-tap/mixed.txt", 248),
        ("nextest-by-hand/mixed.txt", 1016),
        ("perl-test-more-1.302190-tap/mixed.txt", None),
    ],
)
def test_a_duration_is_in_milliseconds(name: str, duration: int | None) -> None:
    assert report(name).duration_ms == duration


def test_text_of_no_test_tool_is_no_report() -> None:
    assert read_output("make: Nothing to be done for 'check'.\n1..2 fields changed\n3 passed\n") is None


def test_nothing_is_no_report() -> None:
    assert read_output("") is None


def test_the_outermost_of_several_tools_counts() -> None:
    inner = recorded("cargo-1.95.0/failing.txt").decode()
    outer = recorded("pytest-9.2.0/passing.txt").decode()
    found = read_output(outer.replace("\ntests/", "\n" + inner + "\ntests/", 1))
    assert found is not None
    assert (found.source, found.passed, found.failed) == ("pytest", 3, 0)


def test_several_pytest_sessions_are_added_up() -> None:
    found = read_output(recorded("pytest-9.2.0/failing.txt").decode() + recorded("pytest-9.2.0/passing.txt").decode())
    assert found is not None
    assert (found.passed, found.failed, len(found.failing)) == (3, 2, 2)


@table("word", ["rerun", "retried"])
def test_what_a_plugin_of_pytest_counts_besides_is_no_broken_session(word: str) -> None:
    text = recorded("pytest-9.2.0/passing.txt").decode()
    assert "3 passed in" in text
    assert read_output(text.replace("3 passed in", f"3 passed, 2 {word} in")) == read_output(text)


@table(("again", "passed", "failing"), [("pass", 2, ()), ("fail", 1, ("a.TestX",))])
def test_a_test_that_gotestsum_runs_again_has_its_last_outcome(
    again: str, passed: int, failing: tuple[str, ...]
) -> None:
    outcomes = [("TestX", "fail"), ("TestY", "pass"), (None, "fail"), ("TestX", again), (None, again)]
    events = [{"Package": "a", "Test": test, "Action": action} for test, action in outcomes]
    found = read_output("\n".join(map(json.dumps, events)))
    assert found is not None
    assert (found.total, found.passed, found.failing) == (2, passed, failing)


def test_a_package_that_is_tested_twice_is_no_rerun() -> None:
    outcomes = [("TestX", "fail"), (None, "fail"), ("TestX", "pass"), ("TestY", "pass"), (None, "pass")]
    events = [{"Package": "a", "Test": test, "Action": action} for test, action in outcomes]
    found = read_output("\n".join(map(json.dumps, events)))
    assert found is not None
    assert (found.total, found.passed, found.failing) == (3, 2, ("a.TestX",))


def test_a_package_of_go_that_is_not_built_fails_with_the_error_of_the_compiler() -> None:
    def events(what: str) -> str:
        built = {"ImportPath": "a [a.test]", "Action": "build-output", "Output": f"./a.go:3:1: undefined: {what}\n"}
        return f"{json.dumps(built)}\n" + json.dumps({"Package": "a", "Action": "fail", "FailedBuild": "a [a.test]"})

    one, other = read_output(events("x")), read_output(events("y"))
    assert one is not None
    assert other is not None
    assert (one.failing, one.error_signature == other.error_signature) == (("a",), False)


def test_each_failure_of_cargo_has_its_own_message() -> None:
    def text(message: str) -> str:
        shown = "".join(f"\n---- {name} stdout ----\n\nthread '{name}' panicked\n{message}\n" for name in "ab")
        names = "failures:\n    a\n    b\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored;\n"
        return f"\nfailures:\n{shown}\n\n{names}"

    found = read_cargo(plain(text("boom")))
    assert found is not None
    assert [(each.name, each.message) for each in found.failures] == [("a", "boom"), ("b", "boom")]


def test_tests_of_vitest_that_fail_alike_have_all_their_names() -> None:
    found = read_output("\n FAIL  a.test.ts > x\n FAIL  a.test.ts > y\nError: no\n\n      Tests  2 failed (2)\n")
    assert found is not None
    assert found.failing == ("a.test.ts > x", "a.test.ts > y")


def test_output_that_was_cut_in_its_middle_gives_lower_bounds() -> None:
    text = recorded("cargo-1.95.0/passing.txt").decode()
    cut = "[… 4096 bytes left out …]\n" + text[text.index("running 2 tests") :]
    found = read_output(cut)
    assert found is not None
    assert (found.passed, found.partial) == (3, True)


def test_a_machine_format_wins_over_text() -> None:
    text = recorded("pytest-9.2.0/mixed.txt").decode() + recorded("jest-30.5.2/passing.json").decode()
    found = read_output(text)
    assert found is not None
    assert (found.source, found.passed, found.failed) == ("jest", 2, 0)


def test_report_files_win_over_output_and_are_added_up() -> None:
    files = {name: recorded(f"junit-pytest-9.2.0/{name}") for name in ("passing.xml", "mixed.xml")}
    found = read_report(recorded("pytest-9.2.0/passing-coverage.txt").decode(), {**files, "notes.txt": b"\xff\x00"})
    assert found is not None
    assert (found.source, found.passed, found.failed, found.coverage_percent) == ("junit", 6, 3, 50.0)


def test_without_a_report_file_the_output_counts() -> None:
    found = read_report(recorded("pytest-9.2.0/passing.txt").decode(), {"x.xml": b"<html/>"})
    assert found is not None
    assert (found.source, found.passed) == ("pytest", 3)


def test_a_report_has_at_most_fifty_names() -> None:
    failed = "".join(f"FAILED tests/test_a.py::test_{n} - no\n" for n in range(80))
    found = read_output(f"=== short test summary info ===\n{failed}80 failed in 0.10s\n")
    assert found is not None
    assert (found.failed, len(found.failing)) == (80, 50)


def test_a_report_survives_json() -> None:
    found = report("pytest-9.2.0/mixed.txt")
    assert records.TestReport.from_json(found.to_json()) == found
