"""Evidence of a step: tests and their results by name, changes, claims against facts; and what speaks against the
work of a run and is not settled."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, NamedTuple

from msgspec import Meta

from gitswarm.records.envelope import FileChange
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Count, Record
from gitswarm.records.safety import SecretFound
from gitswarm.records.worklists import AcProgress, JudgedCriterion, WorklistCount

_NO_WORD = re.compile(r"[^\w:.-]+")
_LONGEST = 80


class Concern(Record):
    """A fact that contradicts a claim or a promise.

    `id`: `<flag>@<flow>/<step>`; `#2` behind it when a person accepted the first and there is more of the same.
    `names`: the tests or paths that it is about, or what a critic said. A run does not succeed while one that blocks
    is open.
    """

    id: str
    flag: str
    blocking: bool
    fact: str
    names: tuple[str, ...] = ()


class AcceptedConcern(Record):
    """A person's word that a concern may stay. It holds for these names only."""

    id: str
    why: str
    names: tuple[str, ...] = ()


def concern_id(flag: str, flow: str, step: str) -> str:
    """One word: a flag may hold a name that an agent made up, and a trailer holds several ids."""
    return f"{_NO_WORD.sub('_', flag)[:_LONGEST]}@{flow}/{step}"


class ChangedFile(FileChange):
    """A file of the step's own change. Line counts are None for binary files."""

    old_path: str | None = None
    insertions: int | None = None
    deletions: int | None = None


class DiffSummary(Record):
    """What git says that the step changed, `.swarm/runs` left out."""

    files: tuple[ChangedFile, ...] = ()
    insertions: int = 0
    deletions: int = 0

    @classmethod
    def of(cls, files: tuple[ChangedFile, ...]) -> DiffSummary:
        return cls(
            files=files,
            insertions=sum(file.insertions or 0 for file in files),
            deletions=sum(file.deletions or 0 for file in files),
        )


class CheckOutcome(Record):
    """Outcome of a command step. `passed` is None when nothing was judged; it is true for tests that fail as they did
    before the run (`red_before`)."""

    passed: bool | None = None
    exit_code: int | None = None
    reason: Literal["no_tests", "red_before"] | None = None
    command: str | None = None


ExtraRun = Literal["base", "old_tests", "again", "commit"]
"""Test runs added to that of a test step: of the run's base, of the base's tests on the new code, of what failed, of
the commit without the files that git ignores."""

_TESTED = {
    "base": "the base",
    "old_tests": "the new code by the old tests",
    "again": "what failed or is missing again",
    "commit": "the commit in a fresh checkout",
}

ReportSource = Literal["junit", "pytest", "go", "cargo", "nextest", "tap", "jest", "vitest"]


def extra_run_words(kind: str) -> str:
    """`testing the base`"""
    return f"testing {_TESTED.get(kind, kind)}"


class TestReport(Record):
    """What a test tool says about one run. `total` = passed + failed + skipped.

    A suite that could not be loaded counts as one failed test of its name. `failing` has at most 50 names.
    `error_signature` is equal for equal failures wherever and whenever they happen; None when nothing failed.
    `partial`: the tool did not tell all, so that the counts are lower bounds.
    """

    __test__: ClassVar[bool] = False  # pytest takes every Test* that a test module imports for a test

    source: ReportSource
    total: Count
    passed: Count
    failed: Count
    skipped: Count
    failing: tuple[str, ...] = ()
    error_signature: str | None = None
    coverage_percent: float | None = None
    duration_ms: Count | None = None
    partial: bool = False


Flag = Literal[
    "test_count_decreased",
    "coverage_dropped",
    "tests_deleted",
    "claimed_pass_but_failed",
    "claimed_progress_no_diff",
    "claimed_verified_with_failures",
    "file_changes_mismatch",
    "unverified_claims_high_confidence",
]


