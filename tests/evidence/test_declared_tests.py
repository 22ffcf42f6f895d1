"""Tests as files declare them: names, bodies, marks, comparisons."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitswarm.evidence.declarations import DeclaredTest
from gitswarm.evidence.declared_tests import read_tests
from tests.tables import table

PY = "tests/test_a.py"

COMPARES = {
    "an assert": "assert total([1]) == 1",
    "in a loop": "for x in y:\n  assert x",
    "raises": "with pytest.raises(ValueError):\n  total(None)",
    "unittest": "self.assertEqual(total([1]), 1)",
    "a mock": "sent.assert_called_once_with(1)",
    "numpy": "np.testing.assert_allclose(a, b)",
    "an imported helper": "check_total(3)",
    "a local helper": "same(1)",
    "a fixture of the file": "pass\ndef test_other(watched): work()",
    "a raise": "if not total([1]):\n  raise ValueError",
    "fail": "if x:\n  pytest.fail('no')",
    "with a handler that fails": "try:\n  assert x()\nexcept AssertionError:\n  pytest.fail('no')",
    "other handlers": "try:\n  assert x()\nexcept ValueError:\n  pass",
    "tuples": "self.assertEqual((a, b), (1, 2))",
    "a helper of other tests": "run_case(3)",
    "a call twice": "assert roll() == roll()",
    "a list that is compared": "assert [total([1])] == [1]",
    "all of a list": "assert all([total([1]) == 1, total([]) == 0])",
    "all of what there is": "assert all(price > 0 for price in prices)",
    "a list of what there is": "assert [*prices]",
    "a chain": "assert 0 < total([1]) < 2",
    "text with a value": "assert f'{total([1])}'",
    "either of two": "assert total([1]) if x else total([2])",
    "a name within": "assert (y := total([1])) == 1",
    "that it is something": "self.assertIsNotNone(total([1]))",
    "in a loop of three": "for i in range(3):\n  assert total([i]) == i",
    "a finally that ends": "try:\n  assert total([1]) == 1\nfinally:\n  for x in y:\n    break",
    "a handler that compares": "try:\n  assert x()\nexcept AssertionError as error:\n  assert error.args",
    "a handler that asserts False": "try:\n  assert x()\nexcept AssertionError:\n  assert False, 'no'",
    "a handler that fails by unittest": "try:\n  assert x()\nexcept Exception:\n  self.assertTrue(False)",
    "a match": "match total([1]):\n  case 1:\n    pass\n  case _:\n    raise AssertionError",
    "a match of a constant": "match 2:\n  case 2:\n    assert total([1]) == 1",
    "a membership": "self.assertIn(total([1]), [1, 2])",
}
VOID = {
    "nothing": "pass",
    "only calls": "total([1])",
    "True": "assert True",
    "literals": "assert 1 == 1",
    "text": "assert 'total'",
    "or True": "assert total([1]) == 2 or True",
    "a tuple": "assert (total([1]) == 2, 'no')",
    "itself": "assert result == result",
    "assertTrue(True)": "self.assertTrue(True)",
    "assertEqual of one": "self.assertEqual(x, x)",
    "after return": "return\nassert total([1]) == 1",
    "if False": "if False:\n  assert total([1]) == 1",
    "swallowed": "try:\n  assert total([1]) == 1\nexcept AssertionError:\n  pass",
    "swallowed by all": "try:\n  assert total([1]) == 1\nexcept:\n  print('no')",
    "suppressed": "with contextlib.suppress(Exception):\n  assert total([1]) == 1",
    "a local helper that does nothing": "check_nothing(1)",
    "what a helper of other tests makes": "case = run_case(3)",
    "a check that is a word": "checkout(1)",
    "a list": "assert [total([1]) == 2]",
    "a set": "assert {total([1]) == 2}",
    "a dictionary": "assert {'a': total([1]) == 2}",
    "a lambda": "assert lambda: total([1]) == 2",
    "a generator": "assert (total([x]) == 2 for x in y)",
    "text around a value": "assert f'got {total([1])}'",
    "a negative number": "assert -1",
    "a sum": "assert 1 + 1 == 2",
    "a chain of constants": "assert 1 < 2 < 3",
    "a nested comparison": "assert True == (1 == 1)",
    "a member": "assert 1 in (1, 2)",
    "a builtin of a constant": "assert bool(1)",
    "all of nothing": "assert all([])",
    "all of an empty loop": "assert all(total([x]) == 2 for x in [])",
    "any with True": "assert any([total([1]) == 2, True])",
    "both true": "assert 1 if total([1]) else 2",
    "a named constant": "assert (y := 1)",
    "no None": "assert (total([1]) == 2) is not None",
    "assertTrue of a list": "self.assertTrue([total([1]) == 2])",
    "assertTrue or True": "self.assertTrue(total([1]) == 2 or True, message)",
    "assertIsNotNone of a comparison": "self.assertIsNotNone(total([1]) == 2)",
    "a loop over nothing": "for _ in []:\n  assert total([1]) == 1",
    "a loop of no rounds": "for _ in range(0):\n  assert total([1]) == 1",
    "a loop over an empty tuple": "for _ in ():\n  assert total([1]) == 1",
    "behind continue": "for _ in y:\n  continue\n  assert total([1]) == 1",
    "while type checking": "if typing.TYPE_CHECKING:\n  assert total([1]) == 1",
    "another case": "match 1:\n  case 2:\n    assert total([1]) == 1",
    "a guard": "match total([1]):\n  case _ if False:\n    assert total([1]) == 1",
    "a finally that returns": "try:\n  assert total([1]) == 1\nfinally:\n  return",
    "a finally that breaks": "for _ in y:\n  try:\n    assert total([1]) == 1\n  finally:\n    if 1:\n      break",
    "a handler that asserts nothing": "try:\n  assert total([1]) == 1\nexcept AssertionError:\n  assert 1 == 1",
    "a handler that asserts True": "try:\n  assert total([1]) == 1\nexcept:\n  self.assertTrue(True)",
    "a handler that never raises": "try:\n  assert total([1]) == 1\nexcept:\n  if 0:\n    raise",
    "a handler that skips": "try:\n  assert total([1]) == 1\nexcept Exception:\n  raise SkipTest",
    "a handler of what is unpacked": "try:\n  assert total([1]) == 1\nexcept (*[AssertionError],):\n  pass",
    "suppressed by what is unpacked": "with suppress(*[AssertionError]):\n  assert total([1]) == 1",
}
HELPERS = """
from tests.cases import run_case
def same(x):
    assert total([x]) == x
