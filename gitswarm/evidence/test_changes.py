"""What a change does to tests, by its text alone.

A test is followed by its name in the same file, also when git sees a rename, else by its body anywhere in the change,
or in a file beside it that is as it was; else to one that differs only by names which the product has given up for
others, or that holds all of its statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.evidence.declarations import DeclaredTest, TestSource, TextChange, own_name
from gitswarm.evidence.declared_tests import read_tests
from gitswarm.evidence.path_roles import decides_about_tests, role_of
from gitswarm.evidence.python_changes import added_patches, find_unchanged_copies, only_adds_tests
from gitswarm.evidence.source_text import Definitions, changed_definitions
from gitswarm.records.envelope import RemovedTest
from gitswarm.records.evidence import ProofFinding, ProofFlag
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import shorten

_FACT_COLUMNS = 200
_LISTED = 3
_COLLECTED = lazy_re(r"^(?:test_.*|.*_test|tests?)\.py$")


class FileTests(Struct, frozen=True):
    """The tests of one changed file, before and after. `was_test`, `is_test`: it is a test file by then, by its path
    or because a report names it."""

    change: TextChange
    before: TestSource
    after: TestSource
    was_test: bool
    is_test: bool

    @property
    def old_path(self) -> str:
        return self.change.former_path

    @property
    def is_gone(self) -> bool:
        """No test file stands there any more: deleted, or renamed to what is none."""
        path = self.change.path
        can_have = self.is_test or role_of(path) in {"mixed", "harness"} or path.endswith(".rs")
        return bool(self.before.tests) and not (self.change.after is not None and can_have)

    @property
    def is_silenced(self) -> bool:
        """No assertion is left in it."""
        return not self.is_gone and self.before.compares and not (self.after.compares or self.after.asserts)


class FollowedTest(Struct, frozen=True):
    """A test before the change, and what stands for it after; `after` None: nothing. `is_kept`: that does and expects
    the same, by the new names of what the product has renamed."""

    old_path: str
    before: DeclaredTest
    new_path: str
    after: DeclaredTest | None
    is_kept: bool = False

    @property
    def name(self) -> str:
        return f"{self.old_path}::{self.before.name}"

    @property
    def is_changed(self) -> bool:
        """Something else is done or expected, or it is marked otherwise; not when it was only renamed or moved."""
        if self.after is None or self.after.mark != self.before.mark:
            return True
        return self.after.body != self.before.body and not self.is_kept

    @property
    def is_weaker(self) -> bool:
        return self.after is not None and self.before.compares and not self.after.compares


class TestChanges(Struct, frozen=True):
    """
    :ivar files: changed files that declare tests, before or after.
    :ivar followed: every test of before.
    :ivar added: tests that are new by name and by body, with their path.
    :ivar harness: changes of files that decide which tests run and what counts as passed.
    :ivar touched: test files of before of which a test was changed or went, or whose other code was changed.
    """

    __test__ = False

    files: tuple[FileTests, ...]
    followed: tuple[FollowedTest, ...]
    added: tuple[tuple[str, DeclaredTest], ...]
    harness: tuple[TextChange, ...]
    touched: frozenset[str]

    @property
    def old_files(self) -> tuple[str, ...]:
        """Files whose base versions are put on the final product to run the old tests: touched test files, and
        harness that was there. Tests that stand in product files, as in Rust, cannot be separated from it."""
        tests = {each.old_path for each in self.files if each.was_test and each.old_path in self.touched}
        return tuple(sorted(tests | {each.former_path for each in self.harness if each.before is not None}))

    @property
    def new_harness(self) -> tuple[str, ...]:
        """Harness files that the change added: they are taken out for that run."""
        return tuple(each.path for each in self.harness if each.before is None or each.old_path)

    @property
    def touches_tests(self) -> bool:
        """Whether existing tests or the harness are touched, so that the base has to be run too."""
        return bool(self.touched or self.harness)


def read_changes(
    changes: Iterable[TextChange], reported: Collection[str] = (), untouched: Iterable[tuple[str, str]] = ()
) -> TestChanges:
    """
    :param changes: the files of a diff that are text; a rename is one change with both names.
    :param reported: files whose tests were run: a project may call them as it likes.
    :param untouched: paths and texts of the test files beside them.
    """
    every = tuple(changes)
    read = (_file_tests(each, reported) for each in every)
    files = tuple(each for each in read if each.before.tests or each.after.tests)
    followed, taken = _follow(files, changed_definitions(every))
    followed = _with_unchanged_copies(files, followed, untouched)
    added = tuple(
        (each.change.path, test)
        for each in files
        if not each.is_gone
        for test in each.after.tests
        if (each.change.path, test.name) not in taken
    )
    harness = tuple(each for each in every if _is_harness(each))
    touched = {test.old_path for test in followed if test.is_changed}
    touched |= {each.old_path for each in files if each.before.tests and each.was_test and not is_extension(each)}
    return TestChanges(files, followed, added, harness, frozenset(touched))


def _file_tests(change: TextChange, reported: Collection[str]) -> FileTests:
    old, new = change.former_path, change.path
    return FileTests(
        change,
        read_tests(old, change.before, reported=old in reported),
        read_tests(new, change.after, reported=new in reported),
        was_test=old in reported or role_of(old) == "test",
        is_test=new in reported or role_of(new) == "test",
    )


def _is_harness(change: TextChange) -> bool:
    if change.former_path != change.path:
        sides = ((change.former_path, change.before, None), (change.path, None, change.after))
        return any(decides_about_tests(*side) for side in sides)
    return decides_about_tests(change.path, change.before, change.after)


def _follow(
    files: Sequence[FileTests], definitions: Definitions
) -> tuple[tuple[FollowedTest, ...], set[tuple[str, str]]]:
    """Every test of before with its successor, and the tests of after that are one."""
    after = {(each.change.path, test.name): test for each in files if not each.is_gone for test in each.after.tests}
    followed = [
        FollowedTest(each.old_path, test, each.change.path, after.get((each.change.path, test.name)))
        for each in files
        for test in each.before.tests
    ]
    taken = {(each.new_path, each.after.name) for each in followed if each.after is not None}
    moved: defaultdict[str, list[tuple[str, DeclaredTest]]] = defaultdict(list)
    for each in files:
        for test in () if each.is_gone else each.after.tests:
            if (each.change.path, test.name) not in taken:
                moved[test.body].append((each.change.path, test))
    for number, lost in enumerate(followed):
        if lost.after is None and (candidates := moved[lost.before.body]):
            nearest = next((at for at, (path, _) in enumerate(candidates) if path == lost.new_path), 0)
            path, found = candidates.pop(nearest)
            taken.add((path, found.name))
            followed[number] = replace(lost, new_path=path, after=found)
    found_after = _SuccessorIndex(files)
    return tuple(_kept(each, found_after, taken, definitions) for each in followed), taken


class _SuccessorIndex:
    """The tests of after, by what a test has in common with one that stands for it."""

    def __init__(self, files: Sequence[FileTests]) -> None:
        self._tests = [(each, test) for each in files if not each.is_gone for test in each.after.tests]
        self._by_form: defaultdict[str, list[int]] = defaultdict(list)
        self._by_statement: defaultdict[str, list[int]] = defaultdict(list)
        for at, (_file, test) in enumerate(self._tests):
            self._by_form[test.shape.form].append(at)
            for statement in set(test.shape.statements):
                self._by_statement[statement].append(at)

    def candidates(self, test: FollowedTest) -> Iterator[tuple[str, DeclaredTest]]:
        """With their paths, in the order of the files, those of its own file first."""
        shape = test.before.shape
        found = {*(self._by_form.get(shape.form, ()) if shape.form else ())}
        found.update(self._by_statement.get(shape.statements[0], ()) if shape.statements else ())
        for at in sorted(found, key=lambda at: (self._tests[at][0].old_path != test.old_path, at)):
            file, candidate = self._tests[at]
            yield file.change.path, candidate


def _with_unchanged_copies(
    files: Sequence[FileTests], followed: tuple[FollowedTest, ...], untouched: Iterable[tuple[str, str]]
) -> tuple[FollowedTest, ...]:
    changes = {each.old_path: each.change for each in files}
    found = find_unchanged_copies(
        ((changes[each.old_path], each.before) for each in followed if each.after is None), untouched
    )
    moved = [(each, found.get((each.old_path, each.before.name))) for each in followed]
    return tuple(replace(each, new_path=at[0], after=at[1]) if at is not None else each for each, at in moved)


def _kept(
    test: FollowedTest, found_after: _SuccessorIndex, taken: set[tuple[str, str]], definitions: Definitions
) -> FollowedTest:
    """With a successor of another name, where it has none; marked where that only calls things by their new names."""
    if test.after is not None:
        return replace(test, is_kept=_is_renamed(test.before, test.after, definitions))
    for path, found in found_after.candidates(test):
        is_renamed = (path, found.name) not in taken and _is_renamed(test.before, found, definitions)
        if is_renamed or found.shape.holds(test.before.shape):
            taken.add((path, found.name))
            return replace(test, new_path=path, after=found, is_kept=is_renamed)
    return test


def _is_renamed(before: DeclaredTest, after: DeclaredTest, definitions: Definitions) -> bool:
    """Whether they differ only by names that the product has given up for others, each always for the same one."""
    old, new = before.shape, after.shape
    if not old.form or old.form != new.form or len(old.names) != len(new.names):
        return False
    renamed = {pair for pair in zip(old.names, new.names, strict=True) if pair[0] != pair[1]}
    allowed = (name in definitions.removed and other in definitions.added for name, other in renamed)
    return bool(renamed) and len(dict(renamed)) == len(renamed) and all(allowed)


def judge_change(
    changes: Iterable[TextChange],
    removed: Collection[RemovedTest] = (),
    untouched: Iterable[tuple[str, str]] = (),
) -> tuple[ProofFinding, ...]:
    """Findings about a step from its diff alone.

    Blocking: a test file gone whose tests stand nowhere else; a test file left without any assertion; skip or xfail
    added to a test. Warnings: tests that are gone from a file that still compares, that compare nothing any more, or
    are skipped under a condition; whatever the handoff declares as removed.
    """
    found = read_changes(changes, untouched=untouched)
    gone = {each.old_path for each in found.files if each.is_gone}
    silent = {each.old_path for each in found.files if each.is_silenced}
    lost = [test for test in found.followed if test.after is None]
    declared = [test for test in lost if is_declared(test.name, removed)]
    undeclared = [test for test in lost if test not in declared]
    weaker = [test for test in found.followed if test.is_weaker]
    silenced = [test for test in (*weaker, *undeclared) if test.old_path in silent]
    reports: tuple[tuple[ProofFlag, bool, str, list[FollowedTest]], ...] = (
        ("tests_deleted", True, "gone with their file", [each for each in undeclared if each.old_path in gone]),
        ("tests_weakened", True, "left without any assertion", silenced),
        ("tests_weakened", True, "skip or xfail added", [each for each in found.followed if _is_marked(each)]),
        ("tests_deleted", False, "gone", [each for each in undeclared if each.old_path not in gone | silent]),
        ("tests_deleted", False, "declared as removed", declared),
        ("tests_weakened", False, "no longer asserts anything", [each for each in weaker if each not in silenced]),
        ("tests_weakened", False, "skipped under a condition", [each for each in found.followed if _is_held(each)]),
        ("tests_deleted", False, "in a file that no longer is collected", _uncollected(found)),
    )
    return tuple(_report(flag, what, tests, blocking=blocking) for flag, blocking, what, tests in reports if tests)


def is_declared(name: str, removed: Collection[RemovedTest]) -> bool:
    """Whether a handoff names this test, by its whole name, its own, or its file's."""
    path, _, inner = name.partition("::")
    own = own_name(name)
    return any(each.name in {name, inner, own, path} or name.endswith(f"::{each.name}") for each in removed)


