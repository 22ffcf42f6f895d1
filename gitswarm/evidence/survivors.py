"""What became of the tests of the base: kept, weakened, lost, reshaped, removed on purpose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from gitswarm.evidence.case_names import go_parts, own_name, path_within
from gitswarm.evidence.declarations import DeclaredTest
from gitswarm.evidence.definitions import changed_definitions
from gitswarm.evidence.moved_examples import moved_examples
from gitswarm.evidence.removal import subject_of
from gitswarm.evidence.suite_run import ComparisonIndex, declared_name, finding, is_doctest, is_whole_file, place
from gitswarm.evidence.test_changes import FollowedTest, changed_lines, is_declared
from gitswarm.evidence.test_count import TextChange
from gitswarm.records.case_results import CaseResult
from gitswarm.records.proof import ProofFinding
from gitswarm.records.text import listed

_LISTED = 3
_WORD = re.compile(r"\w+")


def judge_base_tests(judged: ComparisonIndex) -> Iterator[ProofFinding]:
    lost: list[CaseResult] = []
    weakened: list[tuple[CaseResult, str]] = []
    changed: list[CaseResult] = []
    flaky: list[str] = []
    again = judged.proof.again.results.named() if judged.proof.again and judged.proof.again.results else {}
    for case in _base_tests(judged):
        successors = _successors(judged, case)
        if case.name in again and again[case.name].is_green and _is_only_missing(judged, case, successors):
            flaky.append(case.name)
        elif not successors:
            lost.append(case)
        elif why := _weaker(judged, case, successors):
            weakened.append((case, why))
        elif case.is_green and _old_fails(judged, case) and not _is_kept(judged, case):
            changed.append(case)
    if weakened:
        yield finding(
            "tests_weakened", [case.name for case, _ in weakened], f"now {_reasons(weakened)}", blocking=True
        )
    if lost and judged.final.names_all:
        yield from _lost(judged, lost)
    if flaky:
        yield finding("flaky", flaky, f"not executed, and passed in the next run: {listed(flaky)}")
    if changed:
        yield finding("expectation_changed", [case.name for case in changed], _both_lines(judged, changed))


def _base_tests(judged: ComparisonIndex) -> Iterator[CaseResult]:
    """What was executed there, and was not expected to fail."""
    cases = judged.base.results.cases if judged.base is not None and judged.base.results is not None else ()
    return (each for each in cases if each.is_executed and each.outcome != "xfailed" and not is_whole_file(each))


def _is_only_missing(judged: ComparisonIndex, case: CaseResult, successors: Sequence[CaseResult]) -> bool:
    """It was not executed, and nobody touched it."""
    shown = any(each.is_executed and each.outcome != "xfailed" for each in successors)
    return not shown and place(case) not in judged.touched


def _is_kept(judged: ComparisonIndex, case: CaseResult) -> bool:
    """Its old version calls what has another name by now."""
    test = judged.followed(case)
    return test is not None and test.is_kept


def _successors(judged: ComparisonIndex, case: CaseResult) -> list[CaseResult]:
    """Results that stand for a base test: of its name, its name after a rename, its body; its file, if that is
    broken or skipped as a whole."""
    if case.name in judged.cases:
        return [judged.cases[case.name]]
    file = case.file
    if file is not None and (new := judged.renamed.get(file)):
        name = new + case.name.removeprefix(file)
        if name in judged.cases:
            return [judged.cases[name]]
        file = new
    test = judged.followed(case)
    if test is not None and test.after is not None:
        found = [
            each
            for each in judged.by_key[_new_place(case, test), _named_as(case, test.after)]
            if _parameters(each) == _parameters(case)
        ]
        if found:
            return found
    whole = judged.cases.get(file or "")
    return [whole] if whole is not None else _other_parameters(judged, case, test)


def _other_parameters(judged: ComparisonIndex, case: CaseResult, test: FollowedTest | None) -> list[CaseResult]:
    """Of a test that is as it was: names made of addresses, dates or random numbers are others in every run."""
    if test is not None and test.is_changed:
        return []
    key = (place(case), declared_name(case))
    before, after = judged.base_by_key[key], judged.by_key[key]
    return after if 0 < sum(each.is_executed for each in before) <= sum(each.is_executed for each in after) else []


def _new_place(case: CaseResult, test: FollowedTest) -> str:
    return test.new_path if case.file is not None else place(case)


def _named_as(case: CaseResult, test: DeclaredTest) -> str:
    return test.name if case.file is not None and case.file.endswith(".py") else own_name(test.name)


def _parameters(case: CaseResult) -> str:
    if case.file is not None and case.file.endswith(".py"):
        return path_within(case).partition("[")[2]
    parts = go_parts(case.name)
    return parts[2] if parts else ""


def _weaker(judged: ComparisonIndex, case: CaseResult, successors: Sequence[CaseResult]) -> str:
    """Why the successor shows less than the base test did; empty when it does not. A test that was red has only to
    be there and to be executed."""
    outcomes = {each.outcome for each in successors}
    if outcomes <= {"skipped"}:
        return "skipped"
    if case.is_green and outcomes <= {"skipped", "xfailed"}:
        return "xfail"
    test = judged.followed(case)
    if test is not None and test.is_weaker:
        return "without an assertion"
    if test is not None and test.after is not None and test.after.mark == "xfail" and test.before.mark != "xfail":
        return "xfail"
    return ""


def _reasons(weakened: Sequence[tuple[CaseResult, str]]) -> str:
    shown = ", ".join(f"{why}: {case.name}" for case, why in weakened[:_LISTED])
    return shown + (f" and {len(weakened) - _LISTED} more" if len(weakened) > _LISTED else "")


def _old_fails(judged: ComparisonIndex, case: CaseResult) -> bool:
    found = judged.old.get(case.name) if judged.old is not None else None
    if found is None and judged.old is not None and case.file is not None:
        found = judged.old.get(case.file)  # the old file does not load on the new product
    return found is not None and found.is_red


def _lost(judged: ComparisonIndex, lost: Sequence[CaseResult]) -> Iterator[ProofFinding]:
    places = _Places(judged)
    reshaped = [case for case in lost if _is_reshaped(judged, case, places) or _is_as_many(judged, case, places)]
    reshaped += moved_examples(judged, (case for case in lost if case not in reshaped))
    apart = {case.name for case in reshaped}
    left = [case for case in lost if case.name not in apart]
    excused = _removed_with_subject(judged, left)
    missing = [case.name for case in left if case.name not in excused]
    if missing:
        yield finding(
            "tests_deleted", missing, f"ran on the base and no longer exist: {listed(missing)}", blocking=True
        )
    if excused:
        shown = ", ".join(f"{name} with {subject}" for name, subject in list(excused.items())[:_LISTED])
        yield finding("removed_on_purpose", list(excused), f"removed with what they tested: {shown}")
    if reshaped:
        names = [case.name for case in reshaped]
        yield finding("tests_reshaped", names, f"renamed: {listed(names)}")


class _Places:
    """How many tests each place executed, at the base and now."""

    def __init__(self, judged: ComparisonIndex) -> None:
        base = judged.base.results.cases if judged.base is not None and judged.base.results is not None else ()
        self.before = _executed(base)
        self.after = _executed(judged.cases.values())
        self.files = {each.old_path: each for each in judged.changes.files}
        self.touched_before = sum(self.before[path] for path in self.files)
        afters = {each.change.path for each in judged.changes.files if each.after.compares}
        self.touched_after = sum(self.after[path] for path in afters)


def _is_reshaped(judged: ComparisonIndex, case: CaseResult, places: _Places) -> bool:
    """The old test passes on the new product, and its file executes no fewer tests that compare; where the file is
    gone, all touched test files together."""
    old = judged.old.get(case.name) if judged.old is not None else None
    if old is None or not (old.is_green or not case.is_green):
        return False
    before = place(case)
    file = places.files.get(before)
    if file is not None and (file.is_gone or not file.after.tests):
        return places.touched_after >= places.touched_before
    if file is not None and not file.after.compares:
        return False
    return places.after[judged.renamed.get(before, before)] >= places.before[before]


def _is_as_many(judged: ComparisonIndex, case: CaseResult, places: _Places) -> bool:
    """Nothing changed where it stood, and as many tests are executed there: their names are made of what the product
    says, of dates or addresses."""
    where = place(case)
    changed = {_old_path(each) for each in judged.proof.changes}
    untouched = where not in changed if where else not judged.changes.files
    return untouched and not judged.changes.harness and places.after[where] >= places.before[where]


def _executed(cases: Collection[CaseResult]) -> Counter[str]:
    return Counter(place(case) for case in cases if case.is_executed and not is_whole_file(case))


def _removed_with_subject(judged: ComparisonIndex, lost: Sequence[CaseResult]) -> dict[str, str]:
    """A file or definition that they name is gone too, and they are declared as removed: name → what is gone. The
    example of a definition goes with it, without a word."""
    texts = {each.old_path: each for each in judged.changes.files}
    product = (each for each in judged.proof.changes if each.path.endswith(".rs") or _old_path(each) not in texts)
    definitions = changed_definitions(product)
    subjects = definitions.removed - definitions.replaced
    found = {}
    for case in lost:
        test = judged.followed(case)
        words = _WORD.findall(path_within(case))
        if test is None and is_doctest(case):
            words = words[-1:]
        elif not is_declared(case.name, judged.proof.removed):
            continue
        subject = next((word for word in words if word in subjects), None)
        if test is not None:
            file = texts[test.old_path]
            starts = [each.line for each in file.before.tests]
            subject = subject_of(test, file.change.before or "", starts, subjects)
        if subject:
            found[case.name] = subject
    return found


def _old_path(change: TextChange) -> str:
    return change.old_path or change.path


def _both_lines(judged: ComparisonIndex, changed: Sequence[CaseResult]) -> str:
    """Of the first changed test: a line that it had and one that it has now, assertions first."""
    for case in changed:
        test = judged.followed(case)
        file = next((each for each in judged.changes.files if test and each.old_path == test.old_path), None)
        if test is None or test.after is None or file is None:
            continue
        before, after = file.change.before or "", file.change.after or ""
        old = _told(changed_lines(before, after, test.before.line, _end(file.before.tests, test.before)))
        new = _told(changed_lines(after, before, test.after.line, _end(file.after.tests, test.after)))
        if old or new:
            return f"{case.name}: was `{old}`, is `{new}`; the old version fails on the new code"
    return f"the base version fails on the new code: {listed([case.name for case in changed])}"


def _end(tests: Sequence[DeclaredTest], test: DeclaredTest) -> int | None:
    return min((each.line - 1 for each in tests if each.line > test.line), default=None)


def _told(lines: Iterator[str]) -> str:
    found = list(lines)
    return next((line for line in found if "assert" in line.lower() or "expect" in line), found[0] if found else "")[
        :100
    ]
