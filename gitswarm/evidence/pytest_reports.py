"""JUnit XML, as pytest and others write it; pytest's terminal output, verbose, plain or quiet.

So that no entity is ever expanded and no file of the machine read, a document type is refused; JUnit files have none.

Of the terminal output several sessions (tox, nox, a makefile) are added up. xfailed counts as skipped, xpassed as
passed; an error counts as failed, so that a test with a broken teardown counts twice, as it does for pytest.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from gitswarm.evidence.test_output import SCRIPTS, CountedCases, Failure, Plain, milliseconds, number
from gitswarm.records.evidence import CaseOutcome, CaseResult

XML_CHARS = 8_000_000
_ELEMENTS = 100_000
_TEXT_CHARS = 2_000
_DEPTH = 50
_EXPECTED = frozenset({"pytest.xfail", "todo"})
"""Kinds of `skipped` with a failure that is expected."""
_BROKEN: dict[str, CaseOutcome] = {"failure": "failed", "error": "error"}


class _BoundedBuilder(ET.TreeBuilder):
    """Raises ValueError for a document that no test tool writes, or that is too large to be read in good time."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = self._open = 0

    def start(self, tag: str, attributes: dict[str, str], /) -> ET.Element:
        self._elements, self._open = self._elements + 1, self._open + 1
        if self._elements > _ELEMENTS or self._open > _DEPTH:
            raise ValueError("too many elements")
        cut = {name: value[:_TEXT_CHARS] for name, value in attributes.items()}
        return super().start(tag.rpartition("}")[2], cut)

    def end(self, tag: str, /) -> ET.Element:
        self._open -= 1
        return super().end(tag.rpartition("}")[2])

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ValueError("a document type")


def read_junit(plain: Plain) -> CountedCases | None:
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
    return replace(_junit_cases(root), duration_ms=sum(known) if known else None, ends_at=len(plain.whole))


def _parsed(text: str) -> ET.Element | None:
    if len(text) > XML_CHARS:
        return None
    parser = ET.XMLParser(target=_BoundedBuilder())  # noqa: S314 - refuses document types, so there are no entities
    begin = text.find("?>") + 2 if text.startswith("<?xml") else 0  # the encoding it names was undone already
    try:
        parser.feed(text[begin:].encode(errors="replace"))
        root = parser.close()
    except (ET.ParseError, ValueError, AssertionError):
        return None
    return root if isinstance(root, ET.Element) else None


def _junit_cases(root: ET.Element) -> CountedCases:
    found = list(_walk(root, (root.get("name", ""),) if root.tag == "testsuite" else ()))
    modules = frozenset(file for case, _suites in found if (file := case.get("file")))
    failures, cases, passed = [], [], 0
    for case, suites in found:
        left_out, broken = case.find("skipped"), next((each for each in case if each.tag in _BROKEN), None)
        kind = left_out.get("type") if left_out is not None else None
        outcome: CaseOutcome = "passed"
        if left_out is not None and (broken is None or kind in _EXPECTED):
            outcome = _left_out(kind, failed=broken is not None)
        elif broken is not None:
            name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
            failures.append(Failure(name, broken.get("message") or broken.text or ""))
            outcome = _BROKEN[broken.tag]
        passed += outcome == "passed"
        cases.append(_junit_item(case, suites, modules, outcome))
    return CountedCases.named("junit", cases, failures, passed)


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


def _junit_item(
    case: ET.Element, suites: tuple[str, ...], modules: Collection[str], outcome: CaseOutcome
) -> CaseResult:
    name, owner, file = case.get("name", ""), case.get("classname", ""), case.get("file") or None
    if "pytest" in suites:
        return _pytest_item(name, owner, file, modules, outcome)
    if owner.endswith(SCRIPTS):
        return CaseResult(f"{owner} > {name}", outcome, owner)  # vitest
    if owner == "test" and (name.endswith(SCRIPTS) and "/" in name):
        # A file that node could not load; or one without tests, which counts as one that passed.
        return CaseResult(name, "error" if outcome == "failed" else outcome, name)
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


