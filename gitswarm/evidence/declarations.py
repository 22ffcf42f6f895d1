"""Tests by name: which files declare test cases, and how many; a test as its file declares it; the parts of the names
that tools give to results.

Cases are counted by patterns on lines. No parser: a file may be half written, or hostile.

| files                                           | a case is a line that begins with                              |
|-------------------------------------------------|----------------------------------------------------------------|
| Python: test_*.py, *_test.py                    | `def test…(`, `async def test…(`                               |
| JavaScript, TypeScript: *.test.*, *.spec.*      | `test(`, `it(`, with `.each`, `.only`, `.failing`, …; not with |
|                                                 | `.skip` or `.todo`, not `xit(`, `xtest(`                       |
| Go: *_test.go                                   | `func Test…(`, `func Fuzz…(`, `func Example…(`                 |
| Rust: every *.rs, for tests stand in the code   | an attribute `#[test]`, `#[tokio::test]`, `#[rstest]`, …       |
| Java, Kotlin, Groovy, Scala: *Test, *Spec, …    | `@Test`, `@ParameterizedTest`, `@RepeatedTest`; `test(`        |
| C#: *Test.cs, *Tests.cs                         | `[Fact]`, `[Theory]`, `[Test]`, `[TestMethod]`                 |
| Ruby: *_spec.rb, *_test.rb, test_*.rb           | `it "`, `specify "`, `test "`, `def test_`                     |
| PHP: *Test.php                                  | `function test…(`, `#[Test]`, `@test`                          |
| C, C++: *test.c, test_*.cpp, …                  | `TEST(`, `TEST_F(`, `TEST_P(`, `TEST_CASE(`, …                 |
| Shell: *.bats                                   | `@test `                                                       |

Any of them (but Go's) also in a folder named test, tests, __tests__, spec, specs, testing or e2e.
A line that is commented out does not begin so. Tests in strings and block comments count, tests made by loops count
once, and a parametrized test counts once.

Names of results:

| tool                    | name                                            | own name    | inside of |
|-------------------------|-------------------------------------------------|-------------|-----------|
| pytest                  | `tests/test_a.py::TestX::test_y[1]`             | `test_y`    | `TestX`   |
| jest, vitest, node, TAP | `a.test.js > total > right`                     | `right`     | `total`   |
| go                      | `example.test/shop.TestX/sub`                   | `TestX`     |           |
| cargo                   | `tests/shop.rs sums::right`, `shop sums::right` | `right`     | `sums`    |
| nextest                 | `shop::shop sums::right`                        | `right`     | `sums`    |
| JUnit of others         | `com.x.TillTest.adds(int)[1]`                   | `adds`      | …         |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from gitswarm.records.evidence import CaseResult
from gitswarm.records.lazy_re import lazy_re

_BLOB_CHARS = 4_000_000

BEGINS_CASE = {
    suffix: pattern
    for suffixes, pattern in {
        "py": r"[ \t]{0,80}(?:async )?def test\w{0,200}\(",
        "js jsx mjs cjs ts tsx mts cts": (
            r"[ \t]{0,80}(?:await )?(?:test|it)(?:\.(?:each|only|concurrent|failing|sequential|fails)){0,3} ?[(`<]"
        ),
        "go": r"func (?:Test|Fuzz|Example)\w{0,200}\(",
        "rs": r"[ \t]{0,80}#\[(?:\w{1,40}::){0,3}(?:test|rstest|test_case|quickcheck|wasm_bindgen_test)\b",
        "java kt groovy": r"[ \t]{0,80}@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b",
        "scala": r"[ \t]{0,80}(?:@Test\b|test\(|it\(|it should |(?:\"|')[^\n]{1,200} (?:should|in) )",
        "cs": r"[ \t]{0,80}\[(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b",
        "rb": r"[ \t]{0,80}(?:(?:it|specify|example|test) [\"'{]|(?:it|specify) (?:do|\{)|def test_)",
        "php": (r"[ \t]{0,80}(?:(?:(?:final|public|static) ){0,3}function test\w{0,200}\(|#\[Test\]|/?\*+ ?@test\b)"),
        "c cc cpp cxx": (
            r"[ \t]{0,80}(?:TEST(?:_F|_P|_CASE|_CASE_METHOD)?|TYPED_TEST|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST)"
            r" ?\("
        ),
        "bats": r"[ \t]{0,80}@test ",
    }.items()
    for suffix in suffixes.split()
}
"""Pattern of the line that begins a case, by the ending of a file's name."""
_CASES = {suffix: lazy_re(f"^{pattern}", re.MULTILINE) for suffix, pattern in BEGINS_CASE.items()}
_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "e2e", "Tests"})
_TEST_NAME = lazy_re(r"^(?:[Tt]ests?(?:[_.-]|[A-Z]|$)|.{1,200}(?:[_.-](?:tests?|spec)|Tests?|Specs?)$)")


class TextChange(Struct, frozen=True):
    """A changed file with its text before and after; None where it did not exist. Leave out what is no text."""

    path: str
    before: str | None
    after: str | None
    old_path: str | None = None

    @property
    def former_path(self) -> str:
        """Its path before."""
        return self.old_path or self.path


class CaseCount(Struct, frozen=True):
    """Declared cases of one file."""

    path: str
    before: int
    after: int


