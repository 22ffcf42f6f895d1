from __future__ import annotations

from gitswarm.evidence.declarations import CaseCount, TextChange, compare_cases, count_cases, is_test_file
from tests.tables import table

PYTHON = """\
def test_a():
    pass

class TestX:
    async def test_b(self): ...
    def helper(self): ...
# def test_c():
"""
SCRIPT = """\
describe('x', () => {
  test('a', f);
  it.each([1])('b', f);
  it.skip('c', f);
  xit('d', f);
  // test('e')
});
"""

COUNTED = [
    ("tests/test_a.py", PYTHON, 2),
    ("pkg/a_test.py", PYTHON, 2),
    ("src/a.py", PYTHON, 0),
    ("src/contest.py", PYTHON, 0),
    ("src/a.test.ts", SCRIPT, 2),
    ("__tests__/a.js", SCRIPT, 2),
    ("src/a.ts", SCRIPT, 0),
    ("a_test.go", "func TestA(t *testing.T) {}\nfunc FuzzB(f *testing.F) {}\nfunc help() {}\n//func TestC() {}\n", 2),
    ("tests/a.go", "func TestA(t *testing.T) {}\n", 0),
    ("src/lib.rs", "#[cfg(test)]\nmod tests {\n  #[test]\n  fn a() {}\n  #[tokio::test]\n  async fn b() {}\n}\n", 2),
    ("src/test/java/ATest.java", "  @Test\n  void a() {}\n  @ParameterizedTest\n  @BeforeEach\n", 2),
    ("ATests.cs", "  [Fact]\n  public void A() {}\n  [Theory]\n", 2),
    ("spec/a_spec.rb", "describe A do\n  it 'a' do\n  end\n  xit 'b' do\n  end\nend\n", 1),
    ("test/test_a.rb", '  def test_a\n  end\n  test "b" do\n', 2),
    ("ATest.php", "  public function testA(): void {}\n  #[Test]\n  public function b() {}\n", 2),
    ("test_a.cpp", "TEST(A, B) {}\nTEST_F(A, C) {}\nint x;\n", 2),
    ("a.bats", '@test "a" {\n}\n', 1),
    ("tests/data.json", "test(1)\n", 0),
    ("tests/test_half.py", "def test_a(:\n\x00\ud800", 1),
]


@table(("path", "text", "expected"), COUNTED, ids=[path for path, _, _ in COUNTED])
def test_declared_cases_are_counted(path: str, text: str, expected: int) -> None:
    assert count_cases(path, text) == expected


@table("path", ["conftest.py", "testing.py", "src/latest.py", "contest.js", "README.md", "tests/a.txt"])
def test_a_file_that_only_sounds_so_is_no_test_file(path: str) -> None:
    assert not is_test_file(path)


def test_changed_files_are_compared() -> None:
    counts = compare_cases(
        [
            TextChange("tests/test_a.py", PYTHON, None),
            TextChange("tests/test_new.py", PYTHON, PYTHON + "def test_d(): ...\n", old_path="tests/test_old.py"),
            TextChange("tests/test_c.py", None, PYTHON),
            TextChange("src/a.py", "x = 1\n", "x = 2\n"),
        ]
    )
    assert counts.files == (
        CaseCount("tests/test_a.py", 2, 0),
        CaseCount("tests/test_new.py", 2, 3),
        CaseCount("tests/test_c.py", 0, 2),
    )
    assert (counts.before, counts.after, counts.emptied) == (4, 5, ("tests/test_a.py",))


def test_tests_that_move_out_of_the_test_files_are_gone() -> None:
    counts = compare_cases([TextChange("src/a.py", PYTHON, PYTHON, old_path="tests/test_a.py")])
    assert (counts.before, counts.after) == (2, 0)
