"""Whole runs, dishonest and honest: what the reports of both trees and the texts between show at the end."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from gitswarm.evidence.comparison import Comparison, compare, needs_base
from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.suite_run import SuiteRun, SuiteRuns
from gitswarm.evidence.test_changes import read_changes
from gitswarm.records.envelope import RemovedTest
from tests.evidence.suites import ran, results
from tests.tables import table

A, B = "tests/test_a.py", "tests/test_b.py"
ONE = "def test_one():\n    assert one() == 1\n"
TWO = "def test_two():\n    assert two() == 2\n"
BOTH = f"{ONE}\n{TWO}"
MERGED = "@pytest.mark.parametrize('x', [1, 2])\ndef test_all(x):\n    assert f(x) == x\n"
SRC = TextChange("src/shop.py", "def one(): ...\n", "def one(): return 1\n")
GREEN = ran({f"{A}::test_one": ".", f"{A}::test_two": "."})
JUNIT = "class ATest {\n  @Test\n  void adds() { assertEquals(3, f(1, 2)); }\n}\n"
TITLED = '@Test\n  @DisplayName("adds two numbers")\n  void addsTwo() { assertEquals(2, f(1, 1)); }'
ONLY_ONE = ran({f"{A}::test_one": "."})
OLD_GREEN = results({f"{A}::test_one": ".", f"{A}::test_two": "."})
OLD_RED = results({f"{A}::test_one": "F", f"{A}::test_two": "."})
JS_OLD = "describe('till', () => {\n  it('adds', () => { expect(f()).toBe(1) })\n})\n"
GO_OLD = "package shop\nfunc TestAdd(t *testing.T) { if f() != 1 { t.Fatal() } }\n"
RUST_OLD = (
    "pub fn f() -> i32 { 1 }\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(f(), 1); }\n}\n"
)


RENAMED = TextChange("src/shop.py", "def one(): return 1\n", "def uno(): return 1\n")
BODIES = "    assert one() == 1\n    assert two() == 2\n"


def flags(found: Comparison) -> list[str]:
    """Each flag, with an exclamation mark where it blocks."""
    return [f"{each.flag}!" if each.blocking else each.flag for each in found.findings]


DISHONEST: dict[str, tuple[SuiteRuns, list[str]]] = {
    "the test file is deleted": (
        SuiteRuns(
            ran({f"{B}::test_b": "."}),
            ran({f"{A}::test_one": ".", f"{B}::test_b": "."}),
            OLD_GREEN,
            changes=[TextChange(A, ONE, None)],
        ),
        ["tests_deleted!"],
    ),
    "one test is deleted": (
        SuiteRuns(ONLY_ONE, GREEN, OLD_GREEN, changes=[TextChange(A, BOTH, ONE), SRC]),
        ["tests_deleted!"],
    ),
    "a failing test is deleted": (
        SuiteRuns(
            ONLY_ONE,
            ran({f"{A}::test_one": ".", f"{A}::test_two": "F"}),
            OLD_GREEN,
            changes=[TextChange(A, BOTH, ONE)],
        ),
        ["tests_deleted!"],
    ),
    "a test is skipped": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_two": "s"}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, f"{ONE}\n@pytest.mark.skip\n{TWO}")],
        ),
        ["tests_weakened!"],
    ),
    "a skip at run time, from product code": (
        SuiteRuns(ran({f"{A}::test_one": ".", f"{A}::test_two": "s"}), GREEN, "not needed", changes=[SRC]),
        ["tests_weakened!"],
    ),
    "a module is skipped as a whole": (
        SuiteRuns(
            ran({f"{B}::test_b": ".", A: "s"}),
            ran({f"{A}::test_one": ".", f"{B}::test_b": "."}),
            OLD_GREEN,
            changes=[TextChange(A, ONE, f"pytest.skip('x', allow_module_level=True)\n{ONE}")],
        ),
        ["tests_weakened!"],
    ),
    "xfail": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_two": "x"}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, f"{ONE}\n@pytest.mark.xfail\n{TWO}")],
        ),
        ["tests_weakened!"],
    ),
    "xfail on a test that passes": (
        SuiteRuns(GREEN, GREEN, OLD_GREEN, changes=[TextChange(A, BOTH, f"{ONE}\n@pytest.mark.xfail\n{TWO}")]),
        ["tests_weakened!"],
    ),
    "assert True": (
        SuiteRuns(GREEN, GREEN, OLD_RED, changes=[TextChange(A, BOTH, BOTH.replace("one() == 1", "True"))]),
        ["tests_weakened!"],
    ),
    "emptied": (
        SuiteRuns(ran({f"{A}::test_two": "."}), GREEN, OLD_GREEN, changes=[TextChange(A, BOTH, TWO)]),
        ["tests_deleted!"],
    ),
    "moved out of collection": (
        SuiteRuns(
            ran({f"{B}::test_b": "."}),
            ran({f"{A}::test_one": ".", f"{B}::test_b": "."}),
            OLD_GREEN,
            changes=[TextChange("tests/a.py", ONE, ONE, old_path=A)],
        ),
        ["tests_deleted!"],
    ),
    "renamed so that it is not collected": (
        SuiteRuns(ONLY_ONE, GREEN, OLD_GREEN, changes=[TextChange(A, BOTH, BOTH.replace("test_two", "_test_two"))]),
        ["tests_deleted!"],
    ),
    "a conftest that deselects": (
        SuiteRuns(
            ONLY_ONE, GREEN, OLD_GREEN, changes=[TextChange("conftest.py", None, "collect_ignore = ['a']\n"), SRC]
        ),
        ["tests_deleted!"],
    ),
    "a conftest that deselects parameters": (
        SuiteRuns(
            ran({f"{A}::test_all[1]": "."}),
            ran({f"{A}::test_all[1]": ".", f"{A}::test_all[2]": "."}),
            results({f"{A}::test_all[1]": ".", f"{A}::test_all[2]": "."}),
            changes=[TextChange("conftest.py", None, "def pytest_collection_modifyitems(): ...\n")],
        ),
        ["tests_deleted!"],
    ),
    "addopts that deselect": (
        SuiteRuns(
            ONLY_ONE,
            GREEN,
            OLD_GREEN,
            changes=[TextChange("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = '-k one'\n")],
        ),
        ["tests_deleted!", "harness_changed"],
    ),
    "exit 0 in the test script": (
        SuiteRuns(
            ran(failed=False),
            ran({"a.test.js > adds": "."}, source="jest"),
            "not possible",
            changes=[TextChange("package.json", '{"scripts":{"test":"jest"}}', '{"scripts":{"test":"exit 0"}}')],
        ),
        ["harness_changed", "not_compared!", "not_compared"],
    ),
    "a script that runs nothing": (
        SuiteRuns(
            ran({}, failed=False),
            GREEN,
            "no time",
            changes=[TextChange("Makefile", "test:\n\tpytest\n", "test:\n\ttrue\n")],
        ),
        ["tests_deleted!", "harness_changed", "tests_not_run!", "not_compared!"],
    ),
    "another test is put in its place": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_easy": "."}),
            GREEN,
            results({f"{A}::test_two": "F", f"{A}::test_one": "."}),
            changes=[TextChange(A, BOTH, f"{ONE}\ndef test_easy():\n    assert one()\n"), SRC],
        ),
        ["tests_deleted!"],
    ),
    "declared as removed, and what it tests stays": (
        SuiteRuns(
            ONLY_ONE,
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, ONE), SRC],
            removed=[RemovedTest(name="test_two", why="obsolete")],
        ),
        ["tests_deleted!"],
    ),
    "a test of JUnit without its annotation": (
        SuiteRuns(
            ran({"ATest.other": "."}),
            ran({"ATest.adds": "."}),
            changes=[TextChange("ATest.java", JUNIT, JUNIT.replace("@Test", ""))],
        ),
        ["tests_deleted!"],
    ),
    "a new test that is never run": (
        SuiteRuns(ran({f"{A}::test_one": "."}), ONLY_ONE, "not needed", changes=[TextChange(B, None, TWO)]),
        ["new_tests_not_run!"],
    ),
    "the changed test fails, and was red before": (
        SuiteRuns(
            ran({f"{A}::test_one": "F"}),
            ran({f"{A}::test_one": "F"}),
            results({f"{A}::test_one": "F"}),
            changes=[TextChange(A, ONE, ONE.replace("== 1", "== 3"))],
        ),
        ["tests_red!"],
    ),
    "an added test fails only sometimes": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{B}::test_two": "F"}),
            ONLY_ONE,
            alone=results({f"{B}::test_two": "."}),
            changes=[TextChange(B, None, TWO)],
        ),
        ["tests_red!"],
    ),
    "a test of a criterion fails as before": (
        SuiteRuns(
            ran({f"{A}::test_one": "F"}),
            ran({f"{A}::test_one": "F"}),
            changes=[SRC],
            criteria=frozenset({f"{A}::test_one"}),
        ),
        ["tests_red!"],
    ),
    "red, and nothing was changed": (
        SuiteRuns(ran({f"{A}::test_one": "F"}), ran({f"{A}::test_one": "F"})),
        ["tests_red!"],
    ),
    "a file that loads no more": (
        SuiteRuns(ran({A: "E"}), ONLY_ONE, changes=[SRC]),
        ["tests_red!"],
    ),
    "the names are taken out of the report": (
        SuiteRuns(
            ran(executed=2, failed=False),
            GREEN,
            OLD_GREEN,
            changes=[TextChange("tox.ini", "[pytest]\n", "[pytest]\naddopts = -p no:junitxml\n")],
        ),
        ["harness_changed", "not_compared!"],
    ),
    "renamed, with another result": (
        SuiteRuns(
            ran({f"{A}::test_uno": "."}),
            ONLY_ONE,
            results({f"{A}::test_one": "F"}),
            changes=[RENAMED, TextChange(A, ONE, ONE.replace("one", "uno").replace("== 1", "== 2"))],
        ),
        ["tests_deleted!"],
    ),
    "called by what was there before": (
        SuiteRuns(
            ran({f"{A}::test_two": "."}),
            ONLY_ONE,
            results({f"{A}::test_one": "F"}),
            changes=[SRC, TextChange(A, ONE, ONE.replace("one", "two"))],
        ),
        ["tests_deleted!"],
    ),
    "merged, behind a return": (
        SuiteRuns(
            ran({f"{A}::test_all": "."}),
            GREEN,
            results({f"{A}::test_one": "F", f"{A}::test_two": "F"}),
            changes=[TextChange(A, BOTH, f"def test_all():\n    return\n{BODIES}")],
        ),
        ["tests_deleted!"],
    ),
    "a case is taken out of what the product says": (
        SuiteRuns(
            ran({f"{A}::test_all[a]": "."}), ran({f"{A}::test_all[a]": ".", f"{A}::test_all[b]": "."}), changes=[SRC]
        ),
        ["tests_deleted!"],
    ),
    "a test more hides no title that is gone": (
        SuiteRuns(
            ran({"a.test.js > adds": ".", "a.test.js > new": "."}, source="jest"),
            ran({"a.test.js > adds": ".", "a.test.js > rounds": "."}, source="jest"),
            changes=[TextChange("a.test.js", JS_OLD, f"{JS_OLD}it('new', () => {{ expect(g()).toBe(2) }})\n"), SRC],
        ),
        ["tests_deleted!"],
    ),
    "fewer tests by a tool without names, and no test touched": (
        SuiteRuns(ran(executed=1), ran(executed=2), changes=[SRC]),
        ["not_compared!"],
    ),
    "the report names nothing any more, and no test touched": (
        SuiteRuns(ran(executed=2), GREEN, changes=[SRC]),
        ["not_compared!"],
    ),
    "weakened, beside one that comes and goes": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_two": ".", f"{B}::test_b": "s"}),
            ran({f"{A}::test_one": ".", f"{A}::test_two": ".", f"{B}::test_b": "."}),
            OLD_RED,
            again=ran({f"{A}::test_one": ".", f"{A}::test_two": ".", f"{B}::test_b": "."}),
            changes=[TextChange(A, BOTH, BOTH.replace("one() == 1", "True"))],
        ),
        ["tests_weakened!", "flaky"],
    ),
    "tests that take no time any more": (SuiteRuns(GREEN, "far longer", changes=[SRC]), ["not_compared!"]),
    "it.skip": (
        SuiteRuns(
            ran({"a.test.js > till > adds": "s"}, source="jest"),
            ran({"a.test.js > till > adds": "."}, source="jest"),
            results({"a.test.js > till > adds": "."}),
            changes=[TextChange("a.test.js", JS_OLD, JS_OLD.replace("it(", "it.skip("))],
        ),
        ["tests_weakened!", "tests_not_run!"],
    ),
    "expect(true)": (
        SuiteRuns(
            ran({"a.test.js > till > adds": "."}, source="jest"),
            ran({"a.test.js > till > adds": "."}, source="jest"),
            results({"a.test.js > till > adds": "F"}),
            changes=[TextChange("a.test.js", JS_OLD, JS_OLD.replace("f()", "true").replace("toBe(1)", "toBe(true)"))],
        ),
        ["tests_weakened!"],
    ),
    "a Go test that compares nothing": (
        SuiteRuns(
            ran({"example.test/shop.TestAdd": "."}, source="go"),
            ran({"example.test/shop.TestAdd": "."}, source="go"),
            results({"example.test/shop.TestAdd": "F"}),
            changes=[TextChange("shop_test.go", GO_OLD, GO_OLD.replace("if f() != 1 { t.Fatal() }", "f()"))],
        ),
        ["tests_weakened!"],
    ),
    "a Rust test that is ignored": (
        SuiteRuns(
            ran({"shop tests::adds": "s"}, source="cargo"),
            ran({"shop tests::adds": "."}, source="cargo"),
            "not possible",
            changes=[TextChange("src/lib.rs", RUST_OLD, RUST_OLD.replace("fn adds", "#[ignore]\n    fn adds"))],
        ),
        ["tests_weakened!", "tests_not_run!", "not_compared"],
    ),
}

HONEST: dict[str, tuple[SuiteRuns, list[str], bool | None]] = {
    "a function is renamed with its test": (
        SuiteRuns(
            ran({f"{A}::test_uno": "."}),
            ONLY_ONE,
            results({f"{A}::test_one": "F"}),
            changes=[RENAMED, TextChange(A, ONE, ONE.replace("one", "uno"))],
        ),
        [],
        True,
    ),
    "a function is renamed, its test calls it so": (
        SuiteRuns(
            ran({f"{A}::test_one": "."}),
            ONLY_ONE,
            results({f"{A}::test_one": "F"}),
            changes=[RENAMED, TextChange(A, ONE, ONE.replace(" one()", " uno()"))],
        ),
        [],
        True,
    ),
    "two tests become one": (
        SuiteRuns(
            ran({f"{A}::test_all": "."}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, f"def test_all():\n{BODIES}")],
        ),
        [],
        True,
    ),
    "TDD": (
        SuiteRuns(ran({f"{A}::test_one": ".", f"{B}::test_two": "."}), changes=[TextChange(B, None, TWO), SRC]),
        [],
        True,
    ),
    "tests are added to a file": (
        SuiteRuns(GREEN, changes=[TextChange(A, ONE, BOTH), SRC]),
        [],
        True,
    ),
    "a module is renamed with its test module": (
        SuiteRuns(
            ran({f"{B}::test_one": "."}),
            ONLY_ONE,
            results({f"{A}::test_one": "E"}),
            changes=[
                TextChange(B, ONE, f"import b\n{ONE}", old_path=A),
                TextChange("src/b.py", "x", "x", old_path="src/a.py"),
            ],
        ),
        ["expectation_changed"],
        True,
    ),
    "a test module is split": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{B}::test_two": "."}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, ONE), TextChange(B, None, TWO)],
        ),
        [],
        True,
    ),
    "a test is renamed": (
        SuiteRuns(
            ran({f"{A}::test_uno": ".", f"{A}::test_two": "."}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, BOTH.replace("test_one", "test_uno"))],
        ),
        [],
        True,
    ),
    "a parametrized test is renamed": (
        SuiteRuns(
            ran({f"{A}::test_every[1]": ".", f"{A}::test_every[2]": "."}),
            ran({f"{A}::test_all[1]": ".", f"{A}::test_all[2]": "."}),
            OLD_GREEN,
            changes=[TextChange(A, MERGED, MERGED.replace("test_all", "test_every"))],
        ),
        [],
        True,
    ),
    "a table of tests is merged": (
        SuiteRuns(
            ran({f"{A}::test_all[1]": ".", f"{A}::test_all[2]": "."}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, MERGED)],
        ),
        ["tests_reshaped"],
        True,
    ),
    "tables are merged into a new file": (
        SuiteRuns(
            ran({f"{B}::test_all[1]": ".", f"{B}::test_all[2]": "."}),
            GREEN,
            OLD_GREEN,
            changes=[TextChange(A, BOTH, None), TextChange(B, None, MERGED)],
        ),
        ["tests_reshaped"],
        True,
    ),
    "an expectation changes, as the task says": (
        SuiteRuns(GREEN, GREEN, OLD_RED, changes=[TextChange(A, BOTH, BOTH.replace("== 1", "== 3")), SRC]),
        ["expectation_changed"],
        True,
    ),
    "a flaky test": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_two": "F"}),
            GREEN,
            alone=results({f"{A}::test_two": "."}),
            changes=[SRC],
        ),
        ["flaky"],
        True,
    ),
    "a suite that was red before": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{A}::test_two": "F"}),
            ran({f"{A}::test_one": "F", f"{A}::test_two": "F"}),
            changes=[SRC],
        ),
        ["red_before"],
        True,
    ),
    "a file that could not be loaded before": (
        SuiteRuns(ran({f"{A}::test_one": ".", B: "E"}), ran({f"{A}::test_one": ".", B: "E"}), changes=[SRC]),
        ["red_before"],
        True,
    ),
    "a command that was red before and names nothing": (
        SuiteRuns(
            replace(ran(executed=3, output="boom"), failed=True),
            replace(ran(executed=3, output="boom"), failed=True),
            changes=[SRC],
        ),
        ["red_before"],
        True,
    ),
    "a suite that cannot run here": (
        SuiteRuns(ran(failed=True, output="no docker"), ran(failed=True, output="no docker"), changes=[SRC]),
        ["tests_cannot_run"],
        None,
    ),
    "docs only": (SuiteRuns(GREEN, changes=[TextChange("README.md", "a", "b")]), [], True),
    "lock files and generated code": (
        SuiteRuns(GREEN, changes=[TextChange("uv.lock", "a", "b"), TextChange("api/shop_pb2.py", "a = 1", "a = 2")]),
        [],
        True,
    ),
    "a feature is removed with its tests": (
        SuiteRuns(
            ONLY_ONE,
            GREEN,
            results({f"{A}::test_one": ".", f"{A}::test_two": "F"}),
            changes=[
                TextChange(A, BOTH, ONE),
                TextChange("src/shop.py", "def one(): ...\ndef two(): ...\n", "def one(): ...\n"),
            ],
            removed=[RemovedTest(name="test_two", why="two is gone")],
        ),
        ["removed_on_purpose"],
        True,
    ),
    "a feature is removed with its file": (
        SuiteRuns(
            ran({f"{B}::test_b": "."}),
            ran({f"{A}::test_two": ".", f"{B}::test_b": "."}),
            results({A: "E"}),
            changes=[TextChange(A, TWO, None), TextChange("src/two.py", "def two(): ...\n", None)],
            removed=[RemovedTest(name=A, why="two is gone")],
        ),
        ["removed_on_purpose"],
        True,
    ),
    "a project without tests": (
        SuiteRuns(ran({}, failed=False), ran({}, failed=False), changes=[SRC]),
        ["no_tests"],
        None,
    ),
    "a project without tests, with the first one": (
        SuiteRuns(ONLY_ONE, ran({}, failed=False), changes=[TextChange(A, None, ONE), SRC]),
        [],
        True,
    ),
    "end-to-end tests that the command does not run": (
        SuiteRuns(ONLY_ONE, changes=[TextChange("e2e/test_login.py", None, TWO)]),
        ["new_tests_not_run"],
        True,
    ),
    "a test of JUnit with a title of its own": (
        SuiteRuns(
            ran({"ATest.adds": ".", "ATest.adds two numbers": "."}),
            ran({"ATest.adds": "."}),
            changes=[TextChange("ATest.java", JUNIT, JUNIT.replace("}\n}", f"}}\n  {TITLED}\n}}"))],
        ),
        ["new_tests_not_run"],
        True,
    ),
    "a test of JUnit gets a title": (
        SuiteRuns(
            ran({"ATest.adds two numbers": "."}),
            ran({"ATest.adds": "."}),
            changes=[
                TextChange("ATest.java", JUNIT, JUNIT.replace("@Test", '@Test @DisplayName("adds two numbers")'))
            ],
        ),
        ["tests_reshaped"],
        True,
    ),
    "a helper that is called as a test is": (
        SuiteRuns(ONLY_ONE, changes=[TextChange("tests/factories.py", None, "def test_client(): return Client()\n")]),
        ["new_tests_not_run"],
        True,
    ),
    "one new test is left to another platform": (
        SuiteRuns(ran({f"{A}::test_one": ".", f"{B}::test_one": "."}), changes=[TextChange(B, None, BOTH)]),
        ["new_tests_not_run"],
        True,
    ),
    "a new test that is skipped here": (
        SuiteRuns(
            ran({f"{A}::test_one": ".", f"{B}::test_two": "s"}),
            changes=[TextChange(B, None, f"@pytest.mark.skipif(x)\n{TWO}")],
        ),
        [],
        True,
    ),
    "an xfail is fixed": (
        SuiteRuns(
            GREEN,
            ran({f"{A}::test_one": ".", f"{A}::test_two": "x"}),
            results({f"{A}::test_two": "X"}),
            changes=[TextChange(A, f"{ONE}\n@pytest.mark.xfail\n{TWO}", BOTH)],
        ),
        [],
        True,
    ),
    "names with addresses": (
        SuiteRuns(ran({f"{A}::test_all[<x at 0x2>]": "."}), ran({f"{A}::test_all[<x at 0x1>]": "."}), changes=[SRC]),
        [],
        True,
    ),
    "a parameter that the product makes goes, as the task says": (
        SuiteRuns(
            ran({f"{A}::test_all[two]": "."}),
            ran({f"{A}::test_all[one]": ".", f"{A}::test_all[two]": "."}),
            changes=[TextChange("src/shop.py", "def one(): return 1\n", "")],
            removed=[RemovedTest(name=f"{A}::test_all[one]", why="the task takes it out")],
        ),
        ["removed_on_purpose"],
        True,
    ),
    "titles of what the product says": (
        SuiteRuns(
            ran({"a.test.js > adds 1.1": "."}, source="jest"),
            ran({"a.test.js > adds 1.0": "."}, source="jest"),
            changes=[SRC],
        ),
        ["tests_reshaped"],
        True,
    ),
    "a test base in a class": (
        SuiteRuns(
            ran({f"{A}::TestSub::test_x": "."}),
            changes=[TextChange(A, None, "class Base:\n  def test_x(self): assert x\nclass TestSub(Base): ...\n")],
        ),
        [],
        True,
    ),
    "the test tool names nothing": (
        SuiteRuns(ran(executed=5), changes=[SRC]),
        [],
        True,
    ),
    "the old tests cannot be run alone": (
        SuiteRuns(GREEN, GREEN, "not possible", changes=[TextChange(A, BOTH, BOTH.replace("== 1", "== 3"))]),
        ["not_compared"],
        True,
    ),
    "a conftest gets a fixture": (
        SuiteRuns(GREEN, GREEN, OLD_GREEN, changes=[TextChange("conftest.py", "a = 1", "a = 1\nb = 2")]),
        [],
        True,
    ),
    "a Node project": (
        SuiteRuns(
            ran({"a.test.js > till > sums": "."}, source="jest"),
            ran({"a.test.js > till > adds": "."}, source="jest"),
            results({"a.test.js > till > adds": "."}),
            changes=[TextChange("a.test.js", JS_OLD, JS_OLD.replace("adds", "sums"))],
        ),
        [],
        True,
    ),
    "a table in a Node project": (
        SuiteRuns(
            ran({"a.test.js > adds 1": ".", "a.test.js > adds 2": "."}, source="jest"),
            changes=[TextChange("a.test.js", None, "it.each([1, 2])('adds %i', (n) => { expect(f(n)).toBe(n) })\n")],
        ),
        [],
        True,
    ),
    "a Go project": (
        SuiteRuns(
            ran({"example.test/shop.TestAdd/a": ".", "example.test/shop.TestNew": "."}, source="go"),
            changes=[TextChange("shop_test.go", None, GO_OLD + "func TestNew(t *testing.T) { t.Fatal() }\n")],
        ),
        [],
        True,
    ),
    "a Go test is renamed": (
        SuiteRuns(
            ran({"example.test/shop.TestSum": "."}, source="go"),
            ran({"example.test/shop.TestAdd": "."}, source="go"),
            results({"example.test/shop.TestAdd": "."}, source="go"),
            changes=[TextChange("shop_test.go", GO_OLD, GO_OLD.replace("TestAdd", "TestSum"))],
        ),
        [],
        True,
    ),
    "a Rust project": (
        SuiteRuns(
            ran({"shop tests::adds": ".", "tests/shop.rs whole": "."}, source="cargo"),
            changes=[
                TextChange("src/lib.rs", RUST_OLD, RUST_OLD.replace("{ 1 }", "{ 2 - 1 }")),
                TextChange("tests/shop.rs", None, "#[test]\nfn whole() { assert!(f()) }\n"),
            ],
        ),
        [],
        True,
    ),
    "a Rust test is renamed": (
        SuiteRuns(
            ran({"shop tests::sums": "."}, source="cargo"),
            ran({"shop tests::adds": "."}, source="cargo"),
            "not possible",
            changes=[TextChange("src/lib.rs", RUST_OLD, RUST_OLD.replace("adds", "sums"))],
        ),
        [],
        True,
    ),
}


@table(("proof", "expected"), list(DISHONEST.values()), ids=list(DISHONEST))
def test_dishonest_runs_are_held_back(proof: SuiteRuns, expected: list[str]) -> None:
    assert flags(compare(proof)) == expected


@table(("proof", "expected", "passed"), list(HONEST.values()), ids=list(HONEST))
def test_honest_runs_are_left_alone(proof: SuiteRuns, expected: list[str], passed: bool | None) -> None:  # noqa: FBT001
    found = compare(proof)
    assert flags(found) == expected
    assert not any(each.blocking for each in found.findings)
    assert found.passed is passed


RED = ran({f"{A}::test_one": "F"})
NEEDS: dict[str, tuple[list[TextChange], SuiteRun, bool]] = {
    "product code": ([SRC], GREEN, False),
    "a new test file": ([TextChange(B, None, TWO)], GREEN, False),
    "an existing test": ([TextChange(A, ONE, ONE.replace("1", "2"))], GREEN, True),
    "harness": ([TextChange("conftest.py", None, "a = 1")], GREEN, True),
    "red, as it may have been": ([SRC], RED, True),
    "red by a new test": ([TextChange(A, None, ONE)], RED, False),
    "red without a name": ([SRC], ran(failed=True), True),
    "nothing ran": ([SRC], ran({}, failed=False), True),
}


@table(("changes", "final", "needed"), list(NEEDS.values()), ids=list(NEEDS))
def test_a_rehearsal_has_the_base_tested_only_where_it_decides(
    changes: list[TextChange],
    final: SuiteRun,
    needed: bool,  # noqa: FBT001
) -> None:
    assert needs_base(read_changes(changes), final, may_land=False) is needed
    assert needs_base(read_changes(changes), final, may_land=True)


def test_a_changed_expectation_shows_both_lines() -> None:
    proof, _, _ = HONEST["an expectation changes, as the task says"]
    (found,) = compare(proof).findings
    assert found.fact == (
        f"{A}::test_one: was `assert one() == 1`, is `assert one() == 3`; the old version fails on the new code"
    )


def test_what_was_removed_on_purpose_is_told_with_its_subject() -> None:
    proof, _, _ = HONEST["a feature is removed with its tests"]
    (found,) = compare(proof).findings
    assert (found.names, found.fact) == (
        (f"{A}::test_two",),
        f"removed with what they tested: {A}::test_two with two",
    )


def test_excused_and_flaky_names_are_told() -> None:
    base = ran({f"{A}::test_one": "F", f"{A}::test_two": ".", f"{B}::test_b": "."})
    final = ran({f"{A}::test_one": "F", f"{A}::test_two": "F", f"{B}::test_b": "F"})
    alone = results({f"{A}::test_two": ".", f"{B}::test_b": "F"})
    found = compare(SuiteRuns(final, base, alone=alone, changes=[SRC]))
    by_flag = {each.flag: each.names for each in found.findings}
    assert (by_flag["red_before"], by_flag["flaky"], found.passed) == (
        (f"{A}::test_one",),
        (f"{A}::test_two",),
        False,
    )
    assert flags(found) == ["red_before", "flaky", "tests_red!"]


@pytest.mark.soak
def test_twenty_thousand_names_are_compared_in_seconds() -> None:
    names = [f"tests/test_{number % 500}.py::test_{number}" for number in range(20_000)]
    texts: dict[str, list[str]] = {f"tests/test_{number}.py": [] for number in range(500)}
    for number in range(20_000):
        texts[f"tests/test_{number % 500}.py"].append(f"def test_{number}(): assert f({number})\n")
    changes = [TextChange(path, "".join(lines), "".join(lines[:20])) for path, lines in texts.items()]
    started = time.process_time()
    kept = [name for name in names if int(name.rpartition("_")[2]) < 10_000]
    found = compare(
        SuiteRuns(ran(dict.fromkeys(kept, ".")), ran(dict.fromkeys(names, ".")), results({}), changes=changes)
    )
    assert [len(each.names) for each in found.findings] == [10_000]
    assert time.process_time() - started < 30


BESIDE = SuiteRuns(GREEN, GREEN, changes=[SRC], leftovers=("lib/",))
UNNAMED = SuiteRuns(ran(executed=2), GREEN, changes=[SRC], leftovers=("lib/",), needs_leftovers=True)
CASE_OF_CRITERION = frozenset({f"{A}::test_two"})
IGNORED: dict[str, tuple[SuiteRuns, list[str]]] = {
    "as good without them": (replace(BESIDE, committed=GREEN), []),
    "a test fails without them": (replace(BESIDE, committed=ran({A: "E"}), needs_leftovers=True), ["not_in_commit!"]),
    "a test does not run without them": (
        replace(BESIDE, committed=ONLY_ONE, needs_leftovers=True),
        ["not_in_commit"],
    ),
    "a criterion's test does not run without them": (
        replace(BESIDE, committed=ONLY_ONE, needs_leftovers=True, criteria=CASE_OF_CRITERION),
        ["not_in_commit!"],
    ),
    "a test fails beside them too": (replace(BESIDE, committed=ran({A: "E"})), ["not_compared"]),
    "the base cannot be tested either": (
        replace(BESIDE, base=ran({A: "E"}), committed=ran({A: "E"}), needs_leftovers=True),
        ["not_in_commit"],
    ),
    "the base has a failure, and can be tested": (
        replace(
            BESIDE,
            base=ran({f"{A}::test_one": ".", f"{A}::test_two": "F"}),
            committed=ran({A: "E"}),
            needs_leftovers=True,
        ),
        ["not_in_commit!"],
    ),
    "the setup fails without them": (replace(BESIDE, committed="setup failed"), ["not_in_commit!"]),
    "no time": (replace(BESIDE, committed="no time"), ["not_compared"]),
    "fewer by a tool without names": (
        replace(UNNAMED, base=ran(executed=2), committed=ran(executed=1)),
        ["not_in_commit"],
    ),
}


@table(("runs", "expected"), list(IGNORED.values()), ids=list(IGNORED))
def test_tests_have_to_pass_without_what_git_ignores(runs: SuiteRuns, expected: list[str]) -> None:
    found = compare(runs)
    assert (flags(found), found.passed) == (expected, True)
    assert all(each.names == ("lib/",) for each in found.findings)


LONG_JS = "test('long', () => { assert.equal(f(), 1) })\n"
NODE = ran({"long": ".", "short": "."})
BROKEN_JS = ran({"a.test.js": "E"})
INDEX_JS = TextChange("index.js", "", "throw 1\n")
MISSING: dict[str, tuple[SuiteRuns, list[str]]] = {
    "a file that cannot be loaded, by a tool that names no files": (
        SuiteRuns(BROKEN_JS, NODE, changes=[INDEX_JS]),
        ["tests_not_run!", "tests_red!"],
    ),
    "the same, and the file has more tests": (
        SuiteRuns(
            BROKEN_JS, NODE, changes=[INDEX_JS, TextChange("a.test.js", LONG_JS, f"{LONG_JS}test('new', f)\n")]
        ),
        ["tests_not_run!", "tests_red!"],
    ),
    "the command ends at the first failure": (
        SuiteRuns(ran({f"{A}::test_one": "F"}), GREEN, changes=[SRC]),
        ["tests_not_run!", "tests_red!"],
    ),
    "a test is gone from its file, and another fails": (
        SuiteRuns(ran({"short": "F"}), NODE, changes=[INDEX_JS, TextChange("a.test.js", LONG_JS, "// none\n")]),
        ["tests_deleted!", "tests_red!"],
    ),
    "the test file is gone, and another fails": (
        SuiteRuns(ran({"short": "F"}), NODE, changes=[INDEX_JS, TextChange("a.test.js", LONG_JS, None)]),
        ["tests_deleted!", "tests_red!"],
    ),
    "the script names fewer files, and one fails": (
        SuiteRuns(
            ran({"short": "F"}),
            NODE,
            changes=[TextChange("package.json", '{"scripts": {"test": "a b"}}', '{"scripts": {"test": "b"}}')],
        ),
        ["tests_deleted!", "tests_red!", "harness_changed"],
    ),
    "a case is gone, and another of its test fails": (
        SuiteRuns(
            ran({f"{A}::test_all[1]": "F"}),
            ran({f"{A}::test_all[1]": ".", f"{A}::test_all[2]": "."}),
            changes=[TextChange("cases.json", "[1, 2]", "[1]")],
        ),
        ["tests_deleted!", "tests_red!"],
    ),
    "a test is gone, and what fails did so on the base": (
        SuiteRuns(ran({f"{A}::test_one": "F"}), ran({f"{A}::test_one": "F", f"{A}::test_two": "."}), changes=[SRC]),
        ["tests_deleted!", "red_before"],
    ),
    "a test is gone, and the command is green": (
        SuiteRuns(ran({"short": "."}), NODE, changes=[INDEX_JS]),
        ["tests_deleted!"],
    ),
}


@table(("runs", "expected"), list(MISSING.values()), ids=list(MISSING))
def test_a_test_that_is_there_and_did_not_run_is_not_called_deleted(runs: SuiteRuns, expected: list[str]) -> None:
    assert flags(compare(runs)) == expected
