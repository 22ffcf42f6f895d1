"""What a test step cannot tell alone: the project's tests on the run's base, and those of the base on new code."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import StepResult
from gitswarm.engines.command import CommandEngine
from gitswarm.errors import SetupFailedError, SwarmError
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
from gitswarm.records.event import Event, EventKind
from gitswarm.records.evidence import BaseTests, CaseResults, ExtraRun, extra_run_words
from gitswarm.records.execution import Result
from gitswarm.runner.containing import contained, remove_copies
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import temporary_worktree
from gitswarm.runner.step.kept_base import base_key, base_to_keep, kept_base
from gitswarm.runner.step.plan import OpenStep, StepOutcome, StepPlan
from gitswarm.runner.step.read_artifacts import criteria_elsewhere, named_criteria
from gitswarm.runner.step.request import ask_for_names, command_order, package_scripts
from gitswarm.runner.step.test_steps import is_test_step, is_within, suite_paths
from gitswarm.runner.stored import envelope_of, is_rehearsal, text_changes
from gitswarm.untrusted import files_below, read_file

_CODE = frozenset({".py", ".js", ".cjs", ".mjs", ".jsx", ".ts", ".tsx", ".rb", ".php"})
"""Suffixes of what is loaded by lying beside tests; data there does nothing by itself."""

_FOREIGN = frozenset({".git", "node_modules", ".venv", "venv"})
_REPORT_BYTES = 8_000_000
_MASKED_LINES = 5_000
_MOST_AGAIN = 20
_SHORTEST_S = 60
_TIMES_USUAL = 3
"""A run beside that of the step may take so many times as long: it also shares no caches with it."""

MOST_EXTRA_RUNS = 4
"""Beside a test step's own: the base, the base's tests on the new code, what failed alone, and in a whole run."""


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
    final = suite_run(session, step.place.shadow.path, outcome.result, outcome.reports)
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
        return _about(criteria, plain, suite_run(session, step.place.shadow.path, outcome.result))

    usual_s, most_s = outcome.result.duration_ms / 1000, session.spec.settings.proof.max_time
    make = partial(_tested, session, step)
    place, announce = step.request.worktree, step.journal.append
    runs = _ExtraRuns(session, place, order.shell, base, code, usual_s, make, announce, most_s)
    if not _needs_base(session, plan, proof):
        return _compared_with(runs, proof, "not needed", without_tree), None
    key = base_key(session, base, order.shell)
    kept = kept_base(session, plan.before, key) if not final.is_red else None
    if kept is not None:
        compared = _compared_with(runs, proof, kept, without_tree)
        if not any(each.blocking for each in compare(compared).findings):
            return compared, None
    before = runs.on(base)
    proof = _compared_with(runs, proof, before, without_tree)
    if misses_untouched_tests(proof) and isinstance(again := runs.on(code), SuiteRun):
        proof = replace(proof, again=again)
    return replace(proof, extra_runs_ms=runs.took_ms), base_to_keep(key, before) if "base" in runs.took_ms else None


def _about(criteria: tuple[NamedCriterion, ...], proof: SuiteRuns, final: SuiteRun) -> SuiteRuns:
    """The same about this run of the tests."""
    near = frozenset(each.change.path for each in proof.read.files)
    return replace(proof, final=final, criteria=criteria_names(criteria, final.results, near))


def _needs_base(session: Session, plan: StepPlan, proof: SuiteRuns) -> bool:
    paths = suite_paths(session.spec.settings, plan.step)
    is_about = any(is_within(name, paths) for each in proof.changes for name in (each.path, each.old_path) if name)
    return needs_base(proof.read, proof.final, may_land=is_about and not is_rehearsal(session, plan.before))


def _compared_with(
    runs: _ExtraRuns, proof: SuiteRuns, before: SuiteRun | Missing, without_tree: Callable[[], SuiteRuns]
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


def _alone(runs: _ExtraRuns, final: SuiteRun, names: Sequence[str]) -> CaseResults | None:
    """These tests once more: without the others, or with them where the runner takes no names. What passes alone has
    to pass beside the others too: what fails there every time, the next who runs the suite will see.

    None: they are none, or too many.
    """
    if final.results is None or not 0 < len(names) <= _MOST_AGAIN:
        return None
    argv = select_tests(runs.line, names, final.results, package_scripts(runs.worktree))
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


def suite_run(
    session: Session, root: Path, result: StepResult, in_tree: Mapping[str, bytes] = MappingProxyType({})
) -> SuiteRun:
    """What a test command said.

    :param root: where it ran.
    :param in_tree: reports that it left there; they count where none came as asked.
    """
    text = session.redactor.scrub(result.report_text)
    passed = result.check.passed if result.check is not None else None
    from gitswarm.evidence.test_report import read_run  # noqa: PLC0415 - where tests ran

    run = read_run(text, result.report_files or in_tree, _roots(root), ended_well=passed is True)
    return SuiteRun(
        failed=passed is False,
        report=run.report if run is not None else None,
        results=run.results if run is not None else None,
        masked_output=_hashed(text),
        asked=bool(result.report_files),
    )


def _roots(root: Path) -> tuple[str, ...]:
    """How a tool may call the folder: it may have found its own settings in one above."""
    parts = root.resolve().parts[1:]
    above = ("/".join(parts[at:]) for at in range(1, len(parts)))
    return (str(root), str(root.resolve()), *above)


def _hashed(text: str) -> str:
    from gitswarm.evidence.test_output import masked  # noqa: PLC0415 - where tests ran

    lines = (masked(line) for line in text.splitlines()[-_MASKED_LINES:])
    return hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()[:16] if text.strip() else ""


def _old_tests_on(session: Session, base: str, code: str, changes: TestChanges) -> str:
    """The new product with the base's versions of what decides about it."""
    objects = session.repository.objects
    old: Mapping[str, str | None] = {path: objects.entry(base, path) for path in changes.old_files}
    return objects.with_files(code, {**dict.fromkeys(changes.new_harness), **old})


