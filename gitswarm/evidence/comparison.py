"""What became of the tests between the base and the final tree, by the names in two reports and the texts between."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from gitswarm.evidence.case_names import go_parts, own_name
from gitswarm.evidence.declarations import DeclaredTest
from gitswarm.evidence.declared_tests import read_tests
from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.red_tests import is_excused_whole, judge_failures, judge_nothing, report_failures
from gitswarm.evidence.suite_run import (
    ComparisonIndex,
    SuiteRun,
    SuiteRuns,
    declaration_of,
    declared_name,
    finding,
    is_own,
    is_whole_file,
    may_stand_in,
    own_tests,
    place,
    red_cases,
    title_of,
)
from gitswarm.evidence.survivors import judge_base_tests
from gitswarm.evidence.test_changes import FollowedTest, TestChanges, has_collected_name, read_changes
from gitswarm.records.case_results import CaseResult
from gitswarm.records.proof import ProofFinding
from gitswarm.records.text import listed

_CODE = (".py", ".js", ".cjs", ".mjs", ".ts", ".rb")
_MOST_CHARS = 3_000_000
"""Of test files that are read to see whether each test has a result: some seconds."""

_PLACEHOLDER = re.compile(r"%[sdifjoOpc#]|[$#]\{[^}]{0,200}\}|\$[A-Za-z_][\w.]{0,100}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    :ivar passed: None when there was nothing to judge.
    :ivar excused: failing tests that failed at the base in the same way.
    :ivar flaky: failing tests that passed alone, or the other way round.
    """

    findings: tuple[ProofFinding, ...]
    passed: bool | None
    excused: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()


def needs_base(
    changes: TestChanges, final: SuiteRun | None, base_tests: Collection[str], read: Callable[[str], str | None]
) -> bool:
    """Whether the base report has to be made, for a red run that is to be routed or at the end.

    Existing tests or the harness are touched; nothing was executed although the base has tests; a failing test, or a
    failure without a name, is as it was at the base; a test file of the base is in a report that names all tests
    with nothing; a test was skipped that nothing in its text marks so.

    :param base_tests: paths of the base's test files.
    :param read: text of a file of the final tree.
    """
    if changes.calls_for_base:
        return True
    if final is None:
        return False
    if (final.ran_nothing and base_tests) or _leaves_out(final, base_tests, read) or _skips_unmarked(final, read):
        return True
    own = own_tests(changes)
    if final.is_red and (not red_cases(final) or any(not is_own(case, own) for case in red_cases(final))):
        return True
    return any(not _stands(final, test) for test in changes.followed)


def _leaves_out(final: SuiteRun, base_tests: Collection[str], read: Callable[[str], str | None]) -> bool:
    """Whether a test file of the base, of a kind that the report knows, or a function in it, has no result there."""
    if not final.names_all or final.results is None:
        return False
    reported: defaultdict[str, set[str]] = defaultdict(set)
    for case in final.results.cases:
        if case.file is not None:
            reported[case.file].add(declared_name(case))
    kinds = {PurePosixPath(file).suffix for file in reported}
    expected = [path for path in base_tests if PurePosixPath(path).suffix in kinds and has_collected_name(path)]
    if any(path not in reported for path in expected):
        return True
    left = _MOST_CHARS
    for path in expected:
        text = read(path) if path.endswith(".py") else None
        left -= len(text or "")
        if left < 0:
            return False
        functions = {test.name for test in read_tests(path, text).tests if "::" not in test.name}
        if not functions <= reported[path] and not any(is_whole_file(case) for case in final.results.cases):
            return True
    return False


def _skips_unmarked(final: SuiteRun, read: Callable[[str], str | None]) -> bool:
    """Whether the product, or anything else outside of a test, may have made it skip itself."""
    skipped: defaultdict[str, list[CaseResult]] = defaultdict(list)
    for case in final.results.cases if final.results is not None else ():
        if case.outcome == "skipped" and case.file is not None and case.file.endswith(".py"):
            skipped[case.file].append(case)
    for path, cases in skipped.items():
        marks = {test.name: test.mark for test in read_tests(path, read(path)).tests}
        if any(not is_whole_file(case) and not marks.get(declared_name(case), "?") for case in cases):
            return True
        if any(is_whole_file(case) for case in cases):
            return True
    return False


def _stands(final: SuiteRun, test: FollowedTest) -> bool:
    """Whether a declared test is in the report and did not fail; so it is where the report does not tell."""
    if not final.names_all or final.results is None or test.after is None:
        return True
    declared = {(test.new_path, test.after.name): test}
    reported = [case for case in final.results.cases if declaration_of(case, declared) is not None]
    inherited = (case for case in final.results.cases if own_name(case.name) == own_name(test.after.name))
    return any(not case.is_red for case in (*reported, *inherited))


def needs_old_on_new(changes: TestChanges) -> bool:
    return changes.calls_for_base


