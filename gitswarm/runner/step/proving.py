"""What a test step cannot tell alone: the project's tests on the run's base, and those of the base on new code."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from msgspec.structs import replace

from gitswarm.evidence.comparison import compare, misses_untouched_tests, needs_base
from gitswarm.evidence.criteria import CriteriaFacts, NamedCriterion, criteria_names, judge_criteria
from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.python_changes import added_patches
from gitswarm.evidence.suite_run import Missing, SuiteRun, SuiteRuns, is_own, own_tests, red_cases
from gitswarm.evidence.test_changes import TestChanges, read_changes
from gitswarm.evidence.test_command import select_tests
from gitswarm.ledger.message import parse_message
from gitswarm.records.envelope import RemovedTest
from gitswarm.records.evidence import BaseTests, CaseResults
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.extra_runs import ExtraRuns, suite_run
from gitswarm.runner.step.kept_base import base_key, base_to_keep, kept_base
from gitswarm.runner.step.plan import OpenStep, StepOutcome, StepPlan
from gitswarm.runner.step.read_artifacts import criteria_elsewhere, named_criteria
from gitswarm.runner.step.request import package_scripts
from gitswarm.runner.step.test_steps import is_test_step, is_within, suite_paths
from gitswarm.runner.stored import envelope_of, is_rehearsal, text_changes
from gitswarm.worktree.provisioning import made_since_setup
from gitswarm.worktree.shadow import Shadow

_CODE = frozenset({".py", ".js", ".cjs", ".mjs", ".jsx", ".ts", ".tsx", ".rb", ".php"})
"""Suffixes of what is loaded by lying beside tests; data there does nothing by itself."""

_MOST_AGAIN = 20
MOST_EXTRA_RUNS = 7
"""Beside a test step's own: the base, the base's tests on the new code, what failed alone, and in a whole run; the
commit in a fresh checkout, twice, and in between with the files that git ignores."""


def with_proof(session: Session, step: OpenStep, outcome: StepOutcome) -> StepOutcome:
    """With what the project's tests say of the run's code and of its criteria."""
    if not step.plan.before.is_judged or not is_test_step(session.spec.settings, step.plan.step):
        return outcome
    criteria = named_criteria(session, step.plan.before)
    found = _gathered(session, step, outcome, criteria)
    if found is None:
        return outcome
    proof, kept = found
    outcome = replace(outcome, proof=proof, base_tests=kept)
    if not criteria:
        return outcome
    base = proof.base.results if isinstance(proof.base, SuiteRun) else None
    others = criteria_elsewhere(
        session, step.plan.before, outcome.result.check.command if outcome.result.check else None
    )
    facts = CriteriaFacts(proof.final.results, base, proof.read)
    return replace(outcome, criteria=judge_criteria(criteria, facts, others))


def _gathered(
    session: Session, step: OpenStep, outcome: StepOutcome, criteria: tuple[NamedCriterion, ...]
) -> tuple[SuiteRuns, BaseTests | None] | None:
    """What is known when the tests of a test step are compared with those of the run's base; with what they said
    there, where they were run for this step.

    None: the step ran no tests of the project, or a script played them.
    """
    plan, order, check = step.plan, step.request.command, outcome.result.check
    if outcome.is_failed:
        return None
    if order is None or order.shell is None or check is None or check.command != order.shell:
        return None
    objects, store = session.repository.objects, session.store
    base = store.code(objects.commit(_landed_base(session, plan.before.base)).tree)
    code = store.code(outcome.code_tree)
    changes = tuple(text_changes(objects, base, code, session.repository.diffs.summary(base, code)))
    final = suite_run(session, step.worktree.shadow.path, outcome.result, outcome.reports)
    if base == code:
        return SuiteRuns(final, final), None
    read = read_changes(changes)
    harness = frozenset(each.path for each in _harness(order.shell, changes, read))
    is_less = any(each.after is None for each in read.followed)
    untouched = tuple(session.stored_tests.beside(changes, code)) if is_less else ()
    removed = _removed(session, plan, outcome)
    plain = SuiteRuns(final, changes=changes, untouched=untouched, removed=removed, harness=harness)
    proof = _about(criteria, plain, final)

    def without_tree() -> SuiteRuns:
        return _about(criteria, plain, suite_run(session, step.worktree.shadow.path, outcome.result))

    runs = ExtraRuns(session, step, order.shell, (base, code), outcome.result.duration_ms / 1000)
    may_land = _may_land(session, plan, changes)
    if not needs_base(proof.read, final, may_land=may_land):
        return _compared_with(runs, proof, "not needed", without_tree), None
    proof, kept = _with_base(runs, plan, proof, without_tree)
    if may_land:
        proof = _with_commit(runs, proof, step.worktree.shadow, outcome.result.started_at)
    return replace(proof, extra_runs_ms=runs.took_ms), kept


def _with_base(
    runs: ExtraRuns, plan: StepPlan, proof: SuiteRuns, without_tree: Callable[[], SuiteRuns]
) -> tuple[SuiteRuns, BaseTests | None]:
    """Compared with the tests of the base; with their report, where they were run for it and it may be kept."""
    key = base_key(runs.session, runs.base, runs.line)
    kept = kept_base(runs.session, plan.before, key) if not proof.final.is_red else None
    if kept is not None:
        compared = _compared_with(runs, proof, kept, without_tree)
        if not any(each.blocking for each in compare(compared).findings):
            return compared, None
    before = runs.on(runs.base)
    proof = _compared_with(runs, proof, before, without_tree)
    if misses_untouched_tests(proof) and isinstance(again := runs.on(runs.code), SuiteRun):
        proof = replace(proof, again=again)
    return proof, base_to_keep(key, before) if "base" in runs.took_ms else None


def _with_commit(runs: ExtraRuns, proof: SuiteRuns, shadow: Shadow, began: str) -> SuiteRuns:
    """With what the tests say of the commit alone, where something lies beside it that git ignores and no setup made.
    Where they are worse there, and not beside that, they are run there once more: chance is no cause.

    :param began: when the step's own run did, ISO 8601.
    """
    remade = proof.base.leaves if isinstance(proof.base, SuiteRun) else ()
    leftovers = made_since_setup(shadow, remade, int(datetime.fromisoformat(began).timestamp() * 1e9))
    if not leftovers or compare(proof).passed is not True:
        return proof
    committed = runs.of_commit(())
    proof = replace(proof, leftovers=leftovers, committed=committed)
    if not isinstance(committed, SuiteRun) or not committed.is_worse_than(proof.final):
        return proof
    beside = runs.of_commit(leftovers)
    if not isinstance(beside, SuiteRun) or beside.is_worse_than(proof.final):
        return proof
    again = runs.of_commit(())
    if not isinstance(again, SuiteRun) or not again.is_worse_than(proof.final):
        return replace(proof, committed=again)
    return replace(proof, needs_leftovers=True)


def _about(criteria: tuple[NamedCriterion, ...], proof: SuiteRuns, final: SuiteRun) -> SuiteRuns:
    """The same about this run of the tests."""
    near = frozenset(each.change.path for each in proof.read.files)
    return replace(proof, final=final, criteria=criteria_names(criteria, final.results, near))


def _may_land(session: Session, plan: StepPlan, changes: Sequence[TextChange]) -> bool:
    """Whether anything that the suite is about was changed, and not in a rehearsal."""
    paths = suite_paths(session.spec.settings, plan.step)
    is_about = any(is_within(name, paths) for each in changes for name in (each.path, each.old_path) if name)
    return is_about and not is_rehearsal(session, plan.before)


def _compared_with(
    runs: ExtraRuns, proof: SuiteRuns, before: SuiteRun | Missing, without_tree: Callable[[], SuiteRuns]
) -> SuiteRuns:
    """With what follows from the tests of the base: their old versions on the new code, and what failed once more.

    :param without_tree: the same without reports that lie in the tree, and may be anybody's.
    """
    if isinstance(before, SuiteRun) and before.asked and not proof.final.asked:
        proof = without_tree()
    proof = replace(proof, base=before)
    found = proof.read
    if found.touches_tests and isinstance(before, SuiteRun):
        mixed = _old_tests_on(runs.session, runs.base, runs.code, found)
        report = runs.on(mixed) if mixed != runs.code else "not possible"
        if report == "setup failed" and runs.on(runs.code) != "setup failed":
            report = "not possible"  # the old harness does not fit the new code
        old = (report.results or "not possible") if isinstance(report, SuiteRun) else report
        proof = replace(proof, old_on_new=old)
    return replace(proof, alone=_alone(runs, proof.final, _excusable(proof)), extra_runs_ms=runs.took_ms)


def _harness(line: str, changes: Sequence[TextChange], found: TestChanges) -> tuple[TextChange, ...]:
    """Changed files that decide about tests in this project alone: what its test command names, what lies beside its
    tests and holds none, and tests that change the product."""
    named = {word.removeprefix("./") for word in line.replace(";", " ").replace("&", " ").split()}
    known = {each.path for each in found.harness}
    known |= {each.change.path for each in found.files if not added_patches(each.change)}
    return tuple(
        each
        for each in changes
        if each.path not in known
        and (each.path in named or role_of(each.path, each.after) == "test")
        and (each.before is not None or PurePosixPath(each.path).suffix in _CODE)
    )


def _removed(session: Session, plan: StepPlan, outcome: StepOutcome) -> tuple[RemovedTest, ...]:
    """What the handoffs of the run say that went on purpose."""
    envelopes = [envelope_of(session, record) for record in plan.before.steps]
    found = (each for envelope in (*envelopes, outcome.envelope) if envelope for each in envelope.removed_tests)
    return tuple(dict.fromkeys(found))


def _excusable(proof: SuiteRuns) -> list[str]:
    """Failing tests that are none of the run's own, and that the base does not show failing."""
    before = proof.base.results if isinstance(proof.base, SuiteRun) else None
    own = own_tests(proof.read)
    red_before = {case.name for case in before.cases if case.is_red} if before is not None else set()
    return [case.name for case in red_cases(proof.final) if case.name not in red_before and not is_own(case, own)]


