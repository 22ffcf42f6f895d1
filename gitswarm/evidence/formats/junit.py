"""JUnit XML, through junitparser.

junitparser hands text to ElementTree, or to lxml when that is installed. So that no entity is ever expanded and
no file of the machine read, we build the tree ourselves with a parser that refuses a document type; JUnit files
have none. Captured output is dropped and messages are cut on the way, because that is most of a large file.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO

from gitswarm.evidence.formats.reading import Plain, Tally, milliseconds
from gitswarm.evidence.formats.signature import Failure

XML_CHARS = 8_000_000
_ELEMENTS = 100_000
_TEXT_CHARS = 2_000
_DEPTH = 50
_KNOWN = frozenset(
    {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "rerunFailure", "flakyFailure"}
)
_CHUNK = 1 << 16


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


def read(plain: Plain) -> Tally | None:
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
    told = [time for time in times if time is not None]
    return replace(_cases(root), duration_ms=sum(told) if told else None, ends_at=len(plain.whole))


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


def _cases(root: ET.Element) -> Tally:
    from junitparser import Error, JUnitXml, Skipped  # noqa: PLC0415 - 67 ms
    from junitparser import Failure as Failed  # noqa: PLC0415

    report = JUnitXml.fromfile(StringIO(), parse_func=lambda _: ET.ElementTree(root))
    passed = skipped = 0
    failures = []
    for case in (case for suite in report for case in suite):
        results = case.result
        broken = next((result for result in results if isinstance(result, (Failed, Error))), None)
        if broken is not None:
            why = str(broken.message or broken.text or "")
            failures.append(Failure(".".join(part for part in (case.classname, case.name) if part), why))
        elif any(isinstance(result, Skipped) for result in results):
            skipped += 1
        else:
            passed += 1
    return Tally("junit", passed=passed, failed=len(failures), skipped=skipped, failures=tuple(failures))
