"""A run's report, made of what its commits and notes say."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import convert

from gitswarm.cli.decisions import is_jump_back, turn_of
from gitswarm.cli.report_model import (
    CostLine,
    OffPath,
    OpenQuestion,
    Proof,
    Refusal,
    ReportedChanges,
    ReportedClaim,
    ReportedCosts,
    ReportedCriterion,
    ReportedFile,
    ReportVerdict,
    RunReport,
    SaidOfWork,
    Unproven,
)
from gitswarm.cli.runs import TEST_VERDICTS, Opened, state_word, tests_word
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.reading import RunEnd, StepFiles, history, run_spec, step_files
from gitswarm.ledger.stored_json import ReceiptFields, spec_fields
from gitswarm.ledger.work import Bill, CountedFile, Sum, bills, changed_files, changing_steps, summed, worked_ms
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import RUNS_FOLDER, Result, RunStatus, Status, shortest
from gitswarm.records.globs import AGENTS, CI, LOCK_FILES, MANIFESTS, gitignore, is_named
from gitswarm.records.routing import Action, Decision
from gitswarm.records.worklists import AC_MATRIX, AcMatrix, JudgedCriterion


def report_of(opened: Opened) -> RunReport:
    repository, state, layout = opened.repository, opened.state, opened.layout
    found = overview(repository, layout, state)
    steps = step_files(repository, state)
    criteria = criteria_of(opened, steps)
    claims = claims_of(steps)
    name = shortest(layout.run_id, [each.run_id for each in all_runs(repository)])
    paid = bills(repository, state)
    return RunReport(
        run_id=layout.run_id,
        name=name,
        task=found.task,
        flows=spec_fields(repository, state).flows,
        base=state.base,
        tip=state.tip,
        branch=found.branch,
        verdict=ReportVerdict(
            state=state_word(found),
            tests=tests_word(found),
            steps=found.steps_executed,
            duration_ms=worked_ms(repository, state),
            tokens=found.tokens,
            cost_usd=found.cost_usd,
            approved_by=found.approved.by if found.approved is not None and found.approved.valid else None,
            landed=f"{found.landed.target} as {found.landed.commit[:12]}" if found.landed is not None else None,
            unproven=unproven_of(found, steps, criteria),
        ),
        work=_work(opened),
        changes=changes_of(opened, found),
        criteria=criteria,
        claims=claims,
        refusals=refusals_of(steps),
        off_path=_off_path(opened, steps),
        questions=open_questions(found, steps),
        costs=_costs(paid),
        proofs=_proofs(name, found, state.tip, steps),
    )


def _work(opened: Opened) -> tuple[SaidOfWork, ...]:
    steps = changing_steps(opened.repository, opened.state)
    return tuple(SaidOfWork(f"{step.flow}/{step.step}", step.summary) for step in steps if step.summary)


def _off_path(opened: Opened, steps: list[StepFiles]) -> tuple[OffPath, ...]:
    by_commit = {each.record.commit: each for each in steps}
    visited: list[tuple[str, str]] = []
    last, number, found = "the start", 0, list[OffPath]()
    entries = history(opened.repository, opened.state)
    for entry in entries:
        record, decision = entry.record, entry.decision
        if isinstance(record, RunEnd):
            if entry is not entries[-1]:
                found.append(OffPath(last, number, f"the run ended: {record.status.value}", "", record.reason))
            continue
        of = by_commit[record.commit]
        last, number = of.name, record.number
        visited += [] if (record.flow, record.step) in visited else [(record.flow, record.step)]
        if record.by_human or record.result is Result.SKIPPED:
            done = "skipped" if record.result is Result.SKIPPED else "done by a person"
            found.append(OffPath(last, number, done, record.execution.agent, record.summary))
        for accepted in of.evidence.accepted if of.evidence else ():
            found.append(OffPath(last, number, f"accepted {accepted.id}", record.execution.agent, accepted.why))
        found += _taken(decision, of, visited)
    return tuple(found)


def _taken(decision: Decision | None, after: StepFiles, visited: list[tuple[str, str]]) -> list[OffPath]:
    """
    :param visited: flows and steps in the order in which the run first came to them.
    """
    if decision is None or (decision.to_step is None and decision.proposal is None):
        return []
    record = after.record
    target = (decision.next_flow, decision.to_step or "")
    is_behind = is_jump_back(visited, target, (record.flow, record.step))
    turn = turn_of(decision, is_behind=is_behind)
    if turn is None or (turn.sign == "→" and turn.who is None and _is_of_the_flow(decision)):
        return []
    way, _colon, reason = turn.text.partition(": ")
    if decision.skip_justification is not None:
        reason = decision.skip_justification.skip_reason
    elif turn.sign == "↺" and not reason:
        reason = after.why or record.summary
    return [OffPath(after.name, record.number, f"{turn.sign} {way}", turn.who or "", reason)]


def _is_of_the_flow(decision: Decision) -> bool:
    """A branch forwards, a fork or a join that the flow itself has."""
    return decision.decision in (Action.BRANCH, Action.FORK) or (decision.join is not None and decision.join.is_met)


def _costs(paid: list[Bill]) -> ReportedCosts:
    steps = [each for each in paid if each.is_step]
    beside = [each for each in paid if not each.is_step]
    return ReportedCosts(
        flows=_lines(summed(steps, lambda each: each.flow)),
        steps=_lines(summed(steps, lambda each: f"{each.flow}/{each.step}")),
        beside=_lines(summed(beside, lambda each: each.step)),
    )


def _lines(sums: list[Sum]) -> tuple[CostLine, ...]:
    return tuple(
        CostLine(each.name, each.count, each.duration_ms, each.used.tokens, each.used.cost_usd) for each in sums
    )


def _proofs(name: str, found: RunOverview, tip: str, steps: list[StepFiles]) -> tuple[Proof, ...]:
    """What git-swarm keeps is checked first; then what the project's own commands say of this code."""
    change = f"git diff {found.base[:12]}...{tip[:12]} -- ':(top,exclude){RUNS_FOLDER}'"
    proofs = [
        Proof("the run was not changed afterwards", "", f"git swarm verify {name}"),
        Proof("this is the change", "", change),
    ]
    newest: dict[str, tuple[StepFiles, bool | None]] = {}
    for each in steps:
        evidence = each.evidence
        if each.record.engine != "command" or evidence is None or evidence.diff.files:
            continue  # what a command wrote is a part of the change
        if evidence.tests.command:
            newest[evidence.tests.command] = each, evidence.tests.passed
    for command, (each, passed) in newest.items():
        at = each.record.commit[:12]
        again = f"git worktree add --detach ../proof-{at} {at} && cd ../proof-{at} && {command}"
        shown = f"git swarm show {each.record.number} --run {name} --evidence"
        proofs.append(Proof(f"{each.name} {TEST_VERDICTS[passed]}", each.record.summary, again))
        proofs.append(Proof(f"what {each.name} was judged by", "", shown))
    return tuple(proofs)


