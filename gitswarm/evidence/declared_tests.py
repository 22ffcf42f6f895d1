"""Tests as a file declares them: their names, bodies, marks, and whether they compare anything.

Python is read by its syntax tree (`python_tests`). Other languages, and Python that does not parse, are read by
patterns: a body ends with the bracket that closes it, in Ruby and Python with the indentation. That is coarser:
macros, generated titles and brackets in regular expressions are not understood, and every call that is spelled like
an assertion counts as one, unless its operands are literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.evidence.declarations import BEGINS_CASE, DeclaredTest, Mark, TestSource, digest, is_test_file
from gitswarm.evidence.python_tests import read_python
from gitswarm.evidence.source_text import deeper
from gitswarm.records.lazy_re import lazy_re

TEXT_CHARS = 2_000_000
"""Of a longer file the beginning is read."""

_MOST_TESTS = 20_000
_MOST_BLOCKS = 100
_BODY_CHARS = 100_000
_COMMENTS = ("//", "/*", "*", "#")


def read_tests(path: str, text: str | None, *, reported: bool = False) -> TestSource:
    """What a file of this name and text declares; nothing for what is no test file. Never raises.

    :param reported: tests of it were run, whatever its name is.
    """
    suffix = PurePosixPath(path).suffix[1:]
    language = _LANGUAGES.get(suffix)
    if not text or language is None or not (reported or suffix == "rs" or is_test_file(path)):
        return TestSource()
    text = text[:TEXT_CHARS]
    if suffix == "py" and (parsed := read_python(text)) is not None:
        return TestSource(parsed, by_syntax=True)
    return TestSource(tuple(_declared(language, text)), asserts=_asserts(language, text))


def _asserts(language: _Language, text: str) -> bool:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(_COMMENTS))
    return any(re.search(language.compares, re.sub(language.void, "", line)) for line in lines)


class _Language(Struct, frozen=True):
    """Patterns, compiled when a file in the language is read: all of them take 5 ms.

    :ivar case: begins a test; group `name`, and `mark` where a mark is part of it.
    :ivar compares: an assertion.
    :ivar void: an assertion that compares nothing; taken out before `compares` is looked for.
    :ivar skips: a mark in the body, or in the lines above.
    :ivar skipping_call: a mark in what a test is declared by, `test.skip(`.
    :ivar ends: how a body ends.
    """

    case: str
    compares: str
    void: str = r"(?!)"
    skips: str = r"(?!)"
    skipping_call: str = r"(?!)"
    fails: str = r"(?!)"
    ends: Literal["bracket", "indent"] = "bracket"
    comment: str = "//"


_NAME = r"(?P<name>[A-Za-z_$][\w$]{0,200})"
_QUOTED = r"(?P<quote>[\"'`])(?P<name>(?:\\.|(?!(?P=quote))[^\\\n]){0,500})(?P=quote)"
_LITERAL = r"(?:true|false|True|False|null|nil|None|-?[0-9.]{1,20}|\"[^\"\n]{0,80}\"|'[^'\n]{0,80}')"
_OF_LITERALS = rf"\(\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)?\)"

_TABLE = r"(?:`[^`]{0,4000}`|\((?:(?!\n[ \t]*(?:test|it|describe)\b)[^`]){0,4000}?\)(?=\s?\(\s*[\"'`]))"
_SCRIPT = _Language(
    case=(
        r"(?m)^[ \t]{0,80}(?:await )?(?P<mark>x|f)?(?:test|it)"
        rf"(?P<how>(?:\.\w{{1,20}}(?:\([^\n]{{0,400}}?\))?){{0,4}}(?>\.\w{{1,20}}\s?{_TABLE})?)"
        rf"(?:<[^\n>]{{0,100}}>)?\s?\(\s*{_QUOTED}"
    ),
    compares=r"\bexpect\w*\s*[.(]|\bassert\w*\s*[.(]|\.should\b|\bt\.(?:is|not|true|false|ok|equal|deepEqual|like|throws|same|match|fail)\w*\(",
    void=rf"\bexpect\(\s*{_LITERAL}\s*\)(?:\.not)?\.\w{{1,30}}\(\s*{_LITERAL}?\s*\)|\bassert(?:\.\w{{1,20}})?{_OF_LITERALS}",
    skips=r"\b(?:t|test|it|this|ctx|context)\.(?:skip|todo)\(|\bskip\s*:\s*(?:true|['\"])",
    skipping_call=r"\.(?:skip|todo)\b",
    fails=r"\.(?:failing|fails)\b",
)
_GO = _Language(
    case=r"(?m)^func (?P<name>(?:Test|Fuzz|Example)\w{0,200})\(",
    compares=(
        r"\b\w{1,20}\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\bpanic\("
        r"|\b(?:assert|require|is|qt|check|must|expect|cmp|c)\w*\.\w+\(|\b(?:assert|require|check|expect|must)\w*\("
    ),
    void=rf"\b(?:assert|require)\.\w{{1,30}}\(\s*\w{{1,20}},\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)?\)",
    skips=r"(?:\b(?:t|tb|tt|b|f)|\bT\(\))\.Skip(?:f|Now)?\(",
)
_RUST = _Language(
    case=(
        r"(?m)^(?P<mark>(?:[ \t]{0,80}#\[[^\n]{0,300}\n){0,10}?"
        + BEGINS_CASE["rs"]
        + r"[^\n]{0,300}\n(?:[ \t]{0,80}(?:#\[|//)[^\n]{0,300}\n){0,20})[ \t]{0,80}(?:pub(?:\([a-z]{1,10}\))? )?"
        r"(?:async )?fn " + _NAME
    ),
    compares=r"\bassert\w*!|\bpanic!|\bunreachable!|should_panic|\.unwrap\w*\(|\.expect\w*\(|\?;|\bprop_assert|\bassert\w*\(|\bcheck\w*\(",
    void=rf"\bassert\w*!{_OF_LITERALS}",
    skips=r"#\[ignore\b",
)
_TEXT = r"\"(?:\\.|[^\"\\\n]){0,1000}+\""
_ARGUMENTS = rf"\((?:[^()\"]|{_TEXT}|\((?:[^()\"]|{_TEXT}){{0,400}}+\)){{0,400}}+\)"
_JVM = _Language(
    case=(
        rf"(?m)^{BEGINS_CASE['java']}"
        rf"(?P<mark>(?:{_ARGUMENTS})?+(?:[^{{;@(]|@(?!Test\b)[\w.:]++(?:{_ARGUMENTS})?+){{0,600}}?)"
        r"(?<![@\w])(?P<name>[A-Za-z_$][\w$]{0,200}|`[^`\n]{1,200}`)\s*\("
    ),
    compares=r"\b(?:assert|verify|expect|should|fail|check)\w*\s*[({.]|\bexpected\s*=|\bshould\w*\b|\bthen\w*\(",
    void=rf"\bassert\w*{_OF_LITERALS}",
    skips=r"@(?:Disabled|Ignore)\b",
)
_ATTRIBUTE = rf"(?:[^\[\]\"]|{_TEXT}|\[[^\[\]\"]{{0,100}}+\]){{0,400}}+\]"
_DOTNET = _Language(
    case=rf"(?m)^{BEGINS_CASE['cs']}(?P<mark>{_ATTRIBUTE}(?:[^{{;(\[]|\[{_ATTRIBUTE}){{0,600}}?)\b{_NAME}\s*\(",
    compares=r"\bAssert\w*\.|\bShould\w*|\bVerify\w*\(|\bExpect\w*\(",
    void=rf"\bAssert\.\w{{1,30}}{_OF_LITERALS}",
    skips=r"\bSkip\s*=|\[Ignore\b|\bAssert\.(?:Skip|Ignore|Inconclusive)\(",
)
_RUBY = _Language(
    case=(
        rf"(?m)^(?P<indent>[ \t]{{0,80}})(?:(?P<mark>x)?(?:it|specify|example|test)(?: |\()\s?{_QUOTED}"
        r"|def (?P<method>test_\w{0,200}))"
    ),
    compares=r"\bexpect\b|\b(?:assert|refute|flunk)\w*|\.(?:must|wont)_|\bshould\b|\bis_expected\b",
    void=rf"(?m)\bassert\w*[ (]\s*{_LITERAL}\s*(?:,\s*{_LITERAL}\s*)?\)?$|\bexpect\({_LITERAL}\)\.to\b[^\n]{{0,80}}",
    skips=r"(?m)^\s*(?:skip|pending)\b",
    ends="indent",
    comment="#",
)
_PHP = _Language(
    case=r"(?m)^[ \t]{0,80}(?:(?:final|public|static) ){0,3}function (?P<name>test\w{0,200})\(",
    compares=r"(?:->|::)\s*(?:assert|expect|should)\w*\(|\bexpect\(",
    void=rf"(?:->|::)assert\w*{_OF_LITERALS}",
    skips=r"markTest(?:Skipped|Incomplete)\(",
)
_C = _Language(
    case=rf"(?m)^{BEGINS_CASE['c']}(?P<name>[^)\n]{{1,300}})\)",
    compares=r"\b(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST|FAIL|TEST_ASSERT)\w*|\bck_assert|\bassert\w*\(",
    void=rf"\b(?:EXPECT|ASSERT|REQUIRE|CHECK)\w*{_OF_LITERALS}",
    skips=r"\bDISABLED_|\bGTEST_SKIP\(|\[\.\]",
)
_BATS = _Language(
    case=rf"(?m)^[ \t]{{0,80}}@test\s{{1,9}}{_QUOTED}",
    compares=r"\[|\brun\b|\bassert|\bgrep\b|\btest\b|\bdiff\b|\bcmp\b",
    skips=r"(?m)^\s*skip\b",
    comment="#",
)
_PYTHON = _Language(
    case=r"(?m)^(?P<indent>[ \t]{0,80})(?:async )?def (?P<name>test\w{0,200})\(",
    compares=r"\bassert\b|\.assert\w*\(|\braises\(|\bassert\w*\(|\b(?:check|expect)\w*\(",
    void=rf"\bassert {_LITERAL}(?=\s)",
    skips=r"\bskip\w*\(",
    fails=r"\bxfail\b|\bexpectedFailure\b",
    ends="indent",
    comment="#",
)
_LANGUAGES = {
    "py": _PYTHON,
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"), _SCRIPT),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "kt", "groovy"), _JVM),
    "cs": _DOTNET,
    "rb": _RUBY,
    "php": _PHP,
    **dict.fromkeys(("c", "cc", "cpp", "cxx"), _C),
    "bats": _BATS,
}
_BLOCK = lazy_re(r"^[ \t]{0,80}(?P<kind>x|f)?describe(?P<how>(?:\.\w{1,20}){0,3})\(", re.MULTILINE)
_TOKEN = lazy_re(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`|'(?:\\.|[^'\\\n])*')"
    r"|(?P<open>[({\[])|(?P<close>[)}\]])|(?P<blank>\s+)|(?P<other>.)",
    re.DOTALL,
)
_LIFETIME = lazy_re(r"'(?!(?:\\[^\n]{1,10}|[^\\\n])')")
_COMMENT_LINE = lazy_re(r"^\s*#[^\n]*$", re.MULTILINE)


def _declared(language: _Language, text: str) -> Iterator[DeclaredTest]:
    blocks = _blocks(text) if language is _SCRIPT else ()
    found = list(islice(re.finditer(language.case, text), _MOST_TESTS))
    is_focused = any(block.focused for block in blocks) or any(_is_only(match) for match in found)
    ends = [*(match.start() for match in found[1:]), len(text)][: len(found)]
    line, at = 1, 0
    for match, end in zip(found, ends, strict=True):
        begin = match.start()
        line, at = line + text.count("\n", at, begin), begin
        test = _test(language, text[match.end() : min(end, match.end() + _BODY_CHARS)], match, line)
        inside = [block for block in blocks if block.begin < begin < block.end]
        left_out = any(block.skipped for block in inside)
        unfocused = is_focused and not _is_only(match) and not any(block.focused for block in inside)
        yield replace(test, mark="skip") if left_out or unfocused else test


def _is_only(match: re.Match[str]) -> bool:
    """`test.only`, `fit`: the others of its file do not run."""
    groups = match.groupdict()
    return ".only" in (groups.get("how") or "") or groups.get("mark") == "f"


def _test(language: _Language, following: str, match: re.Match[str], line: int) -> DeclaredTest:
    groups = match.groupdict()
    name = groups.get("name") or groups.get("method") or "?"
    body, raw = _body(language, following, match)
    head = f"{groups.get('mark') or ''} {groups.get('how') or ''}"
    live = re.sub(language.void, "", body)
    compares = bool(re.search(language.compares, live) or re.search(language.compares, head) or "utput:" in raw)
    return DeclaredTest(
        name.strip("`"), line, digest(re.sub(r"\s", "", body)), compares, _mark(language, head, name, body)
    )


def _mark(language: _Language, head: str, name: str, body: str) -> Mark:
    if re.search(language.fails, head):
        return "xfail"
    is_named_so = language is _C and re.search(language.skips, name)
    if head.strip().startswith("x") or is_named_so or re.search(f"{language.skips}|{language.skipping_call}", head):
        return "skip"
    found = re.search(language.skips, body)
    if not found:
        return ""
    before = body[: found.start()].strip(" \t\n{(=>,:")
    return "skipif" if ";" in before or "\n" in before.strip() or "if" in before else "skip"


def _body(language: _Language, following: str, match: re.Match[str]) -> tuple[str, str]:
    """The body of a test, from the text behind its head: without comments, and as it stands."""
    if language.ends == "indent":
        raw = "\n".join(deeper(following.split("\n")[1:], len(match["indent"]))).strip("\n")
        return _COMMENT_LINE.sub("", raw), raw
    if language is _RUST:
        following = _LIFETIME.sub("_", following)
    is_call = language is _SCRIPT  # its head ends within the parentheses
    depth, end = int(is_call or match[0].endswith("(")), len(following)
    parts: list[str] = []
    for token in _TOKEN.finditer(following):
        kind = token.lastgroup
        if kind == "comment" and language.comment == "//":
            continue
        depth += (kind == "open") - (kind == "close")
        if kind == "close" and depth <= 0 and (token[0] == "}" or is_call):
            end = token.end()
            break
        parts.append(" " if kind == "blank" else token[0])
    return "".join(parts), following[:end]


class _Block(Struct, frozen=True):
    begin: int
    end: int
    skipped: bool
    focused: bool


def _blocks(text: str) -> tuple[_Block, ...]:
    """Describe blocks that skip what is in them, or everything else."""
    found: list[_Block] = []
    for match in _BLOCK.finditer(text):
        kind, how = match["kind"], match["how"]
        skipped, focused = kind == "x" or ".skip" in how, kind == "f" or ".only" in how
        if (skipped or focused) and len(found) < _MOST_BLOCKS:
            _, raw = _body(_SCRIPT, text[match.end() : match.end() + _BODY_CHARS], match)
            found.append(_Block(match.start(), match.end() + len(raw), skipped, focused))
    return tuple(found)