def _is_marked(test: FollowedTest) -> bool:
    return test.after is not None and test.after.mark in {"skip", "xfail"} and test.before.mark in {"", "skipif"}


def _is_held(test: FollowedTest) -> bool:
    return test.after is not None and test.after.mark == "skipif" and not test.before.mark


def _uncollected(changes: TestChanges) -> list[FollowedTest]:
    """Pytest's own names of test files; a project may have others, so that the report decides."""
    kept = (test for test in changes.followed if test.after is not None and test.old_path.endswith(".py"))
    return [test for test in kept if has_collected_name(test.old_path) and not has_collected_name(test.new_path)]


def has_collected_name(path: str) -> bool:
    """Whether a Python file is called as pytest or Django look for tests; of other files their patterns decide."""
    return not path.endswith(".py") or bool(_COLLECTED.match(PurePosixPath(path).name))


def _report(flag: ProofFlag, what: str, tests: Sequence[FollowedTest], *, blocking: bool) -> ProofFinding:
    names = tuple(sorted(dict.fromkeys(test.name for test in tests)))
    listed = ", ".join(f"{test.before.name} ({test.old_path}:{test.before.line})" for test in tests[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ProofFinding(
        flag=flag, blocking=blocking, names=names, fact=shorten(f"{what}: {listed}{more}", _FACT_COLUMNS)
    )


def is_extension(file: FileTests) -> bool:
    """Whether only whole tests and imports were added to a test file, and no import takes a name it had; tests that
    change what is imported are none."""
    before, after = file.change.before or "", file.change.after or ""
    if file.is_gone or file.old_path != file.change.path or added_patches(file.change):
        return False
    if not file.before.by_syntax:
        return _is_addition(before, after) and _kept_as_they_are(file)
    return only_adds_tests(before, after)


def _is_addition(before: str, after: str) -> bool:
    """Every line of before stands in after, in its order."""
    rows = iter(after.splitlines())
    return all(line in rows for line in before.splitlines())


def _kept_as_they_are(file: FileTests) -> bool:
    after = {test.name: test for test in file.after.tests}
    return all(
        (found := after.get(test.name)) is not None and (found.body, found.mark) == (test.body, test.mark)
        for test in file.before.tests
    )