def _alone(runs: ExtraRuns, final: SuiteRun, names: Sequence[str]) -> CaseResults | None:
    """These tests once more: without the others, or with them where the runner takes no names. What passes alone has
    to pass beside the others too: what fails there every time, the next who runs the suite will see.

    None: they are none, or too many.
    """
    if final.results is None or not 0 < len(names) <= _MOST_AGAIN:
        return None
    argv = select_tests(runs.line, names, final.results, package_scripts(runs.step.request.worktree))
    alone = runs.on(runs.code, shlex.join(argv)) if argv is not None else None
    if isinstance(alone, SuiteRun) and alone.results is not None:
        passed = alone.results.named()
        if not any(name in passed and passed[name].is_green for name in names):
            return alone.results
    again = runs.on(runs.code)
    return again.results if isinstance(again, SuiteRun) else None


def _landed_base(session: Session, base: str) -> str:
    """What a run that was started on another run's branch is compared with: nothing that never landed excuses it."""
    objects = session.repository.objects
    commit = objects.commit(base)
    while commit.parents and parse_message(commit.message) is not None:
        commit = objects.commit(commit.parents[0])
    return commit.id


def _old_tests_on(session: Session, base: str, code: str, changes: TestChanges) -> str:
    """The new product with the base's versions of what decides about it."""
    return session.repository.objects.with_entries_of(code, base, (*changes.new_harness, *changes.old_files))