def check_nothing(x):
    pass
@pytest.fixture
def watched():
    yield
    assert not errors
"""


def body(lines: str) -> str:
    return HELPERS + "def test_it():\n" + "".join(f"  {line}\n" for line in lines.splitlines())


@table("lines", COMPARES.values(), ids=list(COMPARES))
def test_a_test_compares(lines: str) -> None:
    text = body(lines).replace("  def test_other", "def test_other")
    assert read_tests(PY, text).tests[-1].compares


@table("lines", VOID.values(), ids=list(VOID))
def test_a_test_compares_nothing(lines: str) -> None:
    assert not read_tests(PY, body(lines)).tests[-1].compares


MARKS = [
    ("@pytest.mark.skip\ndef test_a(): assert x", "skip"),
    ("@pytest.mark.skip(reason='later')\ndef test_a(): assert x", "skip"),
    ("@pytest.mark.skipif(True, reason='x')\ndef test_a(): assert x", "skip"),
    ("@pytest.mark.skipif(False, reason='x')\ndef test_a(): assert x", ""),
    ("@pytest.mark.skipif(sys.platform == 'win32', reason='x')\ndef test_a(): assert x", "skipif"),
    ("@pytest.mark.skipif('sys.version_info < (3, 9)')\ndef test_a(): assert x", "skipif"),
    ("@pytest.mark.xfail\ndef test_a(): assert x", "xfail"),
    ("@xfail(strict=True)\ndef test_a(): assert x", "xfail"),
    ("slow = pytest.mark.skip\n@slow\ndef test_a(): assert x", "skip"),
    ("pytestmark = pytest.mark.skip\ndef test_a(): assert x", "skip"),
    ("pytestmark = [pytest.mark.slow, pytest.mark.xfail]\ndef test_a(): assert x", "xfail"),
    ("pytest.skip('no', allow_module_level=True)\ndef test_a(): assert x", "skip"),
    ("if sys.platform == 'x':\n  pytest.skip('no')\ndef test_a(): assert x", "skipif"),
    ("numpy = pytest.importorskip('numpy')\ndef test_a(): assert x", "skipif"),
    ("def test_a():\n  pytest.skip('later')\n  assert x", "skip"),
    ("def test_a():\n  if not here():\n    pytest.skip('later')\n  assert x", "skipif"),
    ("def test_a(request):\n  pytest.xfail('known')", "xfail"),
    ("def test_a():\n  raise unittest.SkipTest", "skip"),
    ("@pytest.mark.skip\nclass TestX:\n  def test_a(self): assert x", "skip"),
    ("class TestX:\n  pytestmark = pytest.mark.xfail\n  def test_a(self): assert x", "xfail"),
    ("class TestX:\n  __test__ = False\n  def test_a(self): assert x", "skip"),
    ("class X(TestCase):\n  @unittest.skip('no')\n  def test_a(self): self.assertTrue(x)", "skip"),
    ("class X(TestCase):\n  @unittest.expectedFailure\n  def test_a(self): self.assertTrue(x)", "xfail"),
    ("class X(TestCase):\n  @unittest.skipUnless(False, 'no')\n  def test_a(self): self.assertTrue(x)", "skip"),
    ("@skip_on_windows\ndef test_a(): assert x", "skipif"),
    ("@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.xfail)])\ndef test_a(x): assert x", "xfail"),
    ("@pytest.mark.parametrize('x', [1])\n@pytest.mark.slow\ndef test_a(x): assert x", ""),
    ("def test_a():\n  path.skip()\n  assert x", ""),
]


@table(("text", "mark"), MARKS, ids=[text for text, _ in MARKS])
def test_marks_are_found(text: str, mark: str) -> None:
    assert [test.mark for test in read_tests(PY, text).tests] == [mark]


def names(path: str, text: str) -> list[str]:
    return [test.name for test in read_tests(path, text).tests]


def test_names_are_qualified() -> None:
    text = (
        "def test_a(): ...\nclass TestX:\n  class TestIn:\n    async def test_b(self): ...\n  def help(self): ...\n"
        "if sys.platform == 'linux':\n  def test_c(): ...\nif False:\n  def test_never(): ...\n"
        "def _test_d(): ...\ndef test_a(): ...\n"
    )
    assert names(PY, text) == ["TestX::TestIn::test_b", "test_c", "test_a"]


def one(text: str) -> DeclaredTest:
    (found,) = read_tests(PY, text).tests
    return found


SAME = [
    ("def test_b():\n    # why\n    assert total( [1] ) == 1", "def test_renamed():\n  assert total([1]) == 1"),
    ("def test_b():\n    'old'\n    assert x", "def test_b():\n    'new'\n    assert x"),
    ("def test_b(): assert x", "@pytest.mark.skip\ndef test_b(): assert x"),
]
OTHER = [
    ("def test_b(): assert x == 1", "def test_b(): assert x == 2"),
    ("def test_b(a): assert x", "def test_b(b): assert x"),
    (
        "@pytest.mark.parametrize('x', [1])\ndef test_b(x): assert x",
        "@pytest.mark.parametrize('x', [2])\ndef test_b(x): assert x",
    ),
]


@table(("text", "again"), SAME, ids=["layout and name", "docstring", "mark"])
def test_a_body_is_the_same_whatever_it_is_called(text: str, again: str) -> None:
    assert one(text).body == one(again).body


@table(("text", "other"), OTHER, ids=["expectation", "argument", "parameters"])
def test_a_body_that_does_something_else_is_another(text: str, other: str) -> None:
    assert one(text).body != one(other).body


OTHERS: list[tuple[str, str, list[tuple[str, bool, str]]]] = [
    (
        "a.test.ts",
        (
            "describe('total', () => {\n  it('adds', () => { expect(total([1])).toBe(1); });\n"
            "  it.skip('later', () => { expect(1).toBe(x) });\n\n"
            "  test.each([1])('n %i', (n) => { expect(true).toBe(true) });\n"
            "  xit('never', () => {});\n  test.failing('bad', () => { expect(f()).toBe(1) });\n});\n"
        ),
        [
            ("adds", True, ""),
            ("later", True, "skip"),
            ("n %i", False, ""),
            ("never", False, "skip"),
            ("bad", True, "xfail"),
        ],
    ),
    (
        "b.test.js",
        (
            "describe.skip('x', () => {\n  test('a', () => { expect(b).toBe(1) })\n})\n"
            "test('c', () => { assert(c()) })\n"
        ),
        [("a", True, "skip"), ("c", True, "")],
    ),
    (
        "c.test.js",
        "test.only('a', () => { expect(b).toBe(1) })\ntest('c', () => { assert(c()) })\n",
        [("a", True, ""), ("c", True, "skip")],
    ),
    (
        "a_test.go",
        (
            'func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Errorf("no")\n'
            "\t}\n}\nfunc TestB(t *testing.T) { f() }\n"
            'func TestC(t *testing.T) { t.Skip("later")\n\tt.Fatal() }\n'
            "func TestD(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n\trequire.Equal(t, f(), 1)\n}\n"
            "func ExampleE() {\n\tf()\n\t// Output: 1\n}\n"
        ),
        [
            ("TestA", True, ""),
            ("TestB", False, ""),
            ("TestC", True, "skip"),
            ("TestD", True, "skipif"),
            ("ExampleE", True, ""),
        ],
    ),
    (
        "src/lib.rs",
        (
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(f(&'a'), 1); }\n"
            "    #[test]\n    #[ignore]\n"
            "    fn slow<'a>() { assert!(x) }\n    #[test]\n    fn empty() { assert!(true); }\n}\n"
        ),
        [("adds", True, ""), ("slow", True, "skip"), ("empty", False, "")],
    ),
    (
        "src/test/java/ATest.java",
        (
            "  @Test\n  void adds() { assertEquals(1, f()); }\n  @Test\n"
            '  @Disabled("x")\n  void off() { verify(m); }\n'
            "  @Test\n  public void none() { f(); }\n"
        ),
        [("adds", True, ""), ("off", True, "skip"), ("none", False, "")],
    ),
    (
        "spec/a_spec.rb",
        (
            "describe A do\n  it 'adds' do\n    expect(f).to eq 1\n  end\n"
            "  xit 'off' do\n    expect(f).to eq 1\n  end\n"
            "  it 'none' do\n    f\n  end\nend\n"
        ),
        [("adds", True, ""), ("off", True, "skip"), ("none", False, "")],
    ),
    (
        "ATests.cs",
        (
            "  [Fact]\n  public void Adds() { Assert.Equal(1, F()); }\n"
            '  [Fact(Skip = "x")]\n  public void Off() { Assert.True(F()); }\n'
        ),
        [("Adds", True, ""), ("Off", True, "skip")],
    ),
    (
        "ATest.php",
        (
            "  public function testAdds(): void { $this->assertSame(1, f()); }\n"
            "  public function testOff(): void { $this->markTestSkipped(); }\n"
        ),
        [("testAdds", True, ""), ("testOff", False, "skip")],
    ),
    (
        "test_a.cpp",
        "TEST(A, Adds) { EXPECT_EQ(1, f()); }\nTEST(A, DISABLED_Off) { EXPECT_EQ(1, f()); }\n",
        [("A, Adds", True, ""), ("A, DISABLED_Off", True, "skip")],
    ),
    ("a.bats", '@test "adds" {\n  run f\n  [ "$status" -eq 0 ]\n}\n', [("adds", True, "")]),
    (
        "tests/test_half.py",
        "def test_a():\n    assert x\ndef test_b(:\n    pass\n",
        [("test_a", True, ""), ("test_b", False, "")],
    ),
]


TABLES = [
    (
        "ATest.java",
        (
            '  @ParameterizedTest(name = "{0} (x)")\n  @ValueSource(ints = {1, 2})\n'
            "  void adds(int n) {\n    assertEquals(3, f(n));\n  }\n"
        ),
    ),
    (
        "ATests.cs",
        "  [Theory]\n  [InlineData(new[] { 1 })]\n  public void adds(int[] n) { Assert.Equal(3, F(n)); }\n",
    ),
    ("a.test.js", "test.each([\n  ['f(1)', 2],\n])('adds', (a, b) => { expect(f(a)).toBe(b); });\n"),
    ("a.test.js", "test.each`\n  a | b\n  ${1} | ${2}\n`('adds', ({ a, b }) => { expect(f(a)).toBe(b); });\n"),
    ("a.test.js", "test.skipIf(isWindows())('adds', () => { expect(f(1)).toBe(2); });\n"),
]


@table(("path", "text"), TABLES)
def test_a_test_of_a_table_has_its_own_name(path: str, text: str) -> None:
    assert [(test.name, test.compares) for test in read_tests(path, text).tests] == [("adds", True)]


UNMARKED = [
    ("a.test.js", "test('pages', async () => { expect(await items.find().skip(10)).toEqual([1]); });"),
    ("a.test.js", "test('uses stream.skip', () => { expect(f()).toBe(1); });"),
    ("a_test.go", "func TestA(t *testing.T) {\n\treader.Skip(2)\n\trequire.Equal(t, f(), 1)\n}\n"),
    ("ATests.cs", "  [Fact]\n  public void A() { Assert.Equal(1, All().Skip(1).First()); }\n"),
    ("a_spec.rb", "  it 'skip blank lines' do\n    expect(f).to eq 1\n  end\n"),
]


@table(("path", "text"), UNMARKED)
def test_what_only_is_called_skip_leaves_nothing_out(path: str, text: str) -> None:
    assert [(test.mark, test.compares) for test in read_tests(path, text).tests] == [("", True)]


@table(
    ("path", "text"),
    [
        ("a.test.js", "test('a', () => { test.skip(); expect(f()).toBe(1); });"),
        ("a.test.js", "test('a', function () { this.skip(); assert(f()); });"),
        ("a.test.js", "test('a', { skip: true }, () => { assert(f()); });"),
        ("a.test.js", "test.todo('a', () => { assert(f()); });"),
        ("ATests.cs", '  [Fact]\n  public void A() { Assert.Skip("later"); Assert.Equal(1, F()); }\n'),
        ("a_spec.rb", "  it 'a' do\n    skip\n    expect(f).to eq 1\n  end\n"),
    ],
)
def test_what_skips_a_test_does(path: str, text: str) -> None:
    assert [test.mark for test in read_tests(path, text).tests] == ["skip"]


def test_a_python_file_with_a_byte_order_mark_is_read_by_its_syntax() -> None:
    found = read_tests("test_a.py", "\ufeffclass TestA:\n  def test_a(self): assert x\n")
    assert ([test.name for test in found.tests], found.by_syntax) == (["TestA::test_a"], True)


@table(("path", "text", "expected"), OTHERS, ids=[row[0] for row in OTHERS])
def test_other_languages_are_read_by_patterns(path: str, text: str, expected: list[tuple[str, bool, str]]) -> None:
    found = read_tests(path, text)
    assert [(test.name, test.compares, test.mark) for test in found.tests] == expected
    assert not found.by_syntax


@table(
    ("path", "text", "again"),
    [
        (
            "a.test.js",
            "test('a', () => { expect( b ).toBe(1) })",
            "test('c', () => {\n  // why\n  expect(b).toBe(1)\n})",
        ),
        ("a_test.go", "func TestA(t *testing.T) {\n\tt.Fatal(1)\n}\n", "func TestB(t *testing.T) { t.Fatal(1) }\n"),
        ("a_spec.rb", "it 'a' do\n  expect(b)\nend\nx", "  it 'c' do\n    # why\n    expect(b)\n  end\n"),
    ],
)
def test_bodies_of_other_languages_are_the_same_under_another_name(path: str, text: str, again: str) -> None:
    assert read_tests(path, text).tests[0].body == read_tests(path, again).tests[0].body


@table("path", ["src/a.py", "README.md", "conftest.py", "a.go"])
def test_what_is_no_test_file_declares_nothing(path: str) -> None:
    assert read_tests(path, "def test_a(): assert x\nfunc TestA(t) {}\n").tests == ()


def test_lines_count_from_one() -> None:
    assert [test.line for test in read_tests("a.test.js", "\ntest('a', f)\n\n\ntest('b', f)\n").tests] == [2, 5]


WORDS = (
    *(
        "def test_a",
        "(",
        ")",
        ":",
        "\n",
        "  ",
        "assert ",
        "True",
        "class TestX",
        "@pytest.mark.skip\n",
        "try",
        "except",
    ),
    *("test('a'", "{", "}", "'", '"', "`", "it(", "#[test]\nfn a", "func TestA(", "\x00", "\ud800", "if ", "return"),
)
PATHS = (PY, "a.test.ts", "a_test.go", "a.rs", "ATest.java", "a_spec.rb", "a.bats")
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=60).map("".join)


@settings(max_examples=300)
@given(st.sampled_from(PATHS), TEXTS)
def test_no_text_raises(path: str, text: str) -> None:
    read_tests(path, text)


@table("nested", ["(" * 100_000, "-" * 50_000 + "1", "a." * 20_000 + "b"], ids=["brackets", "signs", "attributes"])
def test_deep_nesting_does_not_raise(nested: str) -> None:
    read_tests(PY, f"def test_a(): assert {nested}")


@table("asked", ["'x' in range(10000000000000)", "list(range(10000000000000))", "range(99999999999999999999)"])
def test_a_range_without_end_is_not_worked_out(asked: str) -> None:
    assert read_tests(PY, f"def test_a(): assert {asked}").tests[0].compares


LARGE = {
    "a.test.js": "test('a', () => {" + "(" * 50,
    "tests/test_a.py": "def test_a(: x\n",
    "a_test.go": "func TestA() {",
    "b.test.js": "\ndescribe.skip('a'",
    "c.test.js": "\ntest.each(",
    "ATest.java": "\n@Test",
    "BTest.java": "\n@Test " + "@abcdefgh(" * 100,
    "ATests.cs": "\n[Fact]" + "[a]" * 300,
}


@pytest.mark.soak
@table(("path", "unit"), LARGE.items(), ids=list(LARGE))
def test_two_megabytes_are_read_in_seconds(path: str, unit: str) -> None:
    started = time.process_time()
    read_tests(path, unit * (2_000_000 // len(unit)))
    assert time.process_time() - started < 8