_BIGGEST = 3
_MOST_OF = 0.2
"""A file with that part of all changed lines is a big one."""


def changes_of(opened: Opened, found: RunOverview) -> ReportedChanges:
    """Files with more reasons to look at them come first, then those with more changed lines."""
    files = changed_files(opened.repository, opened.state.base, opened.state.tip)
    configured = run_spec(opened.repository, opened.state).settings.policy.protected_paths
    specs = {
        "continuous integration": gitignore(*CI),
        "instructions of agents": gitignore(*AGENTS),
        "protected path": gitignore("/.swarm/**", *configured),
    }
    concerned = {
        f"open: {concern.id}": {name.partition("::")[0] for name in concern.names} for concern in found.open_concerns
    }
    big = _biggest(files)
    reported = []
    for file in files:
        reasons = [name for name, spec in specs.items() if spec.match_file(file.path)]
        name = file.path.rpartition("/")[2]
        if is_named(name, (*LOCK_FILES, *MANIFESTS)):
            reasons.append("dependencies")
        reasons += [concern for concern, names in concerned.items() if file.path in names]
        if file.path in big:
            reasons.append("most changed lines")
        reported.append(ReportedFile(file.path, file.change, file.insertions, file.deletions, tuple(reasons)))
    reported.sort(key=lambda file: (-len(file.reasons), -_line_count(file), file.path))
    inserted = sum(file.insertions or 0 for file in files)
    return ReportedChanges(inserted, sum(file.deletions or 0 for file in files), tuple(reported))


def _biggest(files: list[CountedFile]) -> set[str]:
    if len(files) <= _BIGGEST:
        return set()
    whole = sum(map(_line_count, files))
    ranked = sorted(files, key=_line_count, reverse=True)[:_BIGGEST]
    return {file.path for file in ranked if _line_count(file) > whole * _MOST_OF}


def _line_count(file: CountedFile | ReportedFile) -> int:
    return (file.insertions or 0) + (file.deletions or 0)


NOT_JUDGED = "not judged"


