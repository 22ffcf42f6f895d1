"""Every test of a run by its name and outcome, out of each format that tells them."""

from __future__ import annotations

from pathlib import PurePosixPath

from gitswarm.evidence.test_output import CountedCases
from gitswarm.evidence.test_report import read_run
from gitswarm.records.evidence import MOST_CASES, CaseResult, CaseResults
from tests.evidence.recordings import recorded
from tests.tables import table

ROOTS = ("/tmp/shop/js", "/tmp/shop/tap")

A, X = "tests/test_a.py", "tests/test_a.py::TestX"
PYTEST = {
    f"{X}::TestIn::test_y": "failed",
    f"{X}::test_inh": "passed",
    f"{A}::U::test_u": "failed",
    f"{A}::test_p[a::b]": "passed",
    f"{A}::test_p[c[1]]": "passed",
    f"{A}::test_p[x - y]": "passed",
    f"{A}::test_plain": "passed",
    f"{A}::test_s": "skipped",
    f"{A}::test_subs": "failed",
    f"{A}::test_td": "error",
    f"{A}::test_td2": "failed",
    f"{A}::test_xf": "xfailed",
    f"{A}::test_xp": "passed",
    f"{A}::test_xps": "failed",
    "tests/test_b.py": "error",
    "tests/test_c.py": "skipped",
}
PYTEST_TEXT = {name: outcome for name, outcome in PYTEST.items() if "test_c" not in name} | {
    f"{A}::test_xp": "xpassed"
}
NODE = {
    "b.test.js": "error",
    "group > deep > x": "passed",
    "group > fine": "passed",
    "group > wrong": "failed",
    "later": "skipped",
    "parent > kid": "passed",
    "right": "passed",
    "todo": "xfailed",
}
SHOP = {"total > right": "passed", "total > wrong": "failed", "later": "skipped", "some day": "skipped"}
RUST = {"quiet": "failed", "result": "failed", "slow": "skipped", "sums::right": "passed", "sums::wrong": "failed"}
GO = {
    "example.test/shop.TestLater": "skipped",
    "example.test/shop.TestRight": "passed",
    "example.test/shop.TestWrong/a_b": "failed",
    "example.test/shop.TestWrong/fine": "passed",
}

TOLD: list[tuple[str, dict[str, str]]] = [
    ("junit-pytest-9.2.0/names-xunit1.xml", PYTEST),
    ("pytest-9.2.0/names-verbose.txt", PYTEST_TEXT),
    ("pytest-9.2.0/names-xdist.txt", PYTEST_TEXT),
    ("node-20.20.2-junit/mixed.xml", NODE | {"todo ok": "skipped"}),
    ("node-20.20.2-tap/names.txt", NODE | {"todo ok": "xpassed"}),
    (
        "jest-30.5.2/names.json",
        {
            "a.test.js > total > f": "xfailed",
            "a.test.js > total > n 1": "passed",
            "a.test.js > total > n 2": "passed",
            "a.test.js > total > right": "passed",
            "a.test.js > total > s": "skipped",
            "a.test.js > total > t": "skipped",
            "a.test.js > total > wrong": "failed",
            "b.test.js": "error",
        },
    ),
    ("jest-30.5.2/mixed.json", {f"shop.test.js > {name}": outcome for name, outcome in SHOP.items()}),
    ("vitest-3.2.7/mixed.json", {f"shop.vtest.js > {name}": outcome for name, outcome in SHOP.items()}),
    ("vitest-3.2.7/mixed-junit.xml", {f"shop.vtest.js > {name}": outcome for name, outcome in SHOP.items()}),
    ("vitest-3.2.7/mixed-tap.txt", {f"shop.vtest.js > {name}": outcome for name, outcome in SHOP.items()}),
    ("vitest-3.2.7/crash.json", {"shop.vtest.js": "error"}),
    ("go-1.19.8/mixed.jsonl", GO),
    ("go-1.19.8/mixed-verbose.txt", GO),
    ("go-1.19.8/crash.jsonl", {"example.test/shop": "error"}),
    ("cargo-1.95.0/mixed-libtest.jsonl", RUST | {"src/lib.rs - total": "passed"}),
    (
        "cargo-1.95.0/mixed.txt",
        {f"tests/shop.rs {name}": outcome for name, outcome in RUST.items()}
        | {"doc shop src/lib.rs - total": "passed"},
    ),
    ("cargo-1.95.0/crash.txt", {"shop": "error"}),
    ("nextest-by-hand/failing-libtest.jsonl", {"shop::shop right": "passed", "shop::shop wrong": "failed"}),
    (
        "nextest-by-hand/mixed.txt",
        {"shop::shop right": "passed", "shop::shop slow": "failed", "shop::shop wrong": "failed"},
    ),
    (
        "perl-test-more-1.302190-tap/mixed.txt",
        {
            "group > a": "passed",
            "group > b": "failed",
            "one": "passed",
            "some day": "xfailed",
            "test 3": "skipped",
            "two": "failed",
        },
    ),
]


