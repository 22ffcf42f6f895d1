"""What a fresh session has to know of the run: handoffs, its critique, acceptance criteria; no chat history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord, is_about
from gitswarm.records.execution import Result
from gitswarm.records.routing import Action, Decision
from gitswarm.records.text import shorten
from gitswarm.records.worklists import AC_MATRIX
from gitswarm.routing.forks import branch_outcome
from gitswarm.routing.macro import GATE
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.read_artifacts import current_criteria, read_decision, read_matrix
from gitswarm.runner.stored import branch_of, envelope_of, evidence_of, joined, open_concerns
from gitswarm.specs.compile import Briefing, Criterion, Critique, Role, reads_trail
from gitswarm.specs.context import Budget, EarlierStep, cut, pack_history, pack_instructions, pack_trail, priority_of
from gitswarm.specs.flow import Flow, Join, Step
from gitswarm.specs.fragments import critics_of
from gitswarm.specs.station import RunArtifact, parse_artifact

_MOST_REASONS = 20
_REASON_COLUMNS = 400


def brief(session: Session, state: RunState, role: Role, decision: Decision, messages: Sequence[str]) -> Briefing:
    """
    :param messages: what a person said when resuming, and what an interrupted execution left.
    """
    settings = session.spec.settings
    budget = Budget.of(settings.context, session.specs.policy.facts(role.model.model).window)
    critic = _newest_critic(state, role.flow, role.step)
    back = _sent_back_by(state, role, decision, critic)
    shown = {record.number for record in (critic, back) if record is not None}
    newest = sorted((tally.newest for tally in state.tally.steps.values()), key=lambda record: record.number)
    earlier = [_earlier(session, record) for record in newest if record.number not in shown]
    return Briefing(
        history=pack_history(earlier, budget, settings.context),
        task=session.spec.task,
        run_base=session.layout.base,
        base_commit=state.base,
        paths=settings.worktree_paths,
        critique=_critique(session, state, role.flow, critic, budget) if critic else None,
        sent_back=_earlier(session, back) if back else None,
        criteria=_fitting(list(_criteria(session, state, role)), budget.recent),
        messages=tuple(messages),
        findings=tuple(
            f"{concern.id}: {concern.fact}"
            for concern in open_concerns(session, state, blocking=True)
            if is_about(concern.id, role.flow.id, role.step.id)
        ),
        bounced=tuple(_bounced(session, state, role.flow)),
        joined=tuple(_joined(session, state, role)),
        instructions=pack_instructions(session.specs.instructions, budget.recent),
        trail=pack_trail(session.specs.trail, budget.older) if reads_trail(role) else "",
        commands=settings.configured_commands,
        charter_chars=budget.recent,
        names={session.layout.run_id: "{{run.id}}"},
    )


def _bounced(session: Session, state: RunState, flow: Flow) -> Iterator[str]:
    """The verdict of the newest Gate, its blockers, and the criteria that it found open, for the flows behind it."""
    if GATE not in state.tally.flow_sequence or flow.id == GATE:
        return
    decision = read_decision(session, state)
    if decision is None or decision.verdict.merges:
        return
    yield shorten(f"{decision.verdict}: {decision.reason}".removesuffix(": "), _REASON_COLUMNS)
    for blocker in decision.blockers[:_MOST_REASONS]:
        yield shorten(f"{blocker.id}: {blocker.fact} ({', '.join(blocker.evidence)})", _REASON_COLUMNS)
    for criterion in decision.criteria[:_MOST_REASONS]:
        if criterion.proof != "proven":
            yield f"criterion {criterion.id} is {criterion.proof}"


def _joined(session: Session, state: RunState, role: Role) -> Iterator[str]:
    """Each branch of the fork with how it ended, and why its change is not in the code if it is not."""
    records = joined(state, role.flow, role.step)
    if not records or not isinstance(role.step.routing, Join):
        return
    for name in role.step.routing.join_from:
        record = records.get(name)
        envelope = envelope_of(session, record) if record else None
        why = f" ({envelope.status_reason})" if envelope is not None and envelope.status_reason else ""
        summary = f": {record.summary}" if record else ""
        yield f"{role.flow.id}/{name} {branch_outcome(branch_of(record) if record else None)}{summary}{why}"


def _newest_critic(state: RunState, flow: Flow, step: Step) -> StepRecord | None:
    found = (state.tally.steps.get((flow.id, critic.id)) for critic in critics_of(flow, step))
    return max((tally.newest for tally in found if tally), key=lambda record: record.number, default=None)


def _sent_back_by(state: RunState, role: Role, decision: Decision, critic: StepRecord | None) -> StepRecord | None:
    """The execution because of which the step works again, when it is not that of its critic."""
    if decision.from_step is None or decision.decision not in (Action.LOOP, Action.BRANCH, Action.REPEAT):
        return None
    tally = state.tally.steps.get((decision.flow_key, decision.from_step))
    flow = role.flow
    goes_back = flow.has_step(decision.from_step) and flow.index(decision.from_step) >= flow.index(role.step.id)
    if tally is None or not goes_back or (critic is not None and tally.newest.number == critic.number):
        return None
    return tally.newest


def _earlier(session: Session, record: StepRecord) -> EarlierStep:
    envelope = envelope_of(session, record)
    station = session.specs.stations.get(record.execution.agent)
    notes: list[str] = []
    files: tuple[str, ...] = ()
    summary = record.summary
    if envelope is not None:
        notes += [f"concern: {item}" for item in envelope.concerns]
        notes += [f"blocked by: {item}" for item in envelope.blockers]
        notes += [f"assumes: {item.statement}" for item in envelope.assumptions]
        notes += [f"decided: {item.subject}: {item.decision}" for item in envelope.decisions]
        summary, files = envelope.summary or summary, envelope.artifacts
    status = record.status.value if record.result is Result.SUCCEEDED else record.result.value
    return EarlierStep(
        name=record.execution.name,
        agent=record.execution.agent,
        status=status,
        summary=summary,
        priority=priority_of(station.category if station else None),
        notes=(*notes, *_test_notes(session, record)),
        files=files,
    )


def _test_notes(session: Session, record: StepRecord) -> Iterator[str]:
    """What the project's own tests said in a command step."""
    evidence = evidence_of(session, record) if record.engine == "command" else None
    if evidence is None or not evidence.tests.command:
        return
    yield f"`{evidence.tests.command}` ended with exit code {evidence.tests.exit_code}"
    if evidence.report is not None and evidence.report.failing:
        yield f"failing tests: {', '.join(evidence.report.failing)}"


