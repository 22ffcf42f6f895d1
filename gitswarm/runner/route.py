"""Asks the driver what comes next, from what is committed: the same question after a step and after a crash."""

from __future__ import annotations

import json

from pydantic import JsonValue

from gitswarm.errors import SwarmError
from gitswarm.ledger.events import read_lines
from gitswarm.ledger.layout import HUMAN
from gitswarm.ledger.reading import decisions, parsed, standing_decision
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import DecisionPlace
from gitswarm.records.event import Event, EventKind
from gitswarm.records.outcome import Result, RunStatus
from gitswarm.records.routing import Action, Choice, Decision, Supersedes
from gitswarm.routing import driver
from gitswarm.runner.session import Session


def decide_next(session: Session, state: RunState) -> Decision:
    """The decision that stands after the tip; taken now if it was not recorded yet."""
    recorded = standing_decision(session.repository, session.layout, state.tip)
    if recorded:
        return recorded
    record = state.last_step
    if record is None:
        return _at_start(session, state)
    if record.execution.agent == HUMAN:
        return _after_human(session, state, record)
    choice = driver.decide(_situation(session, state, record))
    return session.store.decide(state.tip, choice, _place(session, record, None))


def pending_decision(session: Session, state: RunState) -> Decision:
    """What comes next, whether the run ended or was cut off."""
    return decide_next(session, state) if state.end is None else decide_resumed(session, state)


def repeat_decision(session: Session, state: RunState, decision: Decision) -> Decision:
    """The same choice once more, after a commit that is no step of the flow."""
    choice = decision.choice
    place = DecisionPlace(decision.flow_key, decision.from_step, decision.iteration, session.spec.routing_mode)
    return session.store.decide(state.tip, choice, place)


def decision_by_hand(session: Session, state: RunState) -> Decision:
    """What a person takes on. A run that would end at a failed or blocked step ends no more: that step is next."""
    decision = pending_decision(session, state)
    record = state.last_step
    if decision.to_step is not None or record is None or end_of(state, decision) is RunStatus.SUCCEEDED:
        return decision
    replaced = Supersedes(commit=state.tip, seq=decision.seq)
    choice = driver.retry(record.step, "a person goes on from here")
    return session.store.decide(state.tip, choice, _place(session, record, replaced))


def decide_skip(session: Session, state: RunState, flow: str, step: str, iteration: int) -> Decision:
    """On from a step that a person skips."""
    choice = driver.skip(session.specs.flows[flow], step)
    return session.store.decide(state.tip, choice, DecisionPlace(flow, step, iteration, session.spec.routing_mode))


def enter_at(session: Session, state: RunState, first: str) -> Decision:
    """Begins the flow at a step that a person named."""
    flow = session.spec.flows[0]
    choice = driver.start(session.specs.flows[flow], first)
    return session.store.decide(state.tip, choice, DecisionPlace(flow, None, None, session.spec.routing_mode))


def decide_resumed(session: Session, state: RunState) -> Decision:
    """The decision that takes an ended run on: after a failure or a block the step again, else where it stopped."""
    recorded = standing_decision(session.repository, session.layout, state.tip)
    if recorded:
        return recorded
    earlier = session.repository.objects.commit(state.tip).parents[0]
    taken = decisions(session.repository, session.layout, earlier)
    record = state.last_step
    if not taken:
        return _decide_anew(session, state, record)
    last = taken[-1]
    replaced = Supersedes(commit=earlier, seq=last.seq)
    if record is None:
        return session.store.decide(
            state.tip,
            last.choice,
            DecisionPlace(last.flow_key, None, None, session.spec.routing_mode, replaced),
        )
    if last.to_step is not None:
        choice = last.choice
    else:
        choice = driver.retry(record.step, f"resumed after the run {_ended_as(state)}")
    return session.store.decide(state.tip, choice, _place(session, record, replaced))


def _decide_anew(session: Session, state: RunState, record: StepRecord | None) -> Decision:
    """Somebody removed the routing note: the same question once more, from what is committed."""
    if record is None:
        return _at_start(session, state)
    if record.execution.agent == HUMAN:
        return _after_human(session, state, record)
    choice = driver.decide(_situation(session, state, record))
    if choice.to_step is None:
        choice = driver.retry(record.step, f"resumed after the run {_ended_as(state)}")
    return session.store.decide(state.tip, choice, _place(session, record, None))