_SUMMARY = re.compile(
    r"\n(?:=+ )?(no tests ran|[0-9]{1,9} (?:subtests )?[a-z]+(?:, [0-9]{1,9} (?:subtests )?[a-z]+){0,12})"
    r" in ([0-9]{1,9}(?:\.[0-9]{1,6})?)s(?: \([0-9:, a-z]{1,40}\))?(?: =+)?(?=\n)"
)
_ITEM = re.compile(r"([0-9]{1,9}) ([a-z]+)")
_KINDS = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
    "deselected": "not run",
    "warning": "no test",
    "warnings": "no test",
}
_SESSION = re.compile(r"\n=+ test session starts =+(?=\n)")
_SHORT = re.compile(r"\n=+ short test summary info =+(?=\n)")
_FAILED = re.compile(r"\n(?:FAILED|ERROR) ([^ \n][^\n]{0,2000})")
_TITLE = re.compile(
    r"\n_{3,} (?:ERROR (?:collecting|at setup of|at teardown of) )?([^_ \n][^\n]{0,500}?) _{3,}(?=\n)"
)
_DIED = re.compile(r"(?:\nINTERNALERROR> (?=\w{0,60}(?:Error|Exception)\b)|Fatal Python error: )[^\n]{0,200}")
_BROKEN_OFF = re.compile(r"\n!{2,} [^\n]{1,300} !{2,}(?=\n)")
_RESULTS: dict[str, CaseOutcome] = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
_OUTCOMES = "|".join(_RESULTS)
_VERBOSE = re.compile(
    rf"\n(?=[^\n]{{0,5000}}(?:{_OUTCOMES}))"  # few lines have one, and the rest takes long for those of many colons
    rf"(?:(?P<name>[^\s:][^\n]{{0,2000}}?::[^\n]{{1,2000}}?) (?P<result>{_OUTCOMES})"
    r"(?: \([^\n]{0,500}\))? *(?:\[ *[0-9]{1,3}%\]| *)"
    rf"|\[gw[0-9]{{1,4}}\] (?:\[ *[0-9]{{1,3}}%\] )?(?P<result_of>{_OUTCOMES})"
    r" (?P<named>[^\s:][^\n]{0,2000}?) *)(?=\n)"
)
_SHORT_LINE = re.compile(
    r"\n(?:SUB(?=FAILED[\[(]))?(PASSED|FAILED|ERROR|XFAIL|XPASS)(?:\[[^\n]{0,200}?\]|\([^\n]{0,200}?\))?"
    r" ([^ \n][^\n]{0,2000})"
)
_SEPARATORS = 20  # " - " may stand inside a parameter; nobody writes this many


def read_pytest(plain: Plain) -> CountedCases | None:
    text = plain.text
    summaries = [match for match in _SUMMARY.finditer(text) if _counted(match[1]) is not None]
    last_session = max((match.start() for match in _SESSION.finditer(text)), default=-1)
    if not summaries and last_session < 0:
        return None
    sessions, begin = [], 0
    for summary in summaries:
        sessions.append(_finished(text[begin : summary.start() + 1], summary))
        begin = summary.end()
    if last_session >= begin:
        sessions.append(_unfinished(text[last_session:]))
        begin = len(text)
    return CountedCases("pytest", runs=len(sessions), ends_at=begin).plus(sessions)


def _finished(session: str, summary: re.Match[str]) -> CountedCases:
    counted = _counted(summary[1]) or Counter()
    failures = _failures(session) if counted["failed"] else ()
    died = _DIED.search(session)
    if died and not counted["failed"]:
        failures = (Failure("pytest", died[0].strip()),)
    return CountedCases(
        "pytest",
        passed=counted["passed"],
        failed=counted["failed"],
        skipped=counted["skipped"],
        failures=failures[: counted["failed"] or 1],
        cases=_cases(session),
        duration_ms=milliseconds(summary[2]),
        partial=bool(died or _BROKEN_OFF.search(session)),
    )


def _unfinished(session: str) -> CountedCases:
    died = _DIED.search(session)
    failure = Failure("pytest", died[0].strip() if died else "the test run did not finish")
    return CountedCases("pytest", failed=1, failures=(failure,), cases=_cases(session), partial=True)


def _cases(session: str) -> tuple[CaseResult, ...]:
    """The lines of `-v`, and from the short summary what they lack: files that could not be collected, failed
    subtests. Without `-v` the summary names all tests only with `-rA`."""
    short = _SHORT.search(session)
    results = [
        (match["name"] or match["named"], match["result"] or match["result_of"])
        for match in _VERBOSE.finditer(session, 0, short.start() + 1 if short else len(session))
    ]
    if short is not None:
        known = set(results)
        summed = ((_named(match[2]).name, match[1]) for match in _SHORT_LINE.finditer(session, short.end() - 1))
        results += [pair for pair in summed if pair not in known]
    return tuple(CaseResult(name, _RESULTS[result], name.partition("::")[0]) for name, result in results)


def _counted(summary: str) -> Counter[str] | None:
    """The counts of a summary; None if it begins with none of pytest's words. Behind those stand words of plugins,
    which count attempts (`1 passed, 2 rerun`)."""
    items = [item for part in summary.split(", ") if "subtests" not in part for item in _ITEM.findall(part)]
    if items and items[0][1] not in _KINDS:
        return None
    counted: Counter[str] = Counter()
    for digits, word in items:
        counted[_KINDS.get(word, "no test")] += number(digits)
    return counted


def _failures(session: str) -> tuple[Failure, ...]:
    """The failures of the short summary; without one, of the titles of the tracebacks."""
    short = _SHORT.search(session)
    if short is None:
        return tuple(Failure(match[1]) for match in _TITLE.finditer(session))
    return tuple(_named(match[1]) for match in _FAILED.finditer(session, short.end()))


def _named(line: str) -> Failure:
    """`path::test[a - b] - message`: the first separator outside of brackets."""
    parts = line.split(" - ", _SEPARATORS)
    for end in range(1, len(parts)):
        name = " - ".join(parts[:end])
        if name.count("[") == name.count("]"):
            return Failure(name, " - ".join(parts[end:]))
    return Failure(line)
