"""Sets what agents claim beside what is known: each step by its own change, and by the next test run on its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gitswarm.engines.base import StepResult
from gitswarm.evidence.claims import read_claims
from gitswarm.evidence.diff_scan import scan
from gitswarm.evidence.test_count import CaseCounts, TextChange, compare_cases
from gitswarm.evidence.test_report import read_report
from gitswarm.evidence.verdict import Check, Facts, judge, merge_verdicts
from gitswarm.ledger.layout import KERNEL, RUNS_FOLDER, RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import CheckOutcome, DiffSummary, Flag, TestReport, Verdict
from gitswarm.records.outcome import Result
from gitswarm.runner.session import Session
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.stored import envelope_of, evidence_of

_REPORT_BYTES = 8_000_000
_BY_TESTS: frozenset[Flag] = frozenset(
    {"claimed_pass_but_failed", "claimed_verified_with_failures", "coverage_dropped", "test_count_decreased"}
)
"""Flags that a later test run can raise about an earlier step; the others were looked for when it was committed."""


@dataclass(frozen=True, slots=True)
class Left:
    """What an execution left: its change, its tree, the artifacts it wrote (path → content), and all there are."""

    diff: DiffSummary
    tree: str
    written: Mapping[str, bytes]
    artifacts: frozenset[str]


def report_of(session: Session, result: StepResult, left: Left) -> TestReport | None:
    """What the project's tests said in a command step: from its output, or from report files that it wrote."""
    if result.check is None or result.check.command is None:
        return None
    objects = session.repository.objects
    files: dict[str, bytes] = {}
    for changed in left.diff.files:
        if changed.change != "deleted" and changed.path.endswith((".xml", ".json")):
            content = objects.file(left.tree, changed.path)
            if content is not None and len(content) < _REPORT_BYTES:
                files[changed.path] = content
    return read_report(result.report_text, files)


def verdict_of(session: Session, plan: StepPlan, result: StepResult, left: Left, now: Check | None) -> Verdict | None:
    """
    :param now: what this step's own test run found; None for a step that ran none.
    """
    before = plan.before
    if plan.choice.engine == KERNEL:
        return None  # what git-swarm tests itself is a merge with the work of others
    if result.check is not None and result.check.reason == "no_tests":
        return _verdict_on_no_tests(session, before, left)
    if plan.station is None:
        return _verdict_on_tested(session, before, left, now) if now is not None else None
    if result.status is Result.FAILED:
        return None
    check, previous = _checks(session, before, left.tree)
    facts = Facts(
        diff=left.diff,
        cases=_cases(session, before.tip_tree, left),
        check=check,
        previous=previous,
        written=_names(session.layout, frozenset(left.written)),
        artifacts=_names(session.layout, left.artifacts | frozenset(left.written)),
    )
    return judge(read_claims(result.handoff or Handoff()), facts)


def _verdict_on_no_tests(session: Session, state: RunState, left: Left) -> Verdict | None:
    """No test ran. Where the run began with some, that is a finding, whoever deleted them; else there is nothing."""
    base = _code(session, session.repository.objects.commit(state.base).tree)
    now = _code(session, left.tree)
    since = replace(left, diff=scan(session.repository.diffs, base, now), tree=now)
    verdict = judge(
        read_claims(Handoff()),
        Facts(diff=since.diff, cases=_cases(session, base, since)),
        only=frozenset({"tests_deleted"}),
    )
    return verdict if verdict.flags else None


def _names(layout: RunLayout, paths: frozenset[str]) -> frozenset[str]:
    """Artifacts as people name them: relative to RUN_BASE."""
    return frozenset(path.removeprefix(f"{layout.base}/") for path in paths)


def _cases(session: Session, before: str, left: Left) -> CaseCounts:
    return compare_cases(_text_changes(session, before, left))


def _text_changes(session: Session, before: str, left: Left) -> Iterator[TextChange]:
    objects = session.repository.objects
    for changed in left.diff.files:
        is_text = changed.insertions is not None
        if is_text:
            old = objects.file(before, changed.old_path or changed.path)
            new = objects.file(left.tree, changed.path)
            yield TextChange(changed.path, _text(old), _text(new), changed.old_path)


def _text(content: bytes | None) -> str | None:
    return content.decode(errors="replace") if content is not None else None


def _checks(session: Session, state: RunState, tree: str) -> tuple[Check | None, Check | None]:
    """The newest test run if it was on exactly this code, and the one before it; else none, and the newest."""
    runs = _test_runs(session, state)
    newest = next(runs, None)
    if newest is None:
        return None, None
    record, check = newest
    if _code(session, record.tree) != _code(session, tree):
        return None, check
    return check, next((older for _record, older in runs), None)


def _test_runs(session: Session, state: RunState) -> Iterator[tuple[StepRecord, Check]]:
    """What command steps found so far, newest first."""
    for record in reversed(state.steps):
        if record.engine == "command":
            evidence = evidence_of(session, record)
            if evidence is not None and evidence.tests.command is not None:
                yield record, Check(evidence.tests, evidence.report)


def _verdict_on_tested(session: Session, state: RunState, left: Left, now: Check) -> Verdict | None:
    """What the run says about those who left this code: the newest step that changed it, and who only read since."""
    previous = next((check for _record, check in _test_runs(session, state)), None)
    verdicts = []
    for record in reversed(state.steps):
        envelope, evidence = envelope_of(session, record), evidence_of(session, record)
        if record.engine == "command" or envelope is None or evidence is None:
            break
        facts = Facts(diff=evidence.diff, check=now, previous=previous)
        verdict = judge(read_claims(envelope), facts, only=_BY_TESTS)
        verdicts.append(verdict.model_copy(update={"about": (f"{record.flow}/{record.step}",)}))
        if evidence.diff.files:
            break
    return merge_verdicts(verdicts) if verdicts and not left.diff.files else None


def _code(session: Session, tree: str) -> str:
    return session.repository.objects.with_subtree(tree, RUNS_FOLDER, None)


def check_of(outcome: CheckOutcome | None, report: TestReport | None) -> Check | None:
    """What a step's own command found; None when it ran none."""
    return Check(outcome, report) if outcome is not None and outcome.command is not None else None