def unproven_of(
    found: RunOverview, steps: list[StepFiles], criteria: tuple[ReportedCriterion, ...]
) -> tuple[Unproven, ...]:
    """What weighs most comes first."""
    of_work = (*_of_tests(found, steps), *_of_concerns(found, steps), *_of_criteria(criteria))
    return (*_of_the_run(found), *of_work, *_of_steps(found, steps))


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
    newest = [each.evidence for each in steps if each.record.execution.name == step and each.evidence]
    if newest and newest[-1].tests.reason == "red_before":
        yield Unproven("tests", step, "tests fail as they did before the run")


def _of_concerns(found: RunOverview, steps: list[StepFiles]) -> Iterator[Unproven]:
    for concern in sorted(found.open_concerns, key=lambda each: not each.blocking):
        yield Unproven("blocking" if concern.blocking else "warning", concern.id, concern.fact)
    facts = {concern.id: concern.fact for each in _evidences(steps) for concern in each.opened}
    for each in _evidences(steps):
        for accepted in each.accepted:
            fact = f"{facts.get(accepted.id, '')}; a person accepted it: {accepted.why}"
            yield Unproven("accepted", accepted.id, fact.removeprefix("; "))


def _of_criteria(criteria: tuple[ReportedCriterion, ...]) -> Iterator[Unproven]:
    for criterion in criteria:
        if criterion.proof != "proven" or not criterion.current:
            late = "" if criterion.current else " (of earlier code)"
            why = f"{criterion.proof}{late}: {criterion.reason}".removesuffix(": ")
            yield Unproven("criterion", criterion.id, why)


def _of_steps(found: RunOverview, steps: list[StepFiles]) -> Iterator[Unproven]:
    """Files that were left out, and steps that did not end VERIFIED."""
    left: dict[str, str] = {}
    for evidence in _evidences(steps):
        for file in evidence.diff.files:
            left.pop(file.path, None)
        left |= {secret.path: f"a secret ({secret.kind})" for secret in evidence.secrets}
    for path, why in left.items():
        yield Unproven("left out", path, why)
    for each in _newest(steps):
        if each.record.engine in (KERNEL, "command") or _left_remarks(found, each):
            continue
        if each.record.status is not Status.VERIFIED:
            text = f"{each.record.status.value}: {each.why or each.record.summary}"
            yield Unproven("step", each.name, text.removesuffix(": "))


def criteria_of(opened: Opened, steps: list[StepFiles]) -> tuple[ReportedCriterion, ...]:
    """The criteria of the matrix that the run has now, in its order; without a matrix, those that were judged."""
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
        seen, number = set[str](), each.record.number
        for finding in each.evidence.verdict.findings if each.evidence and each.evidence.verdict else ():
            seen.add(finding.flag)
            outcome = _outcome(f"{finding.flag}@{each.record.execution.name}", steps[index:])
            found.append(ReportedClaim(each.name, number, finding.flag, finding.claim, finding.fact, outcome))
        for concern in each.evidence.opened if each.evidence else ():
            if concern.flag not in seen:
                outcome = _outcome(concern.id, steps[index:])
                found.append(ReportedClaim(each.name, number, concern.flag, "", concern.fact, outcome))
        if each.envelope is not None and each.envelope.claimed_status is not None:
            is_now = f"{each.envelope.status.value}: {each.envelope.status_reason or ''}".removesuffix(": ")
            status = each.envelope.claimed_status.value
            found.append(ReportedClaim(each.name, number, "status", status, is_now, "counted"))
    return tuple(found)


def _outcome(concern: str, since: list[StepFiles]) -> str:
    """The outcome of a concern that the first of these steps may have opened."""
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
        Refusal(each.name, each.record.number, call.tool, call.wanted, call.blocked_reason or "")
        for each in steps
        for call in convert(each.receipt or {}, ReceiptFields).tool_calls
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
        if not _left_remarks(found, each):
            questions += [OpenQuestion("concern", each.name, text, "") for text in envelope.concerns]
    return tuple(dict.fromkeys(questions))


def _left_remarks(found: RunOverview, step: StepFiles) -> bool:
    """Whether what a critic remarked is an open concern."""
    return any(
        concern.id.partition("#")[0] == f"critic_open@{step.record.execution.name}" for concern in found.open_concerns
    )


def _newest(steps: list[StepFiles]) -> list[StepFiles]:
    """The last execution of each step, in order."""
    newest = {(each.record.flow, each.record.step): each for each in steps}
    return sorted(newest.values(), key=lambda each: each.record.number)


def _evidences(steps: list[StepFiles]) -> Iterator[Evidence]:
    return (each.evidence for each in steps if each.evidence is not None)