class CaseCounts(Struct, frozen=True):
    """Test cases of all changed files that declare any, before or after."""

    files: tuple[CaseCount, ...] = ()

    @property
    def before(self) -> int:
        return sum(file.before for file in self.files)

    @property
    def after(self) -> int:
        return sum(file.after for file in self.files)

    @property
    def emptied(self) -> tuple[str, ...]:
        """Files that had cases and have none, because they are gone or because they were emptied."""
        return tuple(file.path for file in self.files if file.before and not file.after)


def is_test_file(path: str) -> bool:
    """Whether name and folder are those of tests; a Rust file counts as one only in `tests/`, though it may declare
    cases anywhere."""
    *folders, name = path.split("/")
    stem, _dot, suffix = name.rpartition(".")
    if not stem or suffix not in _CASES:
        return False
    if suffix in {"go", "bats"}:
        return stem.endswith("_test") or suffix == "bats"
    return bool(_FOLDERS.intersection(folders) or _TEST_NAME.match(stem))


def count_cases(path: str, text: str) -> int:
    """Cases that a file of this name and text declares; 0 for what is no test file."""
    suffix = PurePosixPath(path).suffix[1:]
    if suffix != "rs" and not is_test_file(path):
        return 0
    return sum(1 for _ in _CASES[suffix].finditer(text[:_BLOB_CHARS]))


def compare_cases(changes: Iterable[TextChange]) -> CaseCounts:
    """:param changes: the files of a step's diff; a rename is one change with both names."""
    counted = (
        CaseCount(
            path=change.path,
            before=count_cases(change.former_path, change.before or ""),
            after=count_cases(change.path, change.after or ""),
        )
        for change in changes
    )
    return CaseCounts(tuple(file for file in counted if file.before or file.after))


Mark = Literal["", "skip", "skipif", "xfail"]
"""`skipif`: under a condition that the text does not decide."""


class TestShape(Struct, frozen=True):
    """What a test is made of, where a parser has read it. `form` is equal for tests that differ in identifiers only,
    `names` are those in order; `statements` are digests of the statements that are reached, one after the other."""

    __test__ = False

    form: str = ""
    names: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()

    def holds(self, other: TestShape) -> bool:
        """Whether every statement of the other is one of its own, in the same order."""
        mine = iter(self.statements)
        return bool(other.statements) and all(each in mine for each in other.statements)


class DeclaredTest(Struct, frozen=True):
    """`name` is qualified inside of its file (`TestX::test_y`). `body` is equal for tests that do the same, whatever
    they are called, marked and laid out. `line` counts from 1."""

    name: str
    line: int
    body: str
    compares: bool
    mark: Mark = ""
    shape: TestShape = TestShape()


class TestSource(Struct, frozen=True):
    """`by_syntax`: read by a parser, not by patterns. `asserts`: an assertion stands in it, perhaps in a test that
    the patterns do not see."""

    __test__ = False

    tests: tuple[DeclaredTest, ...] = ()
    by_syntax: bool = False
    asserts: bool = False

    @property
    def compares(self) -> bool:
        return any(test.compares for test in self.tests)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


_GO_NAME = lazy_re(
    r"^(?P<package>.*?)(?:^|\.)(?P<test>(?:Test|Fuzz|Example|Benchmark)[A-Z0-9_]?\w*)(?P<inner>/.*)?$", re.DOTALL
)
_PARAMETERS = lazy_re(r"(?:\[.*\]|\(.*\)|\{.*\})+$", re.DOTALL)


def own_name(name: str) -> str:
    """The last segment without parameters: of a result's name, or of one that somebody wrote down."""
    if " > " in name:
        return name.rpartition(" > ")[2].strip()
    without = _without_parameters(name)
    if "::" in without:
        return without.rpartition("::")[2].strip()
    if (found := _GO_NAME.match(without)) and not any(space in without for space in " \t"):
        return found["test"]
    if any(space in without.strip() for space in " \t"):
        last = without.rpartition(" ")[2]
        return last if without.startswith(("doc ", "src/", "tests/")) and last.isidentifier() else name.strip()
    if without.endswith((".py", ".js", ".ts")):
        return without
    return without.replace("#", ".").rpartition(".")[2] or name


def go_parts(name: str) -> tuple[str, str, str] | None:
    """Package, top-level test and subtests of `go test`; None for a package that did not build."""
    found = _GO_NAME.match(name)
    return (found["package"], found["test"], found["inner"] or "") if found and found["package"] else None


def titles(case: CaseResult) -> tuple[str, ...]:
    """The titles of a JavaScript test: of its describe blocks, and its own."""
    inner = case.name.removeprefix(f"{case.file} > ") if case.file else case.name
    return tuple(inner.split(" > "))


def path_within(case: CaseResult) -> str:
    """What the name says besides its file: `TestX::test_y[1]`, `total > right`; the whole of it without a file."""
    if case.file is None:
        return case.name
    return case.name.removeprefix(case.file).removeprefix("::").removeprefix(" > ").strip()


def _without_parameters(name: str) -> str:
    """`test_p[a::b]` is `test_p`; of pytest's names what follows the first bracket after the file is parameters."""
    file, separator, inner = name.partition("::")
    if separator and file.endswith(".py"):
        return f"{file}::{inner.partition('[')[0]}"
    return _PARAMETERS.sub("", name)