class Finding(Record):
    """One contradiction between what was said and what is known; docs/evidence.md explains the flags."""

    flag: Flag
    claim: str
    fact: str
    severity: Literal["warning", "critical"]


class Verdict(Record):
    """How far a handoff agrees with the facts. `score`: 1 without findings; the formula is in docs/evidence.md.

    `about`: the earlier steps (`flow/step`) that a test run judges; empty when it is the step's own handoff.
    """

    recommendation: Literal["TRUST", "VERIFY", "REJECT"]
    score: Annotated[float, Meta(ge=0, le=1)]
    flags: tuple[Flag, ...] = ()
    findings: tuple[Finding, ...] = ()
    about: tuple[str, ...] = ()


class Evidence(Record):
    """`<flow>/evidence/<step>.json`: what can be proven about one execution.

    `report` is a command step's; `verdict` is about the step's own handoff, or in a command step about those whose
    code it tested. None when there was nothing to read or judge.
    `extra_runs_ms`: what the test runs that were added to a test step's own took, setup included.
    `ac` counts the acceptance criteria, None without a matrix; `criteria`: what a test run proves of them.
    `artifact_problems` says where an artifact does not match its schema. `secrets`: files that were taken out of the
    change because of them.
    `operation`: what git-swarm itself found out in a step of its own; docs/flows.md has the fields.
    `put_back`: code that a role which only reads it, or a test command, had changed; it is as it was.
    `opened`, `closed`: concerns that this execution opened, and the ids of those that it settled; `accepted`: a
    person's word on some. Runs of format 1 have none of them. `worklist` counts the items of a review, in steps
    that may write them.
    """

    diff: DiffSummary
    tests: CheckOutcome
    tampered: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    report: TestReport | None = None
    extra_runs_ms: dict[ExtraRun, Count] = {}
    verdict: Verdict | None = None
    ac: AcProgress | None = None
    criteria: tuple[JudgedCriterion, ...] = ()
    artifact_problems: tuple[str, ...] = ()
    secrets: tuple[SecretFound, ...] = ()
    operation: dict[str, JsonValue] = {}
    opened: tuple[Concern, ...] = ()
    closed: tuple[str, ...] = ()
    accepted: tuple[AcceptedConcern, ...] = ()
    worklist: WorklistCount | None = None


def concerns_trailer(evidence: Evidence) -> str:
    """The trailer of the concerns that a step opened (`+id`, `+!id` for one that blocks) and settled (`-id`)."""
    closed = (f"-{each}" for each in evidence.closed)
    opened = (f"+{'!' if each.blocking else ''}{each.id}" for each in evidence.opened)
    return " ".join((*closed, *opened))


ProofFlag = Literal[
    "tests_deleted",
    "tests_weakened",
    "tests_reshaped",
    "expectation_changed",
    "harness_changed",
    "new_tests_not_run",
    "tests_red",
    "red_before",
    "flaky",
    "tests_not_run",
    "tests_cannot_run",
    "no_tests",
    "not_compared",
    "not_in_commit",
    "removed_on_purpose",
    "suspicious_code",
]


class ProofFinding(Record):
    """What the texts of a change, or two test reports, show. `names` are tests (`tests/test_a.py::test_b`) or paths;
    `fact` is one line. docs/evidence.md explains the flags."""

    flag: ProofFlag
    blocking: bool
    names: tuple[str, ...] = ()
    fact: str


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
    import hashlib  # noqa: PLC0415 - 2 ms of OpenSSL

    return f"{name[:_KEPT_CHARS]}…{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def storable(text: str) -> str:
    """Half a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()


class BaseTests(Record):
    """`<flow>/base/<step>.json`: of the test step that had them run.

    `key`: of the code, the command and what it was run in. Only of green runs that name every test. `asked`: the
    report came where it was asked for. `leaves`: files and folders that are there afterwards and that git ignores.
    """

    key: str
    asked: bool
    report: TestReport
    results: CaseResults
    leaves: tuple[str, ...] = ()
