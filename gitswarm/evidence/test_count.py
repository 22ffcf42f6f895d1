"""How many test cases a file declares, by patterns on its lines. No parser: a file may be half written, or hostile.

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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from msgspec import Struct

_BLOB_CHARS = 4_000_000

_PYTHON = re.compile(r"^[ \t]{0,80}(?:async )?def test\w{0,200}\(", re.MULTILINE)
_SCRIPT = re.compile(
    r"^[ \t]{0,80}(?:await )?(?:test|it)(?:\.(?:each|only|concurrent|failing|sequential|fails)){0,3} ?[(`<]",
    re.MULTILINE,
)
_GO = re.compile(r"^func (?:Test|Fuzz|Example)\w{0,200}\(", re.MULTILINE)
_RUST = re.compile(
    r"^[ \t]{0,80}#\[(?:\w{1,40}::){0,3}(?:test|rstest|test_case|quickcheck|wasm_bindgen_test)\b", re.MULTILINE
)
_JVM = re.compile(r"^[ \t]{0,80}@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b", re.MULTILINE)
_SCALA = re.compile(
    r"^[ \t]{0,80}(?:@Test\b|test\(|it\(|it should |(?:\"|')[^\n]{1,200} (?:should|in) )", re.MULTILINE
)
_DOTNET = re.compile(r"^[ \t]{0,80}\[(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b", re.MULTILINE)
_RUBY = re.compile(
    r"^[ \t]{0,80}(?:(?:it|specify|example|test) [\"'{]|(?:it|specify) (?:do|\{)|def test_)", re.MULTILINE
)
_PHP = re.compile(
    r"^[ \t]{0,80}(?:(?:(?:final|public|static) ){0,3}function test\w{0,200}\(|#\[Test\]|/?\*+ ?@test\b)",
    re.MULTILINE,
)
_C = re.compile(
    r"^[ \t]{0,80}(?:TEST(?:_F|_P|_CASE|_CASE_METHOD)?|TYPED_TEST|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST) ?\(",
    re.MULTILINE,
)
_BATS = re.compile(r"^[ \t]{0,80}@test ", re.MULTILINE)

_CASES = {
    "py": _PYTHON,
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"), _SCRIPT),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "kt", "groovy"), _JVM),
    "scala": _SCALA,
    "cs": _DOTNET,
    "rb": _RUBY,
    "php": _PHP,
    **dict.fromkeys(("c", "cc", "cpp", "cxx"), _C),
    "bats": _BATS,
}
_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "e2e", "Tests"})
_TEST_NAME = re.compile(r"^(?:[Tt]ests?(?:[_.-]|[A-Z]|$)|.{1,200}(?:[_.-](?:tests?|spec)|Tests?|Specs?)$)")


class TextChange(Struct, frozen=True):
    """A changed file with its text before and after; None where it did not exist. Leave out what is no text."""

    path: str
    before: str | None
    after: str | None
    old_path: str | None = None


class CaseCount(Struct, frozen=True):
    """Declared cases of one file."""

    path: str
    before: int
    after: int


class CaseCounts(Struct, frozen=True):
    """Of all changed files that declare test cases, before or after."""

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
    """By its name and folder; a Rust file counts as one only in `tests/`, though it may declare cases anywhere."""
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
            before=count_cases(change.old_path or change.path, change.before or ""),
            after=count_cases(change.path, change.after or ""),
        )
        for change in changes
    )
    return CaseCounts(tuple(file for file in counted if file.before or file.after))
