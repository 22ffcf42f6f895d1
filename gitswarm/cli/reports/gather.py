"""A run's report, made of what its commits and notes say."""

from __future__ import annotations

from gitswarm.cli.opened import Opened
from gitswarm.cli.reports.judged import claims_of, criteria_of, open_questions, refusals_of, unproven_of
from gitswarm.cli.reports.look_first import changes_of
from gitswarm.cli.reports.model import (
    CostLine,
    OffPath,
    Proof,
    ReportedCosts,
    ReportVerdict,
    RunReport,
    SaidOfWork,
)
from gitswarm.cli.run_words import state_word, tests_word
from gitswarm.cli.turns import turn_of
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.reading import RunEnd, StepFiles, history, step_files
from gitswarm.ledger.stored_json import spec_fields
from gitswarm.ledger.work import Bill, Sum, bills, changing_steps, summed, worked_ms
from gitswarm.records.execution import RUNS_FOLDER, Result, shortest
from gitswarm.records.routing import Action, Decision


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
        changes=changes_of(opened, steps),
        criteria=criteria,
        claims=claims,
        refusals=refusals_of(steps),
        off_path=_off_path(opened, steps),
        questions=open_questions(found, steps),
        costs=_costs(paid),
        proofs=_proofs(name, found, steps),
    )


def _work(opened: Opened) -> tuple[SaidOfWork, ...]:
    steps = changing_steps(opened.repository, opened.state)
    return tuple(SaidOfWork(f"{step.flow}/{step.step}", step.summary) for step in steps if step.summary)


def _off_path(opened: Opened, steps: list[StepFiles]) -> tuple[OffPath, ...]:
    by_commit = {each.record.commit: each for each in steps}
    been: list[tuple[str, str]] = []
    last, number, found = "the start", 0, list[OffPath]()
    passages = history(opened.repository, opened.state)
    for passage in passages:
        what, decision = passage.what, passage.decision
        if isinstance(what, RunEnd):
            if passage is not passages[-1]:
                found.append(OffPath(last, number, f"the run ended: {what.status.value}", "", what.reason))
            continue
        of = by_commit[what.commit]
        last, number = of.name, what.number
        been += [] if (what.flow, what.step) in been else [(what.flow, what.step)]
        if what.by_human or what.result is Result.SKIPPED:
            done = "skipped" if what.result is Result.SKIPPED else "done by a person"
            found.append(OffPath(last, number, done, what.execution.agent, what.summary))
        for accepted in of.evidence.accepted if of.evidence else ():
            found.append(OffPath(last, number, f"accepted {accepted.id}", what.execution.agent, accepted.why))
        found += _taken(decision, of, been)
    return tuple(found)


def _taken(decision: Decision | None, after: StepFiles, been: list[tuple[str, str]]) -> list[OffPath]:
    """
    :param been: flows and steps in the order in which the run first came to them.
    """
    if decision is None or (decision.to_step is None and decision.proposal is None):
        return []
    record = after.record
    target = (decision.next_flow, decision.to_step or "")
    is_behind = target in been and been.index(target) <= been.index((record.flow, record.step))
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


def _proofs(name: str, found: RunOverview, steps: list[StepFiles]) -> tuple[Proof, ...]:
    """What git-swarm keeps is checked first; then what the project's own commands say of this code."""
    fetched = f"git diff {found.base[:12]}...{found.branch} -- ':(top,exclude){RUNS_FOLDER}'"
    proofs = [
        Proof("the run was not changed afterwards", "", f"git swarm verify {name}"),
        Proof("this is the change", "", fetched),
    ]
    newest: dict[str, StepFiles] = {}
    for each in steps:
        if each.record.engine == "command" and each.evidence is not None and each.evidence.tests.command:
            newest[each.evidence.tests.command] = each
    for command, each in newest.items():
        verdict = {True: "passed", False: "failed", None: "judged nothing"}[
            each.evidence.tests.passed if each.evidence else None
        ]
        claim = f"{each.name} {verdict}"
        where = each.record.commit[:12]
        proofs.append(
            Proof(
                claim,
                each.record.summary,
                f"git worktree add --detach ../proof-{where} {where} && cd ../proof-{where} && {command}",
            )
        )
        proofs.append(
            Proof(
                f"what {each.name} was judged by", "", f"git swarm show {each.record.number} --run {name} --evidence"
            )
        )
    return tuple(proofs)
