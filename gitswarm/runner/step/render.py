"""What is written about a step: events, receipt, the other records, commit message."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.ledger.derived import changes_fields, end_fields, records_to_json, step_message
from gitswarm.ledger.message import CommitMessage
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, EventKind, to_jsonl
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import RUNS_FOLDER, Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Receipt, transport_of
from gitswarm.records.routing import LoopState, Proposal
from gitswarm.routing.loops import (
    ExecutedStep,
    LoopVerdict,
    UncommittedExecution,
    judge_microloop,
    loop_state,
    receipt_routing,
)
from gitswarm.runner.step.plan import OpenStep, StepOutcome, StepPlan
from gitswarm.runner.step.unfinished import execution_of
from gitswarm.specs.flow import Microloop


def handoff_events(envelope: Envelope) -> list[Event]:
    """What an agent observed, assumed and decided, for whoever follows the run (seed 001)."""
    events = []
    if envelope.observations:
        events.append(Event(EventKind.FACTS_UPDATED, {"facts": list(envelope.observations)}))
    events += [Event(EventKind.ASSUMPTION_RECORDED, item.to_plain()) for item in envelope.assumptions]
    events += [Event(EventKind.DECISION_RECORDED, item.to_plain()) for item in envelope.decisions]
    return events


def end_event(plan: StepPlan, receipt: Receipt, outcome: StepOutcome) -> Event:
    """The last event: the status as it was judged, and the agent's own claim where that was another."""
    payload, envelope, claim = end_fields(receipt), outcome.envelope, outcome.result.handoff
    if outcome.is_failed:
        return Event(EventKind.STEP_ERROR, {**payload, "error": receipt.error or "failed"})
    payload["handoff_status"] = envelope.status.value
    if claim is not None and claim.status is not envelope.status:
        payload["claimed_status"] = claim.status.value
    if envelope.status_reason is not None and plan.before.is_judged:
        payload["status_reason"] = envelope.status_reason
    return Event(EventKind.STEP_END, payload)


def changes_event(outcome: StepOutcome) -> Event:
    return Event(EventKind.FILE_CHANGES, changes_fields(outcome.evidence))


def step_receipt(step: OpenStep, outcome: StepOutcome) -> Receipt:
    plan, receipt = step.plan, _unrouted(step, outcome)
    state, verdict = _loop_of(plan, outcome, receipt)
    newest = plan.before.tally.steps.get((plan.flow.id, plan.step.id))
    committed = newest.newest.executions - newest.repeats if newest is not None else 0
    return replace(receipt, routing=receipt_routing(plan.flow, plan.step.id, committed, state, verdict))


def loop_verdict(step: OpenStep, outcome: StepOutcome) -> LoopVerdict | None:
    """What the loop of a critic makes of what it said; None of any other step."""
    return _loop_of(step.plan, outcome, _unrouted(step, outcome))[1]


def _loop_of(
    plan: StepPlan, outcome: StepOutcome, receipt: Receipt
) -> tuple[LoopState, LoopVerdict] | tuple[None, None]:
    routing = plan.step.routing
    if not isinstance(routing, Microloop) or outcome.is_failed:
        return None, None
    earlier: tuple[ExecutedStep, ...] = plan.before.tally.entered.get(plan.flow.id, ())
    history = (*earlier, UncommittedExecution(plan.step.id, outcome.result.status, plan.repeat))
    state = loop_state(plan.flow, plan.step.id, history)
    if state is None:
        return None, None
    return state, judge_microloop(routing, state, _fields(outcome.envelope), _fields(receipt))


def _unrouted(step: OpenStep, outcome: StepOutcome) -> Receipt:
    """The receipt, but for what it says about a critic's loop."""
    plan = step.plan
    result = outcome.result
    return Receipt(
        engine=plan.choice.engine,
        mode=plan.choice.mode,
        provider=plan.choice.provider,
        model=result.model or plan.choice.model or "none",
        **plan.execution.keys,
        started_at=result.started_at,
        completed_at=result.completed_at,
        duration_ms=result.duration_ms,
        status="failed" if result.status is Result.FAILED else "succeeded",
        tokens=result.tokens,
        transcript_path=plan.execution.transcript_in_flow(plan.choice.engine),
        error=result.error,
        tools_allowed=(plan.session.tools or None) if plan.session else None,
        station=plan.step.station,
        transport=transport_of(plan.choice.engine, plan.choice.mode),
        cost_usd=result.cost_usd,
        tool_calls=result.tool_calls,
        prompt_hash=plan.session.prompt.hash if plan.session else "",
        commit_before=plan.before.tip,
        skipped=result.status is Result.SKIPPED,
        model_rule=plan.session.model.rule if plan.session and plan.choice.mode != "stub" else None,
        context=plan.session.history.use if plan.session else None,
        outcome=result.outcome,
        placeholders=result.placeholders or None,
        sandbox=step.request.containment.name or None,
        network=tuple(step.request.containment.hosts) if step.request.containment.name else None,
        continues=execution_of(plan.unfinished) if plan.unfinished is not None else None,
    )


def step_records(plan: StepPlan, receipt: Receipt, outcome: StepOutcome) -> dict[str, bytes]:
    """The files that git-swarm writes about an execution, but for its events: path → content."""
    execution, proposal = plan.execution, plan.decision.proposal
    return {
        **(proposal_file(execution.run_id, proposal) if proposal else {}),
        **records_to_json(receipt, outcome.envelope, outcome.evidence, plan.before.format),
        execution.transcript(plan.choice.engine): to_jsonl(outcome.result.transcript),
        **({execution.base_tests: outcome.base_tests.to_json()} if outcome.base_tests is not None else {}),
    }


def proposal_file(run_id: str, proposal: Proposal) -> dict[str, bytes]:
    """What a navigator proposed, where Wisdom and people find it."""
    path = f"{RUNS_FOLDER}/{run_id}/{proposal.flow_key}/routing/proposals/{proposal.id}.json"
    return {path: proposal.to_json()}


def commit_message(plan: StepPlan, receipt: Receipt, outcome: StepOutcome, seq: int) -> CommitMessage:
    """
    :param seq: how many events the step has.
    """
    fork = plan.decision.fork
    start = fork.commit if fork is not None and plan.step.id in fork.pending else None
    stack = plan.decision.stack
    position = {
        **({"Swarm-Stack": " ".join(frame.token for frame in stack)} if stack else {}),
        **({"Swarm-Fork": start} if start else {}),
        **({"Swarm-Repeat": str(plan.repeat)} if plan.repeat else {}),
        **({"Swarm-By": "command"} if plan.out_of_band is not None else {}),
    }
    message = step_message(receipt, outcome.envelope, outcome.evidence, position, seq)
    return CommitMessage(message.subject, message.body, {**message.trailers, **outcome.result.trailers})


def concern_events(evidence: Evidence) -> list[Event]:
    """What is open now that was not, and what is settled."""
    opened = [Event(EventKind.CONCERN_OPENED, each.to_plain()) for each in evidence.opened]
    why = {each.id: each.why for each in evidence.accepted}
    closed = [Event(EventKind.CONCERN_CLOSED, {"id": each, "accepted": why.get(each)}) for each in evidence.closed]
    return [*closed, *opened]


def _fields(record: Envelope | Receipt) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = record.to_plain()
    return fields