def _at_start(session: Session, state: RunState) -> Decision:
    flow = session.spec.flows[0]
    choice = driver.start(session.specs.flows[flow])
    return session.store.decide(state.tip, choice, DecisionPlace(flow, None, None, session.spec.routing_mode))


def _after_human(session: Session, state: RunState, record: StepRecord) -> Decision:
    """Killed between what a person did and the decision after it: the same answer as without the kill."""
    if record.result is Result.SKIPPED:
        return decide_skip(session, state, record.flow, record.step, record.execution.iteration)
    before = standing_decision(session.repository, session.layout, record.parent)
    if before is not None:
        return repeat_decision(session, state, before)
    return session.store.decide(state.tip, _told_before(session, record), _place(session, record, None))


def _told_before(session: Session, record: StepRecord) -> Choice:
    """What was decided before an execution, as its own first event says: the note may belong to another run."""
    content = session.repository.objects.file(record.tree, record.execution.events) or b""
    told = next((event.payload for event in read_lines(content) if event.kind == EventKind.ROUTE_DECISION), None)
    if told is None:
        raise SwarmError(f"{record.parent[:12]} lost its decision", hint=f"git swarm rollback {record.number - 1}")
    names = ("decision", "to_step", "reason", "routing_source", "candidate_id", "loop_state")
    return Choice.model_validate({**{name: told.get(name) for name in names}, "candidates": ()})


def route_event(decision: Decision) -> Event:
    """The audit event of a decision (seed 000)."""
    loop = decision.loop_state
    return Event(
        EventKind.ROUTE_DECISION,
        {
            "from_step": decision.from_step,
            "to_step": decision.to_step,
            "reason": decision.reason,
            "loop_state": None if loop is None else loop.model_dump(mode="json"),
            "routing_source": decision.routing_source,
            "decision": decision.decision,
            "candidate_id": decision.candidate_id,
        },
    )


def end_of(state: RunState, decision: Decision) -> RunStatus:
    """How a decision without a next step ends the run."""
    if decision.decision in (Action.PAUSE, Action.ESCALATE):
        return RunStatus.PAUSED
    record = state.last_step
    return RunStatus.FAILED if record is not None and record.result == "failed" else RunStatus.SUCCEEDED


def _ended_as(state: RunState) -> str:
    return {RunStatus.FAILED: "failed", RunStatus.PAUSED: "was paused"}.get(state.end or RunStatus.STOPPED, "stopped")


def _place(session: Session, record: StepRecord, replaced: Supersedes | None) -> DecisionPlace:
    return DecisionPlace(
        flow=record.flow,
        from_step=record.step,
        iteration=record.execution.iteration,
        mode=session.spec.routing_mode,
        supersedes=replaced,
    )


def _situation(session: Session, state: RunState, record: StepRecord) -> driver.Situation:
    execution = record.execution
    context: dict[str, JsonValue] = {
        "receipt": _stored(session, record, execution.receipt),
        "envelope": _stored(session, record, execution.envelope),
        "evidence": _stored(session, record, execution.evidence),
        "run": {
            "run_id": state.layout.run_id,
            "flow": record.flow,
            "task": session.spec.task,
            "steps_executed": len(state.steps),
            "iteration": execution.iteration,
            "tokens": state.tokens,
            "cost_usd": state.cost_usd,
        },
    }
    return driver.Situation(
        flow=session.specs.flows[record.flow],
        step_id=record.step,
        result=record.result,
        status=record.status,
        context=context,
        history=state.tally.by_flow[record.flow],
    )


def _stored(session: Session, record: StepRecord, path: str) -> JsonValue:
    content = session.repository.objects.file(record.tree, path)
    if content is None:
        raise SwarmError(
            f"{record.commit[:12]} has no {path}",
            hint=f"the commit is damaged: git show --stat {record.commit[:12]}",
        )
    value: JsonValue = parsed(json.loads, content, session.layout, f"{record.commit[:12]}:{path}")
    return value
