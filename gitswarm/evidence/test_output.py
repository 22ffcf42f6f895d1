"""What every reader of test output needs: bounded plain text, JSON lines, counts to fill in, the total coverage, and
which failures are the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from msgspec import Struct

from gitswarm.records.evidence import CaseResult, CaseResults, ReportSource, TestReport, storable
from gitswarm.records.text import shorten

TEXT_CHARS = 2_000_000
"""More than this is cut in its middle: summaries stand at the end, tools introduce themselves at the beginning."""

WHOLE_CHARS = 16_000_000
"""As much is read of machine formats, which are faster to read and worthless without their middle."""

DOCUMENT_CHARS = 8_000_000
SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte")
"""Ends of names of files that JavaScript's tools take for tests."""

_HEAD_CHARS = 500_000
_OBJECTS = 200_000
_FAILING_NAMES = 50
_NAME_COLUMNS = 200
_LARGEST_COUNT = 1_000_000_000
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_LEFT_OUT = re.compile(
    r"^\[… (?:[0-9]+ bytes|beginning) left out …\]$", re.MULTILINE
)  # written by processes, engines
_FAILURES = 500
_MESSAGE_CHARS = 500
_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,20}(?:Z|[+-][0-9:]{4,5})?"), "<time>"),
    (
        re.compile(r"(?:(?:file://)?(?:\b[A-Za-z]:)?[\w.@~+$-]{0,100}[/\\])+(?=[\w.@~+-])"),
        "",
    ),  # folders, not the file
    (re.compile(r"(?<=[\w)]):[0-9]+(?::[0-9]+)?(?=\D|$)"), ":<line>"),
    (re.compile(r"\bline [0-9]+"), "line <line>"),
    (re.compile(r"\b[0-9]+(?:\.[0-9]+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?|minutes?)\b"), "<duration>"),
    (re.compile(r"(?<=thread ')([^']{0,200}') \([0-9]+\)"), r"\1 (<id>)"),
    (re.compile(r"\b(pid|port|tid)([ =:]+)[0-9]+", re.IGNORECASE), r"\1\2<id>"),
    (re.compile(r"\s+"), " "),
)
_COVERAGE_TOTALS = (
    re.compile(r"^TOTAL[^\n%]{1,120}?[ \t]([0-9]{1,3}(?:\.[0-9]{1,9})?)%[ \t]*$", re.MULTILINE),
    re.compile(r"^total:\s{1,40}\(statements\)\s{1,40}([0-9]{1,3}(?:\.[0-9]{1,9})?)%", re.MULTILINE),
    re.compile(r"^All files[ \t]{0,200}\|[ \t]{0,20}([0-9]{1,3}(?:\.[0-9]{1,9})?)[ \t]{0,20}\|", re.MULTILINE),
    re.compile(r"^([0-9]{1,3}(?:\.[0-9]{1,9})?)% coverage, [0-9]", re.MULTILINE),
)
_GO_PACKAGE = re.compile(r"coverage: ([0-9]{1,3}(?:\.[0-9]{1,9})?)% of statements")
_LLVM_TOTAL = re.compile(r"^TOTAL[ \t].{0,400}%[ \t]*.{0,40}$", re.MULTILINE)
_LLVM_LINES = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")


class Failure(Struct, frozen=True):
    """A test that failed, or a suite that could not be loaded, and the first lines of why."""

    name: str
    message: str = ""


def signature(failures: Iterable[Failure], failed: int) -> str | None:
    """A hash that does not depend on order, place, time or speed; None when nothing failed.

    Of more than 500 failures those first in order of name count. When no failure has a name, their number does.
    """
    if failed == 0:
        return None
    first = sorted(failures, key=lambda failure: (failure.name, failure.message))[:_FAILURES]
    content = (
        "\0".join(sorted({f"{masked(each.name)}\n{masked(each.message)}" for each in first})) or f"{failed} failed"
    )
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]


def masked(text: str) -> str:
    text = text[:_MESSAGE_CHARS]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()


class Plain(Struct, frozen=True):
    """Output for readers: `text` without colours and carriage returns, with a newline at both ends; `whole` as it
    came. `cut` and `whole_cut`: something is missing in it."""

    text: str
    cut: bool
    whole: str
    whole_cut: bool


