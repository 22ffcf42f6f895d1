"""What became of the tests between the base and the final tree, by two reports and the texts between; which failures
count: excused by the base, flaky, or red.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.evidence.declarations import DeclaredTest, go_parts, own_name
from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.suite_run import (
    MAY_HAVE_TITLES,
    ComparisonIndex,
    SuiteRun,
    SuiteRuns,
    finding,
    is_own,
    may_stand_in,
    own_tests,
    place,
    red_cases,
    title_of,
)
from gitswarm.evidence.survivors import judge_base_tests
from gitswarm.evidence.test_changes import TestChanges, has_collected_name
from gitswarm.records.evidence import ProofFinding
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import listed

_CODE = (".py", ".js", ".cjs", ".mjs", ".ts", ".rb")
_PLACEHOLDER = lazy_re(r"%[sdifjoOpc#]|[$#]\{[^}]{0,200}\}|\$[A-Za-z_][\w.]{0,100}")


class Comparison(Struct, frozen=True):
    """`passed` None: there was nothing to judge."""

    findings: tuple[ProofFinding, ...]
    passed: bool | None


def needs_base(changes: TestChanges, final: SuiteRun, *, may_land: bool) -> bool:
    """Whether the tests of the base are run: always where the work may land.

    In a rehearsal only where the result decides how it continues: existing tests or the harness are touched, nothing
    was executed, or a failing test, or a failure without a name, is as it was at the base.
    """
    if may_land or changes.touches_tests or final.ran_nothing:
        return True
    own = own_tests(changes)
    return final.is_red and (not red_cases(final) or any(not is_own(case, own) for case in red_cases(final)))


def misses_untouched_tests(proof: SuiteRuns) -> bool:
    """Whether tests that nobody touched, or some without a name, were executed at the base and are not by now."""
    judged = ComparisonIndex(proof)
    if judged.base is None or proof.final.is_red:
        return False
    names = {name for each in judge_base_tests(judged) if each.blocking for name in each.names}
    if any(name in names and place(case) not in judged.touched for name, case in judged.base_cases.items()):
        return True
    return not judged.touched and any(each.blocking for each in _not_compared(judged))


def compare(proof: SuiteRuns) -> Comparison:
    """All findings of the end of a run, in the order of their table in docs/evidence.md."""
    judged = ComparisonIndex(proof)
    nothing = _judge_nothing(judged)
    if nothing is not None and nothing.flag in {"no_tests", "tests_cannot_run"}:
        return Comparison((nothing, *_not_compared(judged)), None)
    excused, flaky, red = _judge_failures(judged)
    is_red = bool(red) or (judged.final.is_red and not red_cases(judged.final) and not _is_excused_whole(judged))
    findings = (
        *judge_base_tests(judged, is_red=is_red),
        *_new_tests(judged),
        *_report_failures(judged, excused, flaky, red),
        *_harness(judged),
        *((nothing,) if nothing else ()),
        *_not_compared(judged),
        *_not_in_commit(judged),
    )
    passed = None if judged.final.ran_nothing and not is_red else not is_red
    return Comparison(findings, passed)


def _judge_failures(judged: ComparisonIndex) -> tuple[list[str], list[str], list[str]]:
    """Names that fail: excused by the base, flaky, and red."""
    alone = judged.proof.alone.named() if judged.proof.alone is not None else {}
    own_names = own_tests(judged.changes)
    excused, flaky, red = [], [], []
    for case in red_cases(judged.final):
        before = judged.base_cases.get(case.name)
        own = is_own(case, own_names) or case.name in judged.proof.criteria
        again = alone.get(case.name)
        if before is not None and before.is_red and not own and judged.proof.changes:
            excused.append(case.name)
        elif again is not None and again.is_green and not own:
            flaky.append(case.name)
        else:
            red.append(case.name)
    return excused, flaky, red


def _is_excused_whole(judged: ComparisonIndex) -> bool:
    """A failure without a name that the base shows too: the same output, and the same counts above 0."""
    base, final = judged.base, judged.final
    if base is None or not base.is_red or not judged.proof.changes or judged.proof.criteria:
        return False
    if final.masked_output != base.masked_output or not final.masked_output:
        return False
    return _counts(base) == _counts(final) and final.executed > 0


def _counts(run: SuiteRun) -> tuple[int, ...]:
    return (run.report.passed, run.report.failed, run.report.skipped) if run.report else ()


def _report_failures(
    judged: ComparisonIndex, excused: Sequence[str], flaky: Sequence[str], red: Sequence[str]
) -> Iterator[ProofFinding]:
    if excused:
        yield finding("red_before", excused, f"failed at the base too: {listed(excused)}")
    if flaky:
        yield finding("flaky", flaky, f"failed, and passed when run alone: {listed(flaky)}")
    if red:
        yield finding("tests_red", red, f"{len(red)} failed: {listed(red)}", blocking=True)
    elif judged.final.is_red and not red_cases(judged.final):
        if _is_excused_whole(judged):
            yield finding("red_before", (), "the test command failed at the base in the same way")
        else:
            yield finding("tests_red", (), "the test command failed and names no test", blocking=True)


def _judge_nothing(judged: ComparisonIndex) -> ProofFinding | None:
    """Neither side executed a test, or the final one did not."""
    final, base = judged.final, judged.base
    if final.failed and base is not None and base.failed and judged.proof.changes and _is_as_broken(base, final):
        return finding("tests_cannot_run", (), "no test could run, nor at the base")
    if not final.ran_nothing or final.failed or base is None:
        return None
    if base.ran_nothing:
        return finding("no_tests", (), "no test ran, nor at the base")
    fact = f"no test ran; the base executed {base.executed}"
    return finding("tests_not_run", (), fact, blocking=True)


def _is_as_broken(base: SuiteRun, final: SuiteRun) -> bool:
    """Both executed nothing, or say nothing that can be read, with the same error."""
    nothing = (base.ran_nothing or base.report is None) and (final.ran_nothing or final.report is None)
    same_output = bool(final.masked_output) and final.masked_output == base.masked_output
    same_files = bool(red_cases(final)) and [each.name for each in red_cases(final)] == [
        each.name for each in red_cases(base)
    ]
    return nothing and (same_output or same_files)


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
        elif has_collected_name(path) and not path.endswith(MAY_HAVE_TITLES) and _folder_has_run(judged, path):
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


def _folder_has_run(judged: ComparisonIndex, path: str) -> bool:
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
    changed = (each.path for each in judged.changes.harness if role_of(each.path, each.after) != "test")
    names = sorted({path for path in changed if not path.endswith(_CODE)})
    if names:
        yield finding("harness_changed", names, f"decides which tests run, or what passes: {listed(names)}")


def _not_compared(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    """What was called for and not done, and names that a report lacks."""
    proof, touched = judged.proof, judged.changes.touches_tests
    if proof.base in {"no time", "not possible", "far longer"}:
        fact = f"the tests of the base were not run: {proof.base}"
        yield finding("not_compared", (), fact, blocking=touched or proof.base == "far longer")
    elif judged.base is not None and not (judged.base.names_all and judged.final.names_all):
        executed = max(judged.final.executed, proof.again.executed if proof.again is not None else 0)
        fact = f"the reports do not name every test; {judged.base.executed} executed at the base, {executed} now"
        is_less = executed < judged.base.executed or judged.base.names_all
        if touched or is_less or (red_cases(judged.final) and not judged.final.ran_nothing):
            blocking = is_less and (touched or not judged.final.is_red)
            yield finding("not_compared", (), fact, blocking=blocking)
    if proof.old_on_new == "no time":
        yield finding("not_compared", (), "the base versions of the tests were not run: no time", blocking=True)
    elif proof.old_on_new == "setup failed":
        yield finding(
            "not_compared", (), "the project's setup fails on the new code, and not at the base", blocking=True
        )
    elif proof.old_on_new == "not possible" and touched:
        yield finding("not_compared", (), "the base versions of the tests cannot be run alone")


def _not_in_commit(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    """Tests that pass only beside files that git ignores. Nothing against the run where those of the base cannot be
    run in a fresh checkout either."""
    proof, committed = judged.proof, judged.proof.committed
    names, files = proof.leftovers, listed(proof.leftovers)
    if committed == "setup failed":
        fact = f"the project's setup fails in a fresh checkout of the commit, without {files}"
        yield finding("not_in_commit", names, fact, blocking=_base_runs(judged))
    elif isinstance(committed, str):
        if committed != "not needed":
            fact = f"not tested without {files}, which git ignores: {committed}"
            yield finding("not_compared", names, fact)
    elif committed.is_worse_than(judged.final):
        lost, own = committed.lacks(judged.final), own_tests(judged.changes)
        ended = "fail" if committed.is_red else "are not executed"
        what = f"{listed([each.name for each in lost]) or 'tests'} {ended} in a fresh checkout of the commit"
        if proof.needs_leftovers:
            is_about_run = any(case.name in proof.criteria or is_own(case, own) for case in lost)
            blocking = _base_runs(judged) and (committed.is_red or is_about_run)
            fact = f"{what}; they pass beside {files}, which git ignores"
            yield finding("not_in_commit", names, fact, blocking=blocking)
        else:
            fact = f"{what}: worktree.setup may not install what they need"
            yield finding("not_compared", names, fact)


def _base_runs(judged: ComparisonIndex) -> bool:
    """Whether the base's tests can be run in a fresh checkout."""
    return judged.base is not None and not (judged.base.failed and judged.base.ran_nothing)
