"""The fate of the tests of the base: kept, weakened, lost, reshaped, moved, removed with what they tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from gitswarm.evidence.declarations import DeclaredTest, TextChange, go_parts, own_name, path_within
from gitswarm.evidence.source_text import changed_definitions
from gitswarm.evidence.suite_run import (
    MAY_HAVE_TITLES,
    ComparisonIndex,
    declared_name,
    finding,
    is_doctest,
    is_whole_file,
    key_of,
    may_stand_in,
    place,
)
from gitswarm.evidence.test_changes import FollowedTest, is_declared
from gitswarm.records.evidence import CaseResult, ProofFinding
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import listed

_WORD = lazy_re(r"\w+")
_BEGINS = lazy_re(r"^( *)(?:async )?(?:def|class) (\w+)")
_LISTED = 3
_IDENTIFIER = lazy_re(r"[A-Za-z_$][\w$]{2,}")


def judge_base_tests(judged: ComparisonIndex, *, is_red: bool = False) -> Iterator[ProofFinding]:
    """
    :param is_red: the final run failed, by more than what the base excuses.
    """
    lost: list[CaseResult] = []
    weakened: list[tuple[CaseResult, str]] = []
    changed: list[CaseResult] = []
    flaky: list[str] = []
    again = {case.name: case for case in judged.proof.again.cases} if judged.proof.again is not None else {}
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
        reasons = listed([f"{why}: {case.name}" for case, why in weakened])
        yield finding("tests_weakened", [case.name for case, _ in weakened], f"now {reasons}", blocking=True)
    if lost and judged.final.names_all:
        yield from _lost(judged, lost, is_red=is_red)
    if flaky:
        yield finding("flaky", flaky, f"not executed, and passed in the next run: {listed(flaky)}")
    if changed:
        yield finding("expectation_changed", [case.name for case in changed], _was_and_is(judged, changed))


def _base_tests(judged: ComparisonIndex) -> Iterator[CaseResult]:
    """What was executed there, and was not expected to fail."""
    cases = judged.base_cases.values()
    return (each for each in cases if each.is_executed and each.outcome != "xfailed" and not is_whole_file(each))


def _is_only_missing(judged: ComparisonIndex, case: CaseResult, successors: Sequence[CaseResult]) -> bool:
    """Whether a test was not executed, and nobody touched it."""
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
        where = test.new_path if case.file is not None else place(case)
        is_python = case.file is not None and case.file.endswith(".py")
        name = test.after.name if is_python else own_name(test.after.name)
        if found := [each for each in judged.by_key[where, name] if _parameters(each) == _parameters(case)]:
            return found
    whole = judged.cases.get(file or "")
    return [whole] if whole is not None else _other_parameters(judged, case, test)


def _other_parameters(judged: ComparisonIndex, case: CaseResult, test: FollowedTest | None) -> list[CaseResult]:
    """Of a test that is as it was: names made of addresses, dates or random numbers are others in every run."""
    if test is not None and test.is_changed:
        return []
    before, after = judged.base_by_key[key_of(case)], judged.by_key[key_of(case)]
    return after if 0 < sum(each.is_executed for each in before) <= sum(each.is_executed for each in after) else []


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


def _old_fails(judged: ComparisonIndex, case: CaseResult) -> bool:
    found = judged.old.get(case.name) if judged.old is not None else None
    if found is None and judged.old is not None and case.file is not None:
        found = judged.old.get(case.file)  # the old file does not load on the new product
    return found is not None and found.is_red


def _did_not_run(judged: ComparisonIndex, case: CaseResult) -> bool:
    """Of a test without a result: the command failed, and what declares and selects it is as it was. Its file could
    not be loaded, or the command ended before."""
    if not judged.final.failed or judged.changes.harness or judged.by_key[key_of(case)]:
        return False
    test = judged.followed(case)
    if test is not None:
        return test.after is not None and test.old_path not in judged.touched
    name = declared_name(case)
    may_declare = any(key[1] == name and may_stand_in(case, key[0]) for key in judged.by_declared)
    return not may_declare and place(case) not in {each.former_path for each in judged.proof.changes}


def _lost(judged: ComparisonIndex, lost: Sequence[CaseResult], *, is_red: bool) -> Iterator[ProofFinding]:
    counts = _TestCounts(judged)
    ways = (_is_reshaped, _is_as_many, _may_have_title)
    reshaped = [case for case in lost if any(way(judged, case, counts) for way in ways)]
    reshaped += _moved_examples(judged, (case for case in lost if case not in reshaped))
    renamed = {case.name for case in reshaped}
    left = [case for case in lost if case.name not in renamed]
    not_run = [case.name for case in left if is_red and _did_not_run(judged, case)]
    if not_run:
        fact = f"ran on the base and did not run, as the test command failed: {listed(not_run)}"
        yield finding("tests_not_run", not_run, fact, blocking=True)
    left = [case for case in left if case.name not in not_run]
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


class _TestCounts:
    """How many tests were executed of each file, at the base and now."""

    def __init__(self, judged: ComparisonIndex) -> None:
        self.before = _executed(judged.base_cases.values())
        self.after = _executed(judged.cases.values())
        self.files = {each.old_path: each for each in judged.changes.files}
        self.touched_before = sum(self.before[path] for path in self.files)
        afters = {each.change.path for each in judged.changes.files if each.after.compares}
        self.touched_after = sum(self.after[path] for path in afters)


def _is_reshaped(judged: ComparisonIndex, case: CaseResult, counts: _TestCounts) -> bool:
    """The old test passes on the new product, and its file executes no fewer tests that compare; where the file is
    gone, all touched test files together."""
    old = judged.old.get(case.name) if judged.old is not None else None
    if old is None or not (old.is_green or not case.is_green):
        return False
    before = place(case)
    file = counts.files.get(before)
    if file is not None and (file.is_gone or not file.after.tests):
        return counts.touched_after >= counts.touched_before
    if file is not None and not file.after.compares:
        return False
    return counts.after[judged.renamed.get(before, before)] >= counts.before[before]


def _is_as_many(judged: ComparisonIndex, case: CaseResult, counts: _TestCounts) -> bool:
    """Nothing changed where it stood, and as many tests are executed there: their names are made of what the product
    says, of dates or addresses."""
    where = place(case)
    changed = {each.former_path for each in judged.proof.changes}
    untouched = where not in changed if where else not judged.changes.files
    return untouched and not judged.changes.harness and counts.after[where] >= counts.before[where]


def _may_have_title(judged: ComparisonIndex, case: CaseResult, counts: _TestCounts) -> bool:
    """Its declaration is there and compares, and as many tests are executed: the report may call it by a title."""
    test, where = judged.followed(case), place(case)
    if test is None or test.after is None or not test.new_path.endswith(MAY_HAVE_TITLES):
        return False
    return test.after.compares and not test.after.mark and counts.after[where] >= counts.before[where]


def _executed(cases: Collection[CaseResult]) -> Counter[str]:
    return Counter(place(case) for case in cases if case.is_executed and not is_whole_file(case))


def _removed_with_subject(judged: ComparisonIndex, lost: Sequence[CaseResult]) -> dict[str, str]:
    """A file or definition that they name is gone too, and they are declared as removed: name → what is gone. The
    example of a definition goes with it, without a word."""
    texts = {each.old_path: each for each in judged.changes.files}
    product = (each for each in judged.proof.changes if each.path.endswith(".rs") or each.former_path not in texts)
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
            own = _split(file.change.before)[test.before.line - 1 : _end(file.before.tests, test.before)]
            subject = next((word for word in _IDENTIFIER.findall("\n".join(own)) if word in subjects), None)
        if subject:
            found[case.name] = subject
    return found


def _was_and_is(judged: ComparisonIndex, changed: Sequence[CaseResult]) -> str:
    """Of the first changed test: a line that it had and one that it has now, assertions first."""
    for case in changed:
        test = judged.followed(case)
        file = next((each for each in judged.changes.files if test and each.old_path == test.old_path), None)
        if test is None or test.after is None or file is None:
            continue
        before, after = file.change.before or "", file.change.after or ""
        old = _first_line(_lines_gone(before, after, test.before.line, _end(file.before.tests, test.before)))
        new = _first_line(_lines_gone(after, before, test.after.line, _end(file.after.tests, test.after)))
        if old or new:
            return f"{case.name}: was `{old}`, is `{new}`; the old version fails on the new code"
    return f"the base version fails on the new code: {listed([case.name for case in changed])}"


def _lines_gone(before: str, after: str, begin: int, end: int | None) -> Iterator[str]:
    """Lines of the lines `begin` to `end` (from 1) of one text that the other does not have."""
    other = {line.strip() for line in after.splitlines()}
    own = (line.strip() for line in before.splitlines()[begin - 1 : end])
    return (line for line in own if line and line not in other)


def _end(tests: Sequence[DeclaredTest], test: DeclaredTest) -> int | None:
    return min((each.line - 1 for each in tests if each.line > test.line), default=None)


def _first_line(lines: Iterable[str]) -> str:
    """An assertion, if there is one."""
    found = [*lines, ""]
    return next((line for line in found if "assert" in line.lower() or "expect" in line), found[0])[:100]


def _moved_examples(judged: ComparisonIndex, lost: Iterable[CaseResult]) -> list[CaseResult]:
    """Those of `lost` of which every line stands in the changed files, by the new names of what the product has
    renamed; as many as doctests are executed that were not there."""
    candidates = [case for case in lost if is_doctest(case)]
    new = sum(
        is_doctest(case) and case.is_executed and name not in judged.base_cases for name, case in judged.cases.items()
    )
    if not candidates or not new:
        return []
    changes = judged.proof.changes
    definitions = changed_definitions(changes)
    before = _lines((line for each in changes for line in _split(each.before)), definitions.removed)
    after = _lines((line for each in changes for line in _split(each.after)), definitions.added)
    moved = []
    for case in candidates:
        own = _lines(_shown_by(case, changes), definitions.removed)
        if own and own <= after - (before - own):
            moved.append(case)
    return moved[:new]


def _shown_by(case: CaseResult, changes: Sequence[TextChange]) -> Sequence[str]:
    """The lines of its definition; of its file, where that has none of this name."""
    text = next((each.before for each in changes if each.former_path == case.file), None)
    lines = _split(text)
    name = path_within(case).rpartition(".")[2]
    begins = [(at, len(found[1]), found[2]) for at, line in enumerate(lines) if (found := _BEGINS.match(line))]
    for at, depth, defined in begins:
        if defined == name:
            end = next((later for later, indent, _ in begins if later > at and indent <= depth), len(lines))
            return lines[at:end]
    return lines


def _split(text: str | None) -> Sequence[str]:
    return (text or "").splitlines()


def _lines(lines: Iterable[str], names: Collection[str]) -> Counter[str]:
    """Those that are examples, with one word in place of all these names."""
    examples = (line.strip() for line in lines if line.lstrip().startswith((">>> ", "... ")))
    return Counter(_WORD.sub(lambda word: "_" if word[0] in names else word[0], line) for line in examples)