@dataclass(frozen=True, slots=True)
class CountedCases:
    """What one reader counted. The report counts no fewer as failed than there are `failures`.

    `cases` has one entry per result that is named, the same name as often as it was reported.
    `runs`: how often the tool was called, where its output shows it.
    `ends_at` is where in the text the last summary ends: of several formats in one output that of the
    outermost tool ends last.
    """

    source: ReportSource
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    duration_ms: int | None = None
    coverage_percent: float | None = None
    partial: bool = False
    runs: int = 1
    ends_at: int = field(default=0, compare=False)

    @classmethod
    def named(
        cls, source: ReportSource, cases: Sequence[CaseResult], failures: Sequence[Failure], passed: int
    ) -> CountedCases:
        """Counts of a tool that names every test once."""
        failed = len(failures)
        skipped = len(cases) - failed - passed
        return cls(source, passed, failed, skipped, failures=tuple(failures), cases=tuple(cases))

    @classmethod
    def not_built(cls, source: ReportSource, failures: Iterable[Failure]) -> CountedCases:
        """Packages of which no test could be run."""
        broken = tuple(failures)
        cases = tuple(CaseResult(failure.name, "error") for failure in broken)
        return cls(source, failed=len(broken), failures=broken, cases=cases)

    def plus(self, others: Iterable[CountedCases]) -> CountedCases:
        """The sum; coverage is that of the first that has any; `source`, `runs` and `ends_at` stay."""
        every = (self, *others)
        durations = [each.duration_ms for each in every if each.duration_ms is not None]
        covered = (each.coverage_percent for each in every if each.coverage_percent is not None)
        return replace(
            self,
            passed=sum(each.passed for each in every),
            failed=sum(each.failed for each in every),
            skipped=sum(each.skipped for each in every),
            failures=tuple(failure for each in every for failure in each.failures),
            cases=tuple(case for each in every for case in each.cases),
            duration_ms=sum(durations) if durations else None,
            coverage_percent=next(covered, None),
            partial=any(each.partial for each in every),
        )

    def report(self) -> TestReport:
        failed = max(self.failed, len(self.failures))
        names = islice(dict.fromkeys(failure.name for failure in self.failures), _FAILING_NAMES)
        return TestReport(
            source=self.source,
            total=self.passed + failed + self.skipped,
            passed=self.passed,
            failed=failed,
            skipped=self.skipped,
            failing=tuple(shorten(storable(name), _NAME_COLUMNS) for name in names),
            error_signature=signature(self.failures, failed),
            coverage_percent=self.coverage_percent,
            duration_ms=self.duration_ms,
            partial=self.partial,
        )

    def results(self) -> CaseResults:
        """All names; those of the failures only, from text that does not name the others."""
        executed = sum(case.is_executed for case in self.cases)
        complete = not self.partial and executed >= self.passed + max(self.failed, len(self.failures))
        cases = self.cases or tuple(CaseResult(failure.name, "failed") for failure in self.failures)
        return CaseResults.of(self.source, cases, complete=complete)


def plain(text: str) -> Plain:
    short = text if len(text) <= TEXT_CHARS else f"{text[:_HEAD_CHARS]}\n{text[_HEAD_CHARS - TEXT_CHARS :]}"
    whole = text if len(text) <= WHOLE_CHARS else short
    short = "\n" + _COLOUR.sub("", short).replace("\r\n", "\n").replace("\r", "\n") + "\n"
    left_out = bool(_LEFT_OUT.search(short))
    return Plain(
        short,
        cut=left_out or len(text) > TEXT_CHARS,
        whole=whole,
        whole_cut=left_out or len(text) > WHOLE_CHARS,
    )


def number(digits: str | None) -> int:
    """A count from a tool's text; 0 for none, at most a billion."""
    return min(int(digits[:10]), _LARGEST_COUNT) if digits else 0


def count(value: object) -> int:
    """A count from a tool's JSON; 0 for whatever is none."""
    return min(max(value, 0), _LARGEST_COUNT) if isinstance(value, int) and not isinstance(value, bool) else 0


def milliseconds(value: object, unit: str = "s") -> int | None:
    """A duration from text or JSON; None for whatever is none."""
    try:
        amount = float(value) if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    amount *= {"ms": 1, "s": 1_000, "m": 60_000}.get(unit, 1_000)
    return round(amount) if 0 <= amount <= _LARGEST_COUNT else None


def objects(text: str, marker: str) -> Iterator[tuple[Mapping[str, object], int]]:
    """Each line with `marker` that is a JSON object, and where it ends; at most 200,000 lines are looked at."""
    begin = text.find(marker)
    for _ in range(_OBJECTS):
        if begin < 0:
            return
        start, end = text.rfind("\n", 0, begin) + 1, text.find("\n", begin)
        end = len(text) if end < 0 else end
        if (found := document(text[start:end])) is not None:
            yield found, end
        begin = text.find(marker, end)


def document(text: str) -> Mapping[str, object] | None:
    """The JSON object that `text` is; None if it is none, or has more than 8 million characters."""
    if len(text) > DOCUMENT_CHARS or text.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def total_coverage(text: str) -> float | None:
    """Per cent of statements or lines, from the last total in `text`.

    Go prints the coverage of each package; several packages without a total have none.
    """
    for pattern in _COVERAGE_TOTALS:
        if found := pattern.findall(text):
            return _percent(found[-1])
    if tables := _LLVM_TOTAL.findall(text):  # columns: regions, functions, lines, perhaps branches
        columns = _LLVM_LINES.findall(tables[-1])
        return _percent(columns[2]) if len(columns) >= 3 else None
    packages = _GO_PACKAGE.findall(text)
    return _percent(packages[0]) if len(packages) == 1 else None


def _percent(digits: str) -> float | None:
    value = float(digits)
    return value if value <= 100 else None
