"""JUnit XML, through junitparser.

junitparser hands text to ElementTree, or to lxml when that is installed. So that no entity is ever expanded and
no file of the machine read, we build the tree ourselves with a parser that refuses a document type; JUnit files
have none. Captured output is dropped and messages are cut on the way, because that is most of a large file.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator
from dataclasses import replace

from gitswarm.evidence.formats.test_output import SCRIPTS, CountedCases, Failure, Plain, milliseconds
from gitswarm.records.evidence import CaseOutcome, CaseResult

XML_CHARS = 8_000_000
_ELEMENTS = 100_000
_TEXT_CHARS = 2_000
_DEPTH = 50
_KNOWN = frozenset(
    {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "rerunFailure", "flakyFailure"}
)
_CHUNK = 1 << 16
_EXPECTED = frozenset({"pytest.xfail", "todo"})
"""Kinds of `skipped` that stand beside a failure which is expected."""


class _TooMuchError(ValueError):
    """The document is not one that a test tool writes, or too large to be read in good time."""


class _Slim:
    """A target for XMLParser that keeps the elements that count."""

    def __init__(self) -> None:
        self._builder = ET.TreeBuilder()
        self._path: list[bool] = []
        self._elements = 0
        self._text = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        kept = tag in _KNOWN and all(self._path)
        self._path.append(kept)
        self._elements += 1
        if self._elements > _ELEMENTS or len(self._path) > _DEPTH:
            raise _TooMuchError("too many elements")
        if kept:
            self._text = 0
            self._builder.start(tag, {name: value[:_TEXT_CHARS] for name, value in attributes.items()})

    def end(self, tag: str) -> None:
        if self._path.pop():
            self._builder.end(tag.rpartition("}")[2])

    def data(self, text: str) -> None:
        if self._path and self._path[-1] and self._text < _TEXT_CHARS:
            self._builder.data(text[:_TEXT_CHARS])
            self._text += len(text)

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise _TooMuchError("a document type")

    def close(self) -> ET.Element:
        return self._builder.close()


def read(plain: Plain) -> CountedCases | None:
    """A report that is not whole, has more than 8 million characters or 100,000 elements, is none: half of it
    would be wrong."""
    text = plain.whole.strip().lstrip("\ufeff")
    if plain.whole_cut or not text.startswith("<") or "<testsuite" not in text:
        return None
    root = _parsed(text)
    if root is None or root.tag not in {"testsuites", "testsuite"}:
        return None
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    times = [milliseconds(suite.get("time")) for suite in suites]
    known = [time for time in times if time is not None]
    return replace(_cases(root), duration_ms=sum(known) if known else None, ends_at=len(plain.whole))


def _parsed(text: str) -> ET.Element | None:
    if len(text) > XML_CHARS:
        return None
    parser = ET.XMLParser(target=_Slim())  # noqa: S314 - refuses document types, so there are no entities
    begin = text.find("?>") + 2 if text.startswith("<?xml") else 0  # the encoding it names was undone already
    try:
        for at in range(begin, len(text), _CHUNK):
            parser.feed(text[at : at + _CHUNK].encode(errors="replace"))
        root = parser.close()
    except (ET.ParseError, ValueError, AssertionError):
        return None
    return root if isinstance(root, ET.Element) else None


def _cases(root: ET.Element) -> CountedCases:
    from junitparser import Error, Skipped, TestCase  # noqa: PLC0415 - 67 ms
    from junitparser import Failure as Failed  # noqa: PLC0415

    modules = frozenset(filter(None, (case.get("file") for case in root.iter("testcase"))))
    passed = skipped = 0
    failures, cases = [], []
    for element, suites in _walk(root, (root.get("name", ""),) if root.tag == "testsuite" else ()):
        case = TestCase.fromelem(element)  # type: ignore[no-untyped-call]
        results = case.result
        left_out = next((result for result in results if isinstance(result, Skipped)), None)
        broken = next((result for result in results if isinstance(result, (Failed, Error))), None)
        outcome: CaseOutcome = "passed"
        if left_out is not None and (broken is None or left_out.type in _EXPECTED):
            skipped += 1
            outcome = _left_out(left_out.type, failed=broken is not None)
        elif broken is not None:
            why = str(broken.message or broken.text or "")
            failures.append(Failure(".".join(part for part in (case.classname, case.name) if part), why))
            outcome = "error" if isinstance(broken, Error) else "failed"
        else:
            passed += 1
        cases.append(_named(element, suites, modules, outcome))
    return CountedCases(
        "junit", passed=passed, failed=len(failures), skipped=skipped, failures=tuple(failures), cases=tuple(cases)
    )


def _walk(suite: ET.Element, names: tuple[str, ...]) -> Iterator[tuple[ET.Element, tuple[str, ...]]]:
    """Each test case, and the names of the suites around it; node writes some into no suite at all."""
    for child in suite:
        if child.tag == "testcase":
            yield child, names
        elif child.tag == "testsuite":
            yield from _walk(child, (*names, child.get("name", "")))


def _left_out(kind: str | None, *, failed: bool) -> CaseOutcome:
    """Node runs a test that is `todo`, and says so of its failure only."""
    return "xfailed" if kind == "pytest.xfail" or (kind == "todo" and failed) else "skipped"


def _named(case: ET.Element, suites: tuple[str, ...], modules: Collection[str], outcome: CaseOutcome) -> CaseResult:
    name, owner, file = case.get("name", ""), case.get("classname", ""), case.get("file") or None
    if "pytest" in suites:
        return _pytest_item(name, owner, file, modules, outcome)
    if owner.endswith(SCRIPTS):
        return CaseResult(f"{owner} > {name}", outcome, owner)  # vitest
    if owner == "test" and (name.endswith(SCRIPTS) and "/" in name):
        return CaseResult(name, "error", name)  # a file that node could not load
    if owner in {"", "test"}:
        path = " > ".join((*filter(None, suites), name))
        return CaseResult(f"{file} > {path}" if file else path, outcome, file)
    return CaseResult(f"{owner} {name}" if "::" in f"{owner}{name}" else f"{owner}.{name}", outcome, file)


def _pytest_item(
    name: str, owner: str, file: str | None, modules: Collection[str], outcome: CaseOutcome
) -> CaseResult:
    """`tests/test_a.py::TestX::test_y[1]` of class name `tests.test_a.TestX`. `file` is where the function stands,
    which for an inherited test is another module; without it (family xunit2) a class is what is written so."""
    if not owner:  # what could not be collected is named by its module
        module = file or f"{name.replace('.', '/')}.py"
        return CaseResult(module, outcome, module)
    module = file if file is not None and _within(owner, file) else _longest(owner, modules)
    classes = owner[len(_dotted(module)) :].strip(".")
    return CaseResult("::".join(filter(None, (module, *classes.split("."), name))), outcome, module)


def _dotted(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def _within(owner: str, module: str) -> bool:
    return f"{owner}.".startswith(f"{_dotted(module)}.")


def _longest(owner: str, modules: Collection[str]) -> str:
    parts = owner.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end]) + ".py"
        if path in modules:
            return path
    end = next((at for at, part in enumerate(parts) if at and part[:1].isupper()), len(parts))
    return "/".join(parts[:end]) + ".py"
