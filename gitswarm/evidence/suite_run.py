"""The runs that are compared, and the ways from a result to its declaration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.evidence.declarations import TextChange, go_parts, own_name, path_within
from gitswarm.evidence.test_changes import FollowedTest, TestChanges, read_changes
from gitswarm.records.envelope import RemovedTest
from gitswarm.records.evidence import CaseResult, CaseResults, ExtraRun, ProofFinding, ProofFlag, TestReport
from gitswarm.records.text import shorten

Value = TypeVar("Value")

_FACT_COLUMNS = 300

MAY_HAVE_TITLES = (".java", ".kt", ".groovy", ".cs")
"""Files whose tests a report may call by a title that is no name of theirs: `@DisplayName("adds two numbers")`."""

Missing = Literal["not needed", "not possible", "setup failed", "no time", "far longer"]
"""Why a run was not made. `not possible`: the runner takes no files, or the base could not be set up. `setup failed`:
the new code cannot be, with whatever harness. `far longer`: it was still going after three times as long as the tests
take by now, so that some may be gone."""


class SuiteRun(Struct, frozen=True):
    """One run of the test command on one tree.

    :ivar failed: it ended as a failure; a known end for "nothing to run" is none.
    :ivar report: None: it could not be read.
    :ivar masked_output: equal for equal output, whenever and wherever it was printed.
    :ivar asked: the report came where it was asked for.
    :ivar leaves: of a run on the base: what is there afterwards that git ignores.
    """

    failed: bool
    report: TestReport | None = None
    results: CaseResults | None = None
    masked_output: str = ""
    asked: bool = False
    leaves: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        return self.results.cases if self.results is not None else ()

    @property
    def executed(self) -> int:
        return self.report.passed + self.report.failed if self.report else 0

    @property
    def ran_nothing(self) -> bool:
        """No test was executed; a file that cannot be loaded is none."""
        if self.names_all:
            return not any(case.is_executed and not is_whole_file(case) for case in self.cases)
        broken = sum(case.is_red and is_whole_file(case) for case in self.cases)
        return self.report is not None and self.executed <= broken

    @property
    def is_red(self) -> bool:
        return self.failed or (self.report is not None and self.report.failed > 0)

    def lacks(self, other: SuiteRun) -> list[CaseResult]:
        """Tests that pass in another run, and not in this one."""
        green = {case.name for case in self.cases if case.is_green}
        return [case for case in other.cases if case.is_green and case.name not in green]

    def is_worse_than(self, other: SuiteRun) -> bool:
        """Whether tests fail or are missing that pass in another run."""
        if self.names_all and other.names_all:
            return bool(self.lacks(other))
        return (self.is_red and not other.is_red) or self.executed < other.executed

    @property
    def names_all(self) -> bool:
        return self.results is not None and self.results.complete


class SuiteRuns(Struct, frozen=True):
    """What is known when a run is judged.

    :ivar final: on the final tree.
    :ivar base: on the base; a reason where it was not made.
    :ivar old_on_new: the base versions of touched test and harness files on the final product.
    :ivar alone: failing tests of the final run, run again alone; None: not done.
    :ivar again: the next whole run, where the final one misses tests that nobody touched; None: not done.
    :ivar leftovers: files and folders beside the final tree that git ignores and no setup made.
    :ivar committed: in a fresh checkout of the final tree, without them; a reason where it was not made.
    :ivar needs_leftovers: that one is worse each time, and as good as the final run beside the leftovers.
    :ivar changes: texts from the base to the final tree.
    :ivar untouched: paths and texts of the test files beside those that lost tests.
    :ivar removed: tests that handoffs declare as removed.
    :ivar harness: changed files that decide about tests in this project, besides those that do everywhere.
    :ivar criteria: names of results that criteria stand on.
    :ivar extra_runs_ms: how long the runs took that were made for this.
    """

    final: SuiteRun
    base: SuiteRun | Missing = "not needed"
    old_on_new: CaseResults | Missing = "not needed"
    alone: CaseResults | None = None
    again: SuiteRun | None = None
    leftovers: tuple[str, ...] = ()
    committed: SuiteRun | Missing = "not needed"
    needs_leftovers: bool = False
    changes: Sequence[TextChange] = ()
    untouched: tuple[tuple[str, str], ...] = ()
    removed: Sequence[RemovedTest] = ()
    harness: frozenset[str] = frozenset()
    criteria: frozenset[str] = frozenset()
    extra_runs_ms: Mapping[ExtraRun, int] = field(default_factory=dict)

    @property
    def read(self) -> TestChanges:
        """What the changes do to tests, of all files that a report names."""
        reported = reported_files(self.final) | reported_files(self.base)
        return _read(tuple(self.changes), reported, self.harness, self.untouched)


@lru_cache(maxsize=4)
def _read(
    changes: tuple[TextChange, ...],
    reported: frozenset[str],
    harness: frozenset[str],
    untouched: tuple[tuple[str, str], ...],
) -> TestChanges:
    found = read_changes(changes, reported, untouched)
    return replace(found, harness=(*found.harness, *(each for each in changes if each.path in harness)))


def reported_files(run: SuiteRun | Missing) -> frozenset[str]:
    """Files whose tests were run, whatever they are called; not those that only show examples."""
    cases = run.cases if isinstance(run, SuiteRun) else ()
    return frozenset(case.file for case in cases if case.file is not None and not is_doctest(case))


def is_whole_file(case: CaseResult) -> bool:
    """A test file that could not be loaded, or was skipped as a whole."""
    return case.name == case.file


def is_doctest(case: CaseResult) -> bool:
    """An example in a docstring or a document, as pytest names it: `app.py::app.total`, `README.md::README.md`."""
    if case.file is None or not case.name.startswith(f"{case.file}::"):
        return False
    inner = path_within(case).partition("[")[0]
    return "." in inner or inner == PurePosixPath(case.file).stem


class ComparisonIndex:
    """A proof with its lookups: results by name, and others. `base` None: there is none."""

    def __init__(self, proof: SuiteRuns) -> None:
        self.proof = proof
        self.final, self.changes = proof.final, proof.read
        self.base = proof.base if isinstance(proof.base, SuiteRun) else None
        old = proof.old_on_new
        self.old = old.named() if isinstance(old, CaseResults) else None
        self.cases = {case.name: case for case in self.final.cases}
        self.base_cases = {case.name: case for case in self.base.cases} if self.base is not None else {}
        self.base_by_key: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
        for case in self.base_cases.values():
            self.base_by_key[key_of(case)].append(case)
        self.by_key: dict[tuple[str, str], list[CaseResult]] = defaultdict(list)
        self.titles: dict[str, list[CaseResult]] = defaultdict(list)
        for case in self.cases.values():
            self.by_key[key_of(case)].append(case)
            for title in {title_of(case), own_name(case.name)}:
                self.titles[title].append(case)
        self.touched = self.changes.touched
        self.renamed = {
            each.old_path: each.path for each in proof.changes if each.old_path and each.after is not None
        }
        self.by_declared = {(test.old_path, test.before.name): test for test in self.changes.followed}

    def followed(self, case: CaseResult) -> FollowedTest | None:
        """The declaration of a base result in a changed file; None in a file that did not change."""
        return declaration_of(case, self.by_declared)


def place(case: CaseResult) -> str:
    """Where a test stands: its file, else its Go package or Rust binary, else nowhere."""
    if case.file is not None:
        return case.file
    if parts := go_parts(case.name):
        return parts[0]
    return case.name.partition(" ")[0] if "::" in case.name and " " in case.name else ""


def declared_name(case: CaseResult) -> str:
    """What a file calls the test: `TestX::test_y` for pytest, else its own name."""
    if case.file is not None and case.file.endswith(".py"):
        return path_within(case).partition("[")[0]
    return own_name(case.name)


def key_of(case: CaseResult) -> tuple[str, str]:
    """Where a test stands, and what it is called there."""
    return place(case), declared_name(case)


def declaration_of(case: CaseResult, declared: Mapping[tuple[str, str], Value]) -> Value | None:
    """By file and name; without a file by a name that only one changed file has, in the folder of its package."""
    name = declared_name(case)
    if case.file is not None and (case.file, name) in declared:
        return declared[case.file, name]
    if case.file is not None and case.file.endswith(".py"):
        return None
    own = [key for key in declared if key[1] == name and may_stand_in(case, key[0])]
    return declared[own[0]] if len(own) == 1 else None


def may_stand_in(case: CaseResult, path: str) -> bool:
    """Cargo names the path within a crate, go only a package, nextest and libtest neither."""
    if case.file is not None:
        return path == case.file or path.endswith(f"/{case.file}")
    if parts := go_parts(case.name):
        folder = PurePosixPath(path).parent.as_posix()
        return path.endswith(".go") and (folder == "." or parts[0] == folder or parts[0].endswith(f"/{folder}"))
    return True


def finding(flag: ProofFlag, names: Sequence[str], fact: str, *, blocking: bool = False) -> ProofFinding:
    return ProofFinding(
        flag=flag, blocking=blocking, names=tuple(dict.fromkeys(names)), fact=shorten(fact, _FACT_COLUMNS)
    )


def title_of(case: CaseResult) -> str:
    """What a JavaScript test is called inside of its blocks, else its own name."""
    return case.name.rpartition(" > ")[2] if " > " in case.name else own_name(case.name)


def red_cases(run: SuiteRun) -> list[CaseResult]:
    return [case for case in run.cases if case.is_red]


def own_tests(changes: TestChanges) -> dict[tuple[str, str], bool]:
    """Tests that the run added or changed, by path and name: the base shows nothing about them."""
    added = {(path, test.name): True for path, test in changes.added}
    changed = {(test.new_path, test.after.name): True for test in changes.followed if test.after and test.is_changed}
    return added | changed


def is_own(case: CaseResult, own: Mapping[tuple[str, str], bool]) -> bool:
    if is_whole_file(case):
        return any(path == case.file for path, _ in own)
    return bool(declaration_of(case, own))