def results(name: str) -> CaseResults:
    found = read_run("", {name: recorded(name)}, ROOTS)
    assert found is not None
    return found.results


@table(("name", "expected"), TOLD, ids=[name for name, _ in TOLD])
def test_every_test_has_its_name_and_outcome(name: str, expected: dict[str, str]) -> None:
    assert {case.name: case.outcome for case in results(name).cases} == expected


@table(
    ("name", "complete"),
    [
        ("junit-pytest-9.2.0/names-xunit1.xml", True),
        ("pytest-9.2.0/mixed-verbose-colour.txt", True),
        ("pytest-9.2.0/mixed.txt", False),
        ("pytest-9.2.0/stopped-early.txt", False),
        ("go-1.19.8/passing.txt", False),
        ("jest-30.5.2/mixed.txt", False),
        ("cargo-1.95.0/mixed.txt", True),
        ("cargo-1.95.0/aborted.txt", False),
        ("junit-pytest-9.2.0/none.xml", True),
    ],
)
def test_results_are_complete_when_every_executed_test_is_named(name: str, complete: bool) -> None:  # noqa: FBT001
    assert results(name).complete is complete


@table(
    ("name", "file"),
    [
        ("junit-pytest-9.2.0/names-xunit1.xml", A),
        ("pytest-9.2.0/names-verbose.txt", A),
        ("jest-30.5.2/names.json", "a.test.js"),
        ("vitest-3.2.7/mixed.json", "shop.vtest.js"),
        ("cargo-1.95.0/failing.txt", "tests/shop.rs"),
        ("go-1.19.8/mixed.jsonl", None),
        ("node-20.20.2-junit/mixed.xml", "b.test.js"),
    ],
)
def test_the_file_is_told_where_the_format_has_it(name: str, file: str | None) -> None:
    assert results(name).cases[0].file == file


def test_an_inherited_test_of_the_older_family_is_found_by_its_class() -> None:
    xml = (
        '<testsuite name="pytest"><testcase classname="tests.test_a.TestX" name="test_inh"/>'
        '<testcase classname="tests.test_a" name="test_b[a.b]"/></testsuite>'
    )
    found = read_run(xml, {})
    assert found is not None
    assert [case.name for case in found.results.cases] == [f"{X}::test_inh", f"{A}::test_b[a.b]"]


def test_a_file_of_node_s_without_tests_has_passed_and_one_that_cannot_be_loaded_is_an_error() -> None:
    xml = (
        '<testsuites><testcase name="/tmp/shop/js/helpers.js" classname="test"/>'
        '<testcase name="/tmp/shop/js/b.test.js" classname="test"><failure message="test failed"/></testcase>'
        "</testsuites>"
    )
    found = read_run(xml, {}, ROOTS)
    assert found is not None
    assert found.results.cases == (
        CaseResult("b.test.js", "error", "b.test.js"),
        CaseResult("helpers.js", "passed", "helpers.js"),
    )