def compare(proof: SuiteRuns) -> Comparison:
    """All findings of the end of a run, in the order of their table in docs/evidence.md."""
    changes = read_changes(proof.changes)
    own = tuple(each for each in proof.changes if each.path in proof.harness)
    changes = replace(changes, harness=(*changes.harness, *own))
    if proof.final is None:
        return Comparison((finding("tests_not_run", (), "the last test run was skipped", blocking=True),), None)
    judged = ComparisonIndex(proof, changes, proof.final)
    nothing = judge_nothing(judged)
    if nothing is not None and nothing.flag in {"no_tests", "tests_cannot_run"}:
        return Comparison((nothing, *_not_compared(judged)), None)
    excused, flaky, red = judge_failures(judged)
    findings = (
        *judge_base_tests(judged),
        *_new_tests(judged),
        *report_failures(judged, excused, flaky, red),
        *_harness(judged),
        *((nothing,) if nothing else ()),
        *_not_compared(judged),
    )
    is_red = bool(red) or (judged.final.is_red and not red_cases(judged.final) and not is_excused_whole(judged))
    passed = None if judged.final.ran_nothing and not is_red else not is_red
    return Comparison(findings, passed, tuple(excused), tuple(flaky))


def _new_tests(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    """Test files of whose new tests a report that names all has none."""
    if not judged.final.names_all:
        return
    added: defaultdict[str, list[DeclaredTest]] = defaultdict(list)
    for path, test in judged.changes.added:
        added[path].append(test)
    for path, tests in sorted(added.items()):
        missing = [test for test in tests if not _is_reported(judged, path, test)]
        names = [f"{path}::{test.name}" for test in missing]
        broken = judged.cases.get(path)
        if not missing or (broken is not None and broken.is_red):
            continue
        if len(missing) < len(tests):
            yield finding("new_tests_not_run", names, f"not in the report: {listed(names)}")
        elif has_collected_name(path) and _runs_beside(judged, path):
            fact = f"none of the {len(names)} new tests of {path} ran"
            yield finding("new_tests_not_run", names, fact, blocking=True)
        else:
            fact = f"none of the {len(names)} tests of {path} ran; the command may not look for them there"
            yield finding("new_tests_not_run", names, fact)


def _is_reported(judged: ComparisonIndex, path: str, test: DeclaredTest) -> bool:
    """By its own name, for a class may be run under the name of one that inherits it."""
    title = own_name(test.name) if path.endswith(".py") else test.name
    if not _PLACEHOLDER.search(title):
        found = judged.titles.get(title, [])
    else:
        pattern = _title_pattern(title)
        found = [case for case in judged.cases.values() if pattern.fullmatch(title_of(case))]
    return any(may_stand_in(case, path) or place(case) == path for case in found)


def _title_pattern(name: str) -> re.Pattern[str]:
    """`adds %i`, `adds $a`, `adds ${a}` and `adds #{a}` are titles of several tests."""
    parts = _PLACEHOLDER.split(name)
    return re.compile(".{0,500}".join(map(re.escape, parts)), re.DOTALL)


def _runs_beside(judged: ComparisonIndex, path: str) -> bool:
    """Whether other tests of a new file's folder, or of its file, were run."""
    folder = PurePosixPath(path).parent.as_posix()
    for case in judged.cases.values():
        if case.file is not None and PurePosixPath(case.file).parent.as_posix() == folder:
            return True
        if case.file is None and go_parts(case.name) and may_stand_in(case, path):
            return True
    file = next((each for each in judged.changes.files if each.change.path == path), None)
    before = file.before.tests if file is not None else ()
    return any(_is_reported(judged, path, test) for test in before)


def _harness(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    """Settings and scripts: a bound that is lowered shows in no test. Code shows when its old version is run."""
    told = (each.path for each in judged.changes.harness if role_of(each.path, each.after) != "test")
    names = sorted({path for path in told if not path.endswith(_CODE)})
    if names:
        yield finding("harness_changed", names, f"decides which tests run, or what passes: {listed(names)}")


def _not_compared(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    """What was called for and not done, and names that a report does not tell."""
    proof, touched = judged.proof, judged.changes.calls_for_base
    if proof.base in {"no time", "not possible"}:
        yield finding("not_compared", (), f"the tests of the base were not run: {proof.base}", blocking=touched)
    elif judged.base is not None and not (judged.base.names_all and judged.final.names_all):
        fewer = judged.final.executed < judged.base.executed
        counts = f"{judged.base.executed} executed at the base, {judged.final.executed} now"
        fact = f"the reports do not name every test; {counts}"
        if fewer or touched or (red_cases(judged.final) and not judged.final.ran_nothing):
            blocking = touched and (fewer or judged.base.names_all)
            yield finding("not_compared", (), fact, blocking=blocking)
    if proof.old_on_new == "no time":
        yield finding("not_compared", (), "the base versions of the tests were not run: no time", blocking=True)
    elif proof.old_on_new == "not possible" and touched:
        yield finding("not_compared", (), "the base versions of the tests cannot be run alone")
