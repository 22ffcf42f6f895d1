"""What is proven of a run and what not: criteria, claims against facts, doubts, open questions."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.cli.opened import Opened
from gitswarm.cli.reports.model import OpenQuestion, Refusal, ReportedClaim, ReportedCriterion, Unproven
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.overview import RunOverview
from gitswarm.ledger.reading import StepFiles
from gitswarm.ledger.stored_json import tool_calls
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import RunStatus, Status
from gitswarm.records.worklists import AC_MATRIX, AcMatrix, JudgedCriterion

NOT_JUDGED = "not judged"


def unproven_of(
    found: RunOverview, steps: list[StepFiles], criteria: tuple[ReportedCriterion, ...]
) -> tuple[Unproven, ...]:
    """What weighs most comes first."""
    return (*_of_the_run(found), *_of_tests(found, steps), *_of_concerns(found, steps), *_of_rest(steps, criteria))


def _of_the_run(found: RunOverview) -> Iterator[Unproven]:
    if found.rehearsal:
        yield Unproven("rehearsal", found.flow, "a stub or a script did this work, not a model: it cannot land")
    if found.state not in (RunStatus.SUCCEEDED, RunStatus.UNPROVEN):
        why = found.question or found.last_error or "it is not complete"
        yield Unproven("state", found.state.value, why)


def _of_tests(found: RunOverview, steps: list[StepFiles]) -> Iterator[Unproven]:
    if found.tests is None:
        yield Unproven("tests", "tests", "no tests have run")
        return
    step = found.tests.step
    if not found.tests.current:
        yield Unproven("tests", step, "the code has changed since the tests ran")
    if found.tests.passed is False:
        yield Unproven("tests", step, f"tests fail: {found.tests.summary}")
    elif found.tests.passed is None:
        yield Unproven("tests", step, f"nothing was judged: {found.tests.summary}")
    newest = [each.evidence for each in steps if f"{each.record.flow}/{each.record.step}" == step and each.evidence]
    if newest and newest[-1].tests.reason == "red_before":
        yield Unproven("tests", step, "tests fail as they did before the run")


def _of_concerns(found: RunOverview, steps: list[StepFiles]) -> Iterator[Unproven]:
    for concern in sorted(found.open_concerns, key=lambda each: not each.blocking):
        yield Unproven("blocking" if concern.blocking else "warning", concern.id, concern.fact)
    facts = {concern.id: concern.fact for each in _evidences(steps) for concern in each.opened}
    for each in _evidences(steps):
        for accepted in each.accepted:
            fact = facts.get(accepted.id, "")
            yield Unproven(
                "accepted", accepted.id, f"{fact}; a person accepted it: {accepted.why}".removeprefix("; ")
            )


def _of_rest(steps: list[StepFiles], criteria: tuple[ReportedCriterion, ...]) -> Iterator[Unproven]:
    for criterion in criteria:
        if criterion.proof != "proven" or not criterion.current:
            late = "" if criterion.current else " (of earlier code)"
            yield Unproven(
                "criterion", criterion.id, f"{criterion.proof}{late}: {criterion.reason}".removesuffix(": ")
            )
    left: dict[str, str] = {}
    for evidence in _evidences(steps):
        for file in evidence.diff.files:
            left.pop(file.path, None)
        left |= {secret.path: f"a secret ({secret.kind})" for secret in evidence.secrets}
    for path, why in left.items():
        yield Unproven("left out", path, why)
    for each in _newest(steps):
        if each.record.status is not Status.VERIFIED and each.record.engine not in (KERNEL, "command"):
            text = f"{each.record.status.value}: {each.why or each.record.summary}"
            yield Unproven("step", each.name, text.removesuffix(": "))


def criteria_of(opened: Opened, steps: list[StepFiles]) -> tuple[ReportedCriterion, ...]:
    """Those of the matrix that the run has now, in its order; without a matrix, those that were judged."""
    judged: dict[str, tuple[JudgedCriterion, StepFiles]] = {}
    for each in steps:
        for criterion in each.evidence.criteria if each.evidence else ():
            judged[criterion.id] = criterion, each
    matrix = _matrix(opened)
    by = matrix.proven_by() if matrix is not None else {}
    texts = {item.id: item.criterion for item in matrix.criteria()} if matrix is not None else {}
    wanted = list(texts) or list(judged)
    return tuple(_criterion(opened, name, texts.get(name, ""), judged.get(by.get(name, name))) for name in wanted)


def _criterion(
    opened: Opened, name: str, text: str, judged: tuple[JudgedCriterion, StepFiles] | None
) -> ReportedCriterion:
    if judged is None:
        return ReportedCriterion(name, text, NOT_JUDGED, "no test run has judged it", (), None, current=True)
    criterion, of = judged
    current = is_code(opened.repository, of.record.tree, opened.state.tip_tree)
    tests = criterion.names or tuple(test.name for test in criterion.tests)
    return ReportedCriterion(name, text, criterion.proof, criterion.reason, tests, of.record.number, current)


def _matrix(opened: Opened) -> AcMatrix | None:
    content = opened.repository.objects.file(opened.state.tip_tree, f"{opened.layout.base}/{AC_MATRIX}")
    try:
        return AcMatrix.from_json(content) if content is not None else None
    except ValueError:
        return None  # an agent wrote it; that it does not match its schema is a concern by itself


def claims_of(steps: list[StepFiles]) -> tuple[ReportedClaim, ...]:
    """What was found different, step by step; a finding that is a concern too is told once."""
    found = []
    for index, each in enumerate(steps):
        seen: set[str] = set()
        for finding in each.evidence.verdict.findings if each.evidence and each.evidence.verdict else ():
            seen.add(finding.flag)
            outcome = _outcome(f"{finding.flag}@{each.record.flow}/{each.record.step}", steps[index:])
            found.append(
                ReportedClaim(each.name, each.record.number, finding.flag, finding.claim, finding.fact, outcome)
            )
        for concern in each.evidence.opened if each.evidence else ():
            if concern.flag not in seen:
                outcome = _outcome(concern.id, steps[index:])
                found.append(ReportedClaim(each.name, each.record.number, concern.flag, "", concern.fact, outcome))
        if each.envelope is not None and each.envelope.claimed_status is not None:
            reason = each.envelope.status_reason or ""
            is_now = f"{each.envelope.status.value}: {reason}".removesuffix(": ")
            status = each.envelope.claimed_status.value
            found.append(ReportedClaim(each.name, each.record.number, "status", status, is_now, "counted"))
    return tuple(found)


def _outcome(concern: str, since: list[StepFiles]) -> str:
    """What became of a concern that the first of these steps may have opened."""
    first = since[0].evidence
    if first is None or concern not in {each.id for each in first.opened}:
        return "counted"
    for each in since[1:]:
        accepted = {one.id for one in each.evidence.accepted} if each.evidence else set()
        if concern in accepted:
            return "accepted"
        if concern in each.record.closed:
            return f"settled in {each.name}"
    return "open"


def refusals_of(steps: list[StepFiles]) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(each.name, each.record.number, call.tool, call.wanted, call.blocked_reason)
        for each in steps
        for call in tool_calls(each.receipt)
        if call.blocked
    )


def open_questions(found: RunOverview, steps: list[StepFiles]) -> tuple[OpenQuestion, ...]:
    """What agents assumed, asked or doubted when they executed their step last."""
    questions = [OpenQuestion("question", found.flow, found.question, "")] if found.question else []
    for each in _newest(steps):
        envelope = each.envelope
        if envelope is None:
            continue
        if envelope.status is Status.BLOCKED:
            asked = [text for text in envelope.blockers if text != found.question]
            questions += [OpenQuestion("question", each.name, text, "") for text in asked]
        for assumed in envelope.assumptions:
            impact = f"if wrong: {assumed.impact_if_wrong}" if assumed.impact_if_wrong else assumed.rationale
            questions.append(OpenQuestion("assumption", each.name, assumed.statement, impact))
        questions += [OpenQuestion("concern", each.name, text, "") for text in envelope.concerns]
    return tuple(dict.fromkeys(questions))


def _newest(steps: list[StepFiles]) -> list[StepFiles]:
    """The last execution of each step, in order."""
    newest = {(each.record.flow, each.record.step): each for each in steps}
    return sorted(newest.values(), key=lambda each: each.record.number)


def _evidences(steps: list[StepFiles]) -> Iterator[Evidence]:
    return (each.evidence for each in steps if each.evidence is not None)