def test_other_tools_are_named_by_class_and_test() -> None:
    xml = (
        '<testsuites><testsuite name="x"><testcase classname="com.x.TillTest" name="adds()"/></testsuite>'
        '<testsuite name="shop::shop"><testcase classname="shop::shop" name="sums::right"/></testsuite></testsuites>'
    )
    found = read_run(xml, {})
    assert found is not None
    assert [case.name for case in found.results.cases] == ["com.x.TillTest.adds()", "shop::shop sums::right"]


def test_a_report_file_that_a_second_call_overwrote_is_not_complete() -> None:
    """`pytest tests/unit && pytest tests/integration`: both sessions are in the output, the last in the file."""
    output = recorded("pytest-9.2.0/mixed-quiet.txt").decode() + recorded("pytest-9.2.0/passing.txt").decode()
    found = read_run(output, {"out.xml": recorded("junit-pytest-9.2.0/passing.xml")})
    assert found is not None
    assert (found.report.source, found.report.passed, found.report.failed) == ("pytest", 6, 3)
    assert not found.results.complete
    assert len(found.results.cases) == 3


def test_one_call_with_subtests_is_complete_though_its_output_counts_more() -> None:
    output = recorded("pytest-9.2.0/names-verbose.txt").decode()
    found = read_run(output, {"out.xml": recorded("junit-pytest-9.2.0/names-xunit1.xml")})
    assert found is not None
    assert found.results.complete


@table(
    ("outcomes", "expected"),
    [
        (("passed", "failed"), "failed"),
        (("failed", "error"), "failed"),
        (("skipped", "passed"), "passed"),
        (("xfailed", "passed"), "passed"),
        (("skipped", "xfailed"), "xfailed"),
    ],
)
def test_a_name_that_came_twice_has_its_worst_outcome(outcomes: tuple[str, ...], expected: str) -> None:
    cases = [CaseResult("a", outcome) for outcome in outcomes]  # type: ignore[arg-type]
    assert CaseResults.of("junit", cases, complete=True).cases == (CaseResult("a", expected),)  # type: ignore[arg-type]


def test_more_names_than_can_be_kept_are_not_complete() -> None:
    cases = (CaseResult(f"t{number:06}", "passed") for number in range(MOST_CASES + 1))
    found = CaseResults.of("go", cases, complete=True)
    assert (len(found.cases), found.complete) == (MOST_CASES, False)


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    cases = [CaseResult(f"{'x' * 2_000}{end}", "passed") for end in "ab"]
    names = [case.name for case in CaseResults.of("go", cases, complete=True).cases]
    assert len(names) == 2
    assert all(len(name) < 500 for name in names)


def test_a_report_that_counts_more_than_it_names_is_not_complete() -> None:
    assert not CountedCases("go", passed=2, cases=(CaseResult("a", "passed"),)).results().complete


@table(
    ("folder", "file", "found"),
    [
        ("api", "tests/test_a.py", "api/tests/test_a.py"),
        ("api", "api/tests/test_a.py", "api/tests/test_a.py"),
        ("apps/api", "api/tests/test_a.py", "apps/api/tests/test_a.py"),
        ("tests", "tests/test_a.py", "tests/test_a.py"),
        (".", "tests/test_a.py", "tests/test_a.py"),
    ],
    ids=["settings there", "settings at the top", "settings between", "tests called in their folder", "the top"],
)
def test_what_pytest_runs_in_a_folder_is_named_from_the_top(folder: str, file: str, found: str) -> None:
    xml = (
        f'<testsuite name="pytest"><testcase classname="{file[:-3].replace("/", ".")}" name="test_x" file="{file}"/>'
        "</testsuite>"
    )
    path = PurePosixPath("tmp/w", folder, "pytest.xml").as_posix()
    read = read_run("", {path: xml.encode()}, ("/tmp/w", "w"))
    assert read is not None
    assert read.results.cases == (CaseResult(f"{found}::test_x", "passed", found),)
