"""Acceptance criteria against the tests that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.evidence.declarations import own_name
from gitswarm.evidence.suite_run import is_whole_file, key_of, place, title_of
from gitswarm.evidence.test_changes import TestChanges
from gitswarm.records.evidence import CaseResult, CaseResults
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.worklists import CriterionProof, JudgedCriterion, NamedTest, TestProof

_WORST_FIRST: Sequence[TestProof] = ("failing", "untested", "unknown", "proven", "claimed")
"""A criterion with several tests is what comes first here; one that proves it is enough."""

_SEGMENTS = lazy_re(r"::| > |[/. ]")


class NamedCriterion(Struct, frozen=True):
    """A criterion, or a requirement where only requirements have names."""

    id: str
    test_cases: tuple[str, ...]


class CriteriaFacts(Struct, frozen=True):
    """
    :ivar final: results on the final tree; None: no test ran, or the tool names none.
    :ivar base: on the base; None: not made.
    :ivar changes: of the tests, from the base to the final tree.
    """

    final: CaseResults | None
    base: CaseResults | None
    changes: TestChanges


def judge_criteria(
    criteria: Iterable[NamedCriterion], facts: CriteriaFacts, others: Iterable[JudgedCriterion] = ()
) -> tuple[JudgedCriterion, ...]:
    """*proven*: every named test passed, and one of them is new and compares, or was red at the base. *claimed*:
    there are no names to check, or all were green before. *untested*: none is named, or one did not run. *failing*.

    :param others: what the project's other suites showed of them.
    """
    elsewhere = [(each.id, test) for each in others for test in each.tests]
    return tuple(_judge(each, facts, [test for name, test in elsewhere if name == each.id]) for each in criteria)


def criteria_names(
    criteria: Iterable[NamedCriterion], final: CaseResults | None, near: Collection[str]
) -> frozenset[str]:
    """Results that criteria stand on: a failure of one of them is never excused."""
    if final is None:
        return frozenset()
    return frozenset(
        case.name for each in criteria for name in each.test_cases for case in resolve(name, final, near)
    )


def resolve(name: str, results: CaseResults, near: Collection[str]) -> tuple[CaseResult, ...]:
    """The results of this name: the very same, else by the last segment without parameters, and of these those in the
    file that is part of the name, else in the files that are `near`, else all.

    :param near: paths of the files that the run changed.
    """
    exact = tuple(case for case in results.cases if case.name == name)
    if exact:
        return exact
    wanted = own_name(name)
    found = [
        case for case in results.cases if not is_whole_file(case) and wanted in {own_name(case.name), title_of(case)}
    ]
    if len({key_of(case) for case in found}) <= 1:
        return tuple(found)
    agreeing = [case for case in found if _agrees(name, case)]
    found = agreeing or found
    nearest = [case for case in found if place(case) in near]
    return tuple(nearest or found)


def _agrees(name: str, case: CaseResult) -> bool:
    """Whether the segments before the last one, a class or a file, stand in the result's name too."""
    *before, _own = _SEGMENTS.split(name.replace(".py", ""))
    return bool(before) and set(filter(None, before)) <= set(_SEGMENTS.split(case.name.replace(".py", "")))


def _judge(criterion: NamedCriterion, facts: CriteriaFacts, elsewhere: Sequence[NamedTest]) -> JudgedCriterion:
    if not criterion.test_cases:
        return JudgedCriterion(id=criterion.id, proof="untested", reason="it names no test")
    own = tuple(test for name in criterion.test_cases if (test := _shown(name, facts)) is not None)
    shown = [test for name in criterion.test_cases for test in _of_all_suites(name, (*own, *elsewhere))]
    worst = min(shown, key=lambda test: _WORST_FIRST.index(test.proof))
    names = tuple(name for test in shown for name in test.names)
    proof = "claimed" if worst.proof == "unknown" else worst.proof
    return JudgedCriterion(id=criterion.id, proof=proof, reason=worst.reason, names=names, tests=own)


def _of_all_suites(name: str, shown: Sequence[NamedTest]) -> Sequence[NamedTest]:
    """What the suites that have a test show of it; a suite that names not all tests counts where no other has it."""
    found = [test for test in shown if test.name == name]
    known = [test for test in found if test.proof != "unknown"]
    return known or found[:1] or [NamedTest(name=name, proof="untested", reason=f"no test is called {name}")]


def _shown(name: str, facts: CriteriaFacts) -> NamedTest | None:
    """What the suite shows of a test; None: it has none of this name."""
    final = facts.final
    if final is None or not (final.complete or final.cases):
        return NamedTest(name=name, proof="unknown", reason="the test tool names no tests")
    cases = resolve(name, final, frozenset(each.change.path for each in facts.changes.files))
    if not cases:
        return None if final.complete else NamedTest(name=name, proof="unknown", reason=f"no test is called {name}")
    proof, reason = _outcome(cases, facts)
    return NamedTest(name=name, proof=proof, reason=reason, names=tuple(case.name for case in cases))


def _outcome(cases: Sequence[CaseResult], facts: CriteriaFacts) -> tuple[CriterionProof, str]:
    failing = next((case.name for case in cases if case.is_red), None)
    if failing is not None:
        return "failing", f"{failing} failed"
    left_out = next((case for case in cases if not case.is_green), None)
    if left_out is not None:
        return "untested", f"{left_out.name} is {left_out.outcome}"
    shown = next((case.name for case in cases if _is_evidence(case, facts)), None)
    if shown is not None:
        return "proven", f"{shown} passed"
    return "claimed", "its tests already passed at the base, or assert nothing"


def _is_evidence(case: CaseResult, facts: CriteriaFacts) -> bool:
    """New, with a comparison; or red at the base. What was renamed or only moved is not new; new parameters are."""
    before = facts.base.named() if facts.base is not None else {}
    if case.name in before:
        return before[case.name].is_red
    added = list(facts.changes.added)
    if facts.base is not None and facts.base.complete:
        kept = (each for each in facts.changes.followed if each.after is not None and each.is_changed)
        added += [(each.new_path, each.after) for each in kept if each.after and each.after.name == each.before.name]
    return any(test.compares and _is_of(case, path, test.name) for path, test in added)


def _is_of(case: CaseResult, path: str, name: str) -> bool:
    same_file = case.file is None or path == case.file or path.endswith(f"/{PurePosixPath(case.file)}")
    return same_file and own_name(name) in {own_name(case.name), title_of(case)}
