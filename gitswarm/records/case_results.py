"""Results of tests by name: of one run, and of the run's base as the ledger keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, NamedTuple

from gitswarm.records.base import Record
from gitswarm.records.evidence import ReportSource, TestReport

MOST_CASES = 100_000
"""Of a run with more names the first are kept, and it is not `complete`."""

_NAME_CHARS = 500
_KEPT_CHARS = 480

CaseOutcome = Literal["passed", "failed", "skipped", "xfailed", "xpassed", "error"]
"""`error`: it broke outside of its own body (fixture, import, build). `xfailed`: it failed, as it was marked to do;
`xpassed`: it passed although it was, and nothing made a failure of that."""

_WORST_FIRST: tuple[CaseOutcome, ...] = ("failed", "error", "passed", "xpassed", "xfailed", "skipped")


class CaseResult(NamedTuple):
    """One test. `name` is whole: no other test of the run has it. `file` where the tool tells it, relative to the
    folder that the tool ran in."""

    name: str
    outcome: CaseOutcome
    file: str | None = None

    @property
    def is_executed(self) -> bool:
        return self.outcome != "skipped"

    @property
    def is_green(self) -> bool:
        """Executed, and passed without a mark that expects a failure."""
        return self.outcome in {"passed", "xpassed"}

    @property
    def is_red(self) -> bool:
        return self.outcome in {"failed", "error"}


class CaseResults(Record):
    """What one run says about each test, in order of name.

    `complete`: every test that was executed is named here. Without it a missing name proves nothing.
    """

    source: ReportSource
    complete: bool
    cases: tuple[CaseResult, ...] = ()

    @classmethod
    def of(cls, source: ReportSource, cases: Iterable[CaseResult], *, complete: bool) -> CaseResults:
        """A name that came several times has its worst outcome; being executed is worse than being skipped."""
        merged: dict[str, CaseResult] = {}
        for case in cases:
            name = _bounded(case.name)
            before = merged.get(name)
            if before is None and len(merged) == MOST_CASES:
                complete = False
                break
            outcome = case.outcome if before is None else min(before.outcome, case.outcome, key=_WORST_FIRST.index)
            file = case.file if before is None else before.file
            merged[name] = CaseResult(name, outcome, storable(file) if file is not None else None)
        return cls(source=source, complete=complete, cases=tuple(merged[name] for name in sorted(merged)))

    def named(self) -> dict[str, CaseResult]:
        return {case.name: case for case in self.cases}


def _bounded(name: str) -> str:
    """A name of more than 500 characters keeps its first 480, and a hash of the whole."""
    name = storable(name)
    if len(name) <= _NAME_CHARS:
        return name
    return f"{name[:_KEPT_CHARS]}…{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def storable(text: str) -> str:
    """Half a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()


class BaseTests(Record):
    """`<flow>/base/<step>.json`: of the test step that had them run.

    `key`: of the code, the command and what it was run in. Only of green runs that name every test. `asked`: the
    report came where it was asked for.
    """

    key: str
    asked: bool
    report: TestReport
    results: CaseResults
