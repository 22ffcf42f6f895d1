"""What the diff of one step shows about tests, by its text alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.test_changes import judge_change, read_changes
from gitswarm.records.envelope import RemovedTest
from tests.tables import table

A, B = "tests/test_a.py", "tests/test_b.py"
ONE = "def test_one():\n    assert one() == 1\n"
TWO = "def test_two():\n    assert two() == 2\n"
BOTH = f"import shop\n\n{ONE}\n{TWO}"
SKIPPED = ONE.replace("def", "@pytest.mark.skip\ndef")
SCRIPT = "it('adds', () => { expect(f()).toBe(1) })\n"
RUST = "#[test]\nfn a() { assert_eq!(f(), 1); }\n"
CLASS = "class TestX:\n  def test_a(self): assert x\n"
MERGED = "@pytest.mark.parametrize('x', [1, 2])\ndef test_all(x):\n    assert f(x) == x\n"

DELETED, WEAKENED = "tests_deleted", "tests_weakened"
Row = tuple[str, list[TextChange], list[tuple[str, bool, tuple[str, ...]]]]

DISHONEST: list[Row] = [
    (
        "a test file is deleted",
        [TextChange(A, BOTH, None)],
        [(DELETED, True, (f"{A}::test_one", f"{A}::test_two"))],
    ),
    (
        "the only assertion of a script is commented out",
        [TextChange("a.test.js", SCRIPT, "it('adds', () => {\n  // expect(f()).toBe(1)\n})\n")],
        [(WEAKENED, True, ("a.test.js::adds",))],
    ),
    (
        "of a deleted file one test is moved",
        [TextChange(A, BOTH, None), TextChange(B, None, ONE)],
        [(DELETED, True, (f"{A}::test_two",))],
    ),
    (
        "a deleted file, and one with another body under the same name",
        [TextChange(A, ONE, None), TextChange(B, None, "def test_one():\n    assert True\n")],
        [(DELETED, True, (f"{A}::test_one",))],
    ),
    (
        "a file is renamed to what is no test file",
        [TextChange("old/a.txt", ONE, ONE, old_path=A)],
        [(DELETED, True, (f"{A}::test_one",))],
    ),
    (
        "a file is emptied",
        [TextChange(A, BOTH, "# later\n")],
        [(WEAKENED, True, (f"{A}::test_one", f"{A}::test_two"))],
    ),
    (
        "every assertion becomes True",
        [TextChange(A, BOTH, BOTH.replace("one() == 1", "True").replace("two() == 2", "True"))],
        [(WEAKENED, True, (f"{A}::test_one", f"{A}::test_two"))],
    ),
    (
        "or True",
        [TextChange(A, ONE, ONE.replace("== 1", "== 1 or True"))],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    (
        "what fails is swallowed",
        [TextChange(A, ONE, "def test_one():\n  try:\n    assert one() == 1\n  except Exception:\n    pass\n")],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    (
        "return before the assertion",
        [TextChange(A, ONE, ONE.replace("    assert", "    return\n    assert"))],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    ("skip is added", [TextChange(A, ONE, SKIPPED)], [(WEAKENED, True, (f"{A}::test_one",))]),
    (
        "skip is added with a new name",
        [TextChange(A, ONE, SKIPPED.replace("test_one", "test_uno"))],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    (
        "xfail is added to the module",
        [TextChange(A, BOTH, f"import pytest\npytestmark = pytest.mark.xfail\n{BOTH}")],
        [(WEAKENED, True, (f"{A}::test_one", f"{A}::test_two"))],
    ),
    (
        "skipif that is always true",
        [TextChange(A, ONE, ONE.replace("def", "@pytest.mark.skipif(1 == 1, reason='x')\ndef"))],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    (
        "moved and skipped",
        [TextChange(A, ONE, None), TextChange(B, None, SKIPPED)],
        [(WEAKENED, True, (f"{A}::test_one",))],
    ),
    (
        "it.skip",
        [TextChange("a.test.js", SCRIPT, SCRIPT.replace("it(", "it.skip("))],
        [(WEAKENED, True, ("a.test.js::adds",))],
    ),
    (
        "#[ignore]",
        [TextChange("src/a.rs", RUST, RUST.replace("fn", "#[ignore]\nfn"))],
        [(WEAKENED, True, ("src/a.rs::a",))],
    ),
    (
        "a Go test file is deleted",
        [TextChange("a_test.go", "func TestA(t *testing.T) { t.Fatal() }\n", None)],
        [(DELETED, True, ("a_test.go::TestA",))],
    ),
]
HONEST: list[Row] = [
    ("a test is added", [TextChange(A, ONE, BOTH)], []),
    ("a new file", [TextChange(A, None, BOTH)], []),
    ("a file is renamed", [TextChange(B, BOTH, BOTH, old_path=A)], []),
    (
        "a file is split",
        [TextChange(A, BOTH, None), TextChange(B, None, ONE), TextChange("tests/test_c.py", None, TWO)],
        [],
    ),
    (
        "a test is moved and renamed",
        [TextChange(A, BOTH, TWO), TextChange(B, None, ONE.replace("test_one", "test_uno"))],
        [],
    ),
    ("an expectation is changed", [TextChange(A, ONE, ONE.replace("== 1", "== 3"))], []),
    ("formatting", [TextChange(A, ONE, "def test_one(  ):\n    # why\n    assert (one() == 1)\n")], []),
    ("a skip is removed", [TextChange(A, SKIPPED, ONE)], []),
    ("product code", [TextChange("src/shop.py", "def test_one(): assert x", None)], []),
    ("a fixture", [TextChange(A, f"@pytest.fixture\ndef test_data():\n    assert x\n{ONE}", ONE)], []),
    ("a smoke test stays one", [TextChange(A, "def test_one():\n    one()\n", "def test_one():\n    one(2)\n")], []),
    (
        "an assertion moves to a helper",
        [TextChange(A, ONE, "def same(a, b):\n    assert a == b\ndef test_one():\n    same(one(), 1)\n")],
        [],
    ),
]
WARNED: list[Row] = [
    ("one of two tests goes", [TextChange(A, BOTH, ONE)], [(DELETED, False, (f"{A}::test_two",))]),
    (
        "a table is merged",
        [TextChange(A, BOTH, MERGED)],
        [(DELETED, False, (f"{A}::test_one", f"{A}::test_two"))],
    ),
    (
        "one of two compares nothing",
        [TextChange(A, BOTH, BOTH.replace("two() == 2", "True"))],
        [(WEAKENED, False, (f"{A}::test_two",))],
    ),
    (
        "a skip for one platform",
        [TextChange(A, ONE, ONE.replace("def", "@pytest.mark.skipif(sys.platform == 'win32', reason='x')\ndef"))],
        [(WEAKENED, False, (f"{A}::test_one",))],
    ),
    (
        "a test whose title is a variable by now",
        [TextChange("a.test.js", SCRIPT, "for (const c of cases) it(c.name, () => { expect(f(c)).toBe(1) })\n")],
        [(DELETED, False, ("a.test.js::adds",))],
    ),
    (
        "a name that pytest does not collect",
        [TextChange("tests/a.py", ONE, ONE, old_path=A)],
        [(DELETED, False, (f"{A}::test_one",))],
    ),
]


@table(("changes", "expected"), [row[1:] for row in DISHONEST], ids=[row[0] for row in DISHONEST])
def test_dishonest_changes_are_held_back(
    changes: list[TextChange], expected: list[tuple[str, bool, tuple[str, ...]]]
) -> None:
    assert [(each.flag, each.blocking, each.names) for each in judge_change(changes)] == expected


@table(("changes", "expected"), [row[1:] for row in HONEST], ids=[row[0] for row in HONEST])
def test_honest_changes_are_left_alone(
    changes: list[TextChange], expected: list[tuple[str, bool, tuple[str, ...]]]
) -> None:
    assert [(each.flag, each.blocking, each.names) for each in judge_change(changes)] == expected


@table(("changes", "expected"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED])
def test_the_rest_is_a_warning(changes: list[TextChange], expected: list[tuple[str, bool, tuple[str, ...]]]) -> None:
    assert [(each.flag, each.blocking, each.names) for each in judge_change(changes)] == expected


@table("name", ["test_one", f"{A}::test_one", A], ids=["own", "whole", "file"])
def test_a_declared_removal_is_a_warning(name: str) -> None:
    found = judge_change([TextChange(A, ONE, None)], [RemovedTest(name=name, why="gone")])
    assert [(each.flag, each.blocking) for each in found] == [(DELETED, False)]


def test_a_finding_tells_lines() -> None:
    (found,) = judge_change([TextChange(A, BOTH, None)])
    assert found.fact == f"gone with their file: test_one ({A}:3), test_two ({A}:6)"


IMPORTING = f"import shop\n\n{ONE}"
STANDING = [
    ("word for word", B, BOTH, True),
    ("under another name", B, IMPORTING.replace("test_one", "test_other"), True),
    ("with another result", B, IMPORTING.replace("1", "3"), False),
    ("about something else", B, IMPORTING.replace("import", "import other as"), False),
    ("in another folder", "other/test_b.py", IMPORTING, False),
    ("skipped", B, IMPORTING.replace("def test", "@pytest.mark.skip\ndef test"), False),
]


@table(("path", "text", "is_kept"), [row[1:] for row in STANDING], ids=[row[0] for row in STANDING])
def test_a_test_is_kept_by_one_that_nobody_touched(path: str, text: str, is_kept: bool) -> None:  # noqa: FBT001
    found = judge_change([TextChange(A, IMPORTING, None)], untouched=[(path, text)])
    assert (found == ()) is is_kept


def test_one_test_stands_for_one() -> None:
    again = ONE + ONE.replace("test_one", "test_again")
    (found,) = judge_change([TextChange(A, again, None)], untouched=[("tests/test_b.py", ONE)])
    assert (found.flag, found.blocking, len(found.names)) == (DELETED, True, 1)


TOUCHED = [
    ("a whole test and an import are added", ONE, f"import math\n{ONE}{TWO}", False),
    ("a method is added", CLASS, f"{CLASS}  def test_b(self): assert y", False),
    ("an expectation is changed", ONE, ONE.replace("1", "3"), True),
    ("a helper is changed", f"x = 1\n{ONE}", f"x = 2\n{ONE}", True),
    ("a fixture is added", ONE, f"@pytest.fixture(autouse=True)\ndef one(): ...\n{ONE}", True),
    ("an import takes a name", ONE, f"from cheat import one\n{ONE}", True),
    ("a test is redefined", ONE, f"{ONE}\ndef test_one():\n    pass\n", True),
    ("a mark for all is added", ONE, f"pytestmark = []\n{ONE}", True),
    ("a star import", ONE, f"from x import *\n{ONE}", True),
    ("a test with marks", ONE, f"{ONE}@pytest.mark.parametrize('x', [pytest.param(1), (2)])\n{TWO.lstrip()}", False),
    ("a test with drawn arguments", ONE, f"{ONE}@given(st.integers())\n{TWO.lstrip()}", False),
    ("a default that calls", ONE, f"{ONE}\ndef test_two(x=work()): ...\n", True),
    ("an annotation that calls", ONE, f"{ONE}\ndef test_two(x: work()): ...\n", True),
    ("a mark that calls", ONE, f"{ONE}@pytest.mark.x(work())\n{TWO.lstrip()}", True),
    ("a decorator that calls", ONE, f"{ONE}@work()\n{TWO.lstrip()}", True),
    ("a class that calls", ONE, f"{ONE}\nclass TestX:\n  work()\n", True),
    ("a class whose class calls", ONE, f"{ONE}\nclass TestX(metaclass=Work): ...\n", True),
    ("a method whose default calls", ONE, f"{ONE}\nclass TestX:\n  def test_a(self, x=work()): ...\n", True),
    ("a test that changes the product", ONE, f"{ONE}\ndef test_two():\n  import app\n  app.total = sum\n", True),
    ("a new file", None, ONE, False),
    ("a deleted file", ONE, None, True),
]


@table(("before", "after", "touched"), [row[1:] for row in TOUCHED], ids=[row[0] for row in TOUCHED])
def test_existing_tests_are_touched(before: str | None, after: str | None, touched: bool) -> None:  # noqa: FBT001
    found = read_changes([TextChange(A, before, after)])
    assert found.touches_tests is touched
    assert found.old_files == ((A,) if touched else ())


def test_a_script_that_only_gets_tests_is_not_touched() -> None:
    before = "test('a', () => { expect(a).toBe(1) })\n"
    more = "test('b', () => { expect(b).toBe(1) })\n"
    assert not read_changes([TextChange("a.test.js", before, before + more)]).touched
    assert read_changes([TextChange("a.test.js", before, f"jest.mock('./a')\n{more}")]).touched == {"a.test.js"}


def test_product_code_beside_tests_of_rust_is_no_test() -> None:
    before = "fn f() -> i32 { 1 }\n#[test]\nfn a() { assert_eq!(f(), 1); }\n"
    assert not read_changes([TextChange("src/a.rs", before, before.replace("{ 1 }", "{ 2 - 1 }"))]).touches_tests
    changed = read_changes([TextChange("src/a.rs", before, before.replace("f(), 1", "f(), 2"))])
    assert (changed.touches_tests, changed.old_files) == (True, ())


def test_harness_is_restored_or_taken_out() -> None:
    found = read_changes(
        [
            TextChange("conftest.py", "a = 1\n", "a = 2\n"),
            TextChange("tests/conftest.py", None, "a = 2\n"),
            TextChange("pyproject.toml", "[project]\n", "[project]\nversion = '2'\n"),
        ]
    )
    assert (found.touches_tests, found.old_files, found.new_harness) == (
        True,
        ("conftest.py",),
        ("tests/conftest.py",),
    )


TEXT = st.none() | st.sampled_from([ONE, TWO, BOTH, MERGED, SKIPPED, "", "def (", "pytestmark = 1"])
CHANGES = st.builds(TextChange, st.sampled_from([A, B, "a.test.js", "conftest.py", "x.rs"]), TEXT, TEXT)


@given(st.lists(CHANGES, max_size=4))
def test_no_change_raises(changes: list[TextChange]) -> None:
    judge_change(changes)
    assert read_changes(changes).touches_tests in {True, False}