def _left_in(folder: Path, began: float) -> dict[str, bytes]:
    """Files of a checkout that were written since, and may be reports."""
    found: dict[str, bytes] = {}
    for path, about in files_below(folder):
        may_be_one = path.suffix in (".xml", ".json") and about.st_mtime >= began and about.st_size < _REPORT_BYTES
        if may_be_one and not _FOREIGN.intersection(path.relative_to(folder).parts):
            found[path.relative_to(folder).as_posix()] = read_file(path, _REPORT_BYTES)
    return found


class _ExtraRuns(Struct):
    """Test runs beside that of a test step: of fresh checkouts, set up as the run's worktree is, one after the other.

    `base`, `code`: code trees of the run's base and as it is now. `usual_s`: seconds that the step's own run took;
    `announce`: puts into the journal what comes; `left_s`: that all of these may take from here on; `took_ms`: how
    long those took that were made.
    """

    session: Session
    worktree: Path
    line: str
    base: str
    code: str
    usual_s: float
    make: Callable[[str, str | None, float], SuiteRun | Missing]
    announce: Callable[[Event], None]
    left_s: float
    announced: set[str] = field(default_factory=set)
    took_ms: dict[ExtraRun, int] = field(default_factory=dict)

    def on(self, tree: str, line: str | None = None) -> SuiteRun | Missing:
        """Once per tree and command while this process owns the run.

        :param line: in place of the test command.
        """
        kind: ExtraRun = "again" if line or tree == self.code else "base" if tree == self.base else "old_tests"
        asked = json.dumps([tree, line or self.line, self.session.spec.settings.setup])
        if asked not in self.announced:
            self.announced.add(asked)
            self.announce(Event(EventKind.EXTRA_RUN, {"of": kind}))
        reports = self.session.reports
        if asked not in reports:
            began = time.monotonic()
            reports[asked] = self._run(kind, tree, line)
            took_s = time.monotonic() - began
            self.left_s -= took_s
            self.took_ms[kind] = self.took_ms.get(kind, 0) + int(took_s * 1000)
        return reports[asked]

    def _run(self, kind: ExtraRun, tree: str, line: str | None) -> SuiteRun | Missing:
        """Of the base all the time that is left: the code may have become faster."""
        usual_s = max(_SHORTEST_S, _TIMES_USUAL * self.usual_s)
        limit_s = self.left_s if kind == "base" else min(self.left_s, usual_s)
        if limit_s <= 0:
            return "no time"
        observer = self.session.context.observer
        observer.notice(extra_run_words(kind))
        try:
            found = self.make(tree, line, limit_s)
        except SwarmError as error:
            observer.notice(f"this could not be tested: {error.message}")
            return "setup failed" if isinstance(error, SetupFailedError) and kind != "base" else "not possible"
        return "far longer" if found == "no time" and kind == "base" and limit_s >= usual_s else found


def _tested(session: Session, step: OpenStep, tree: str, line: str | None, limit_s: float) -> SuiteRun | Missing:
    """The step's test command, or `line`, in a checkout of `tree` that is gone afterwards.

    :raises SetupFailedError: the project's setup failed there.
    """
    with temporary_worktree(session, step.place.shadow, step.plan.before.base, tree) as place:
        run_base = place.path / session.layout.base
        env = {**step.request.env, "RUN_BASE": str(run_base)}
        order = command_order(session, step.plan.step, place.path, env)
        if order is None:
            return "not possible"
        order = replace(order, shell=line or order.shell, timeout_s=min(order.timeout_s, limit_s))
        walls = contained(session, place, "landing")
        asked = replace(
            step.request, worktree=place.path, run_base=run_base, env=env, command=order, containment=walls
        )
        began = time.time()
        result = CommandEngine(None, session.context.clock).run(ask_for_names(asked), lambda _event: None)
        remove_copies(session, "landing")
        if result.status is Result.FAILED:
            return "no time" if result.duration_ms >= order.timeout_s * 1000 else "not possible"
        in_tree = {} if result.report_files else _left_in(place.path, began)
        return suite_run(session, place.path, result, in_tree)
