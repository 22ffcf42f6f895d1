"""Judges what agents claim by what is known: each step by its own change, and by the next test run on its code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gitswarm.evidence.comparison import Comparison, compare
from gitswarm.evidence.declarations import CaseCounts
from gitswarm.evidence.verdict import Claims, CommandCheck, Facts, judge, merge_verdicts
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Envelope, Handoff
from gitswarm.records.evidence import CheckOutcome, Concern, Evidence, Flag, TestReport, Verdict
from gitswarm.records.execution import Status, worse
from gitswarm.records.safety import SecretFound
from gitswarm.routing.forks import cap_of
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.findings import find_concerns
from gitswarm.runner.step.plan import StepOutcome, StepPlan
from gitswarm.runner.step.read_artifacts import (
    WORKLIST,
    LeftCriteria,
    artifact_problems,
    count_after,
    count_work_after,
)
from gitswarm.runner.stored import cases_between, envelope_of, evidence_of
from gitswarm.specs.flow import Join, Microloop

_BY_TESTS: frozenset[Flag] = frozenset(
    {"claimed_pass_but_failed", "claimed_verified_with_failures", "coverage_dropped", "test_count_decreased"}
)
"""Flags that a later test run can raise about an earlier step; the others were looked for when it was committed."""


def judge_step(session: Session, plan: StepPlan, claimed: StepOutcome) -> StepOutcome:
    """
    :param claimed: has what is known of the change and its surroundings in its evidence, and the agent's envelope.
    """
    report = _report(claimed)
    check = claimed.result.check
    compared = compare(claimed.proof) if claimed.proof is not None else None
    claimed = replace(claimed, cases=_cases(session, plan.before.tip_tree, claimed))
    left = LeftCriteria(claimed.artifacts, claimed.criteria)
    tests = _compared(check or CheckOutcome(), compared)
    evidence = replace(
        claimed.evidence,
        tests=tests,
        report=report,
        verdict=_verdict(session, plan, claimed, _check_of(check, report), tests),
        ac=count_after(session, plan.before, (plan.flow.id, plan.step.id), left),
        criteria=claimed.criteria,
        extra_runs_ms=claimed.proof.extra_runs_ms if claimed.proof is not None else {},
        artifact_problems=tuple(artifact_problems(session, plan.before, claimed.artifacts)),
        worklist=count_work_after(session, plan.before, claimed.artifacts) if WORKLIST in plan.artifacts else None,
    )
    envelope = claimed.envelope
    if plan.before.is_judged:
        judged = find_concerns(session, plan, replace(claimed, evidence=evidence), compared)
        evidence = replace(
            evidence,
            opened=judged.opened,
            closed=judged.closed,
            accepted=plan.out_of_band.accepted if plan.out_of_band is not None else (),
        )
        envelope = _capped_by_author(plan, _capped(envelope, judged.own))
    else:
        envelope = _capped_by_schema(envelope, evidence.artifact_problems)
    envelope = _blocked(plan, evidence, _capped_by_joins(plan, envelope))
    if plan.before.is_judged and envelope.status is not claimed.envelope.status:
        envelope = replace(envelope, claimed_status=claimed.envelope.status)
    return replace(claimed, evidence=evidence, envelope=envelope)


def _compared(tests: CheckOutcome, compared: Comparison | None) -> CheckOutcome:
    """Tests that fail as they did on the run's base, or only beside others, are none of the run's; where none could
    run, neither now nor there, there are none."""
    if compared is None or tests.passed is not False:
        return tests
    if any(finding.flag == "tests_cannot_run" for finding in compared.findings):
        return replace(tests, passed=None, reason="no_tests")
    return replace(tests, passed=True, reason="red_before") if compared.passed is True else tests


def _at_best(envelope: Envelope, status: Status, reason: str, **more: str) -> Envelope:
    if worse(envelope.status, status) is envelope.status:
        return envelope
    return replace(envelope, status=status, status_reason=reason, **more)


def _capped(envelope: Envelope, own: Sequence[Concern]) -> Envelope:
    """A step with a blocking finding about itself is at best UNVERIFIED, whatever it says."""
    return _at_best(envelope, Status.UNVERIFIED, f"{own[0].id}: {own[0].fact}") if own else envelope


def _capped_by_author(plan: StepPlan, envelope: Envelope) -> Envelope:
    """A critic is content with nothing that is found wrong: UNVERIFIED, while a finding about its author is open. By
    then the author had its repeats, so that it is not looped to for that."""
    author = plan.step.routing.loop_target if isinstance(plan.step.routing, Microloop) else ""
    known = [each for each in plan.before.blocking if author and each.is_of(plan.flow.id, author)]
    found = next((each for each in known if each.opened_by.engine != "command"), None)
    if found is None:
        return envelope
    reason = f"{found.id} is open: {author} could not fix it"
    return _at_best(envelope, Status.UNVERIFIED, reason, can_further_iteration_help="no")


def _capped_by_schema(envelope: Envelope, problems: Sequence[str]) -> Envelope:
    """Whoever reads the artifact next would trip over it; the agent cannot have checked it."""
    if not problems or envelope.status is not Status.VERIFIED:
        return envelope
    return replace(
        envelope,
        status=Status.UNVERIFIED,
        concerns=(*envelope.concerns, *problems),
        status_reason=f"an artifact does not match its schema: {problems[0]}",
    )


def _capped_by_joins(plan: StepPlan, envelope: Envelope) -> Envelope:
    """A join has at best the status of the worst branch that it joins."""
    routing, outcome = plan.step.routing, plan.joins
    cap = cap_of(routing, outcome) if isinstance(routing, Join) and outcome is not None else None
    if cap is None or outcome is None:
        return envelope
    branches = ", ".join(f"{name} {status}" for name, status in outcome.statuses.items())
    return _at_best(envelope, cap, f"limited by what it joins: {branches}")


def _blocked(plan: StepPlan, evidence: Evidence, envelope: Envelope) -> Envelope:
    """A file with a secret is not in the step's change: the next steps would miss it."""
    secrets = evidence.secrets
    if not secrets:
        return envelope
    hints = (
        f'git swarm resume {plan.execution.run_id} -m "read it from the environment"   (the step is executed again)',
        f"git swarm resume {plan.execution.run_id} --allow 'PATH=WHY'   (if it is not a secret)",
    )
    blockers = (*(f"{described(found)}: the file was left out" for found in secrets), *hints)
    return replace(
        envelope,
        status=Status.BLOCKED,
        blockers=(*envelope.blockers, *blockers),
        status_reason=f"{described(secrets[0])} in what it changed",
    )