def _critique(session: Session, state: RunState, flow: Flow, record: StepRecord, budget: Budget) -> Critique:
    """The critic's findings in full: they are what the step has to answer."""
    envelope = envelope_of(session, record)
    step = flow.step(record.step)
    station = session.specs.stations.get(step.station or "")
    outputs = step.teaching.output_names or (station.io.outputs if station else ())
    files = {}
    for name in outputs:
        artifact = parse_artifact(name, flow.id)
        content = _artifact(session, state, artifact.path) if isinstance(artifact, RunArtifact) else None
        if content is not None and isinstance(artifact, RunArtifact):
            files[artifact.path] = cut(content.decode(errors="replace"), budget.recent)
    return Critique(
        critic=record.execution.name,
        status=record.status.value,
        summary=envelope.summary if envelope else record.summary,
        concerns=envelope.concerns if envelope else (),
        files=files,
    )


def _criteria(session: Session, state: RunState, role: Role) -> Iterator[Criterion]:
    inputs = (*role.step.teaching.inputs, *role.station.io.inputs)
    if RunArtifact(AC_MATRIX) not in (parse_artifact(name, role.flow.id) for name in inputs):
        return
    matrix, states = read_matrix(session, state), current_criteria(session, state)
    for requirement in matrix.requirements if matrix else ():
        for item in requirement.acceptance_criteria:
            tests = item.test_cases or requirement.test_cases
            yield Criterion(item.id, item.criterion, states[item.id], requirement.id, tests)


def _fitting(criteria: list[Criterion], chars: int) -> tuple[Criterion, ...]:
    """As many criteria as there is room for, open ones first; the rest is pointed to."""
    order = sorted(criteria, key=lambda item: item.state != "open")
    ends = accumulate(len(item.id) + len(item.text) + sum(map(len, item.tests)) + 40 for item in order)
    shown = sum(1 for end in ends if end <= chars)
    if shown == len(criteria):
        return tuple(criteria)
    rest = Criterion("…", f"{len(criteria) - shown} more stand in RUN_BASE/{AC_MATRIX}", "not shown")
    return (*order[:shown], rest)


def _artifact(session: Session, state: RunState, path: str) -> bytes | None:
    return session.repository.objects.file(state.tip_tree, f"{session.layout.base}/{path}")