def _report(outcome: StepOutcome) -> TestReport | None:
    """What the project's tests reported in a command step; reports in the tree count where none came as asked."""
    result = outcome.result
    if result.check is None or result.check.command is None:
        return None
    files = result.report_files or outcome.reports
    from gitswarm.evidence.test_report import read_report  # noqa: PLC0415 - where tests ran

    return read_report(result.report_text, files, ended_well=result.check.passed is True)


def _verdict(
    session: Session, plan: StepPlan, outcome: StepOutcome, now: CommandCheck | None, tests: CheckOutcome
) -> Verdict | None:
    """
    :param now: what this step's own test run found; None for a step that ran none.
    :param tests: the same as it counts.
    """
    before, result = plan.before, outcome.result
    if plan.choice.engine == KERNEL:
        return None  # what git-swarm tests itself is a merge with the work of others
    if tests.reason == "no_tests":
        return _verdict_on_no_tests(session, before, outcome)
    if plan.station is None:
        return _verdict_on_tested(session, before, outcome, now) if now is not None else None
    if outcome.is_failed:
        return None
    check, previous = _checks(session, before, outcome.code_tree)
    facts = Facts(
        diff=outcome.evidence.diff,
        cases=outcome.cases,
        check=check,
        previous=previous,
        written=_names(session.layout, frozenset(outcome.artifacts)),
        artifacts=_names(session.layout, outcome.present | frozenset(outcome.artifacts)),
    )
    return judge(_claims(result.handoff or Handoff()), facts)


def _claims(handoff: Handoff) -> Claims:
    from gitswarm.evidence.summary_claims import read_claims  # noqa: PLC0415 - 20 ms that a start need not wait for

    return read_claims(handoff)


def _verdict_on_no_tests(session: Session, state: RunState, outcome: StepOutcome) -> Verdict | None:
    """No test ran. Where the run began with some, that is a finding, whoever deleted them; else there is nothing."""
    base = session.store.code(session.repository.objects.commit(state.base).tree)
    now = session.store.code(outcome.code_tree)
    diff = session.repository.diffs.summary(base, now)
    since = replace(outcome, evidence=replace(outcome.evidence, diff=diff), code_tree=now)
    verdict = judge(
        _claims(Handoff()),
        Facts(diff=diff, cases=_cases(session, base, since)),
        only=frozenset({"tests_deleted"}),
    )
    return verdict if verdict.flags else None


def _names(layout: RunLayout, paths: frozenset[str]) -> frozenset[str]:
    """Artifacts as people name them: relative to RUN_BASE."""
    return frozenset(path.removeprefix(f"{layout.base}/") for path in paths)


def _cases(session: Session, before: str, outcome: StepOutcome) -> CaseCounts:
    return cases_between(session.repository.objects, before, outcome.code_tree, outcome.evidence.diff)


def _checks(session: Session, state: RunState, tree: str) -> tuple[CommandCheck | None, CommandCheck | None]:
    """The newest test run if it was on exactly this code, and the one before it; else none, and the newest."""
    runs = _test_runs(session, state)
    newest = next(runs, None)
    if newest is None:
        return None, None
    record, check = newest
    if session.store.code(record.tree) != session.store.code(tree):
        return None, check
    return check, next((older for _record, older in runs), None)


def _test_runs(session: Session, state: RunState) -> Iterator[tuple[StepRecord, CommandCheck]]:
    """What command steps found so far, newest first."""
    for record in reversed(state.steps):
        if record.engine == "command":
            evidence = evidence_of(session, record)
            if evidence is not None and evidence.tests.command is not None:
                yield record, CommandCheck(evidence.tests, evidence.report)


def _verdict_on_tested(session: Session, state: RunState, outcome: StepOutcome, now: CommandCheck) -> Verdict | None:
    """What the run says about those who left this code: the newest step that changed it, and who only read since."""
    previous = next((check for _record, check in _test_runs(session, state)), None)
    verdicts = []
    for record in reversed(state.steps):
        envelope, evidence = envelope_of(session, record), evidence_of(session, record)
        if record.engine == "command" or envelope is None or evidence is None:
            break
        facts = Facts(diff=evidence.diff, check=now, previous=previous)
        verdict = judge(_claims(envelope), facts, only=_BY_TESTS)
        verdicts.append(replace(verdict, about=(record.execution.name,)))
        if evidence.diff.files:
            break
    return merge_verdicts(verdicts) if verdicts and not outcome.evidence.diff.files else None


def _check_of(outcome: CheckOutcome | None, report: TestReport | None) -> CommandCheck | None:
    """What a step's own command found; None when it ran none."""
    return CommandCheck(outcome, report) if outcome is not None and outcome.command is not None else None


def described(found: SecretFound) -> str:
    """One finding for a person, without the secret."""
    if found.line == 0:
        return f"{found.path}: a secret in its name ({found.kind})"
    return f"{found.path}:{found.line}: a secret ({found.kind})"
