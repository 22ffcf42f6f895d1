"""The papers of a step: envelope, receipt, commit message, and the files that the kernel writes."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, Message
from gitswarm.ledger.store import Draft
from gitswarm.records.base import timestamp
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import Event, EventKind
from gitswarm.records.outcome import Result, Status
from gitswarm.records.receipt import Receipt
from gitswarm.records.routing import Proposal
from gitswarm.records.transcript import to_jsonl
from gitswarm.routing.joins import cap_of, worse
from gitswarm.routing.loops import Executed, ExecutedStep, judge_microloop, loop_state, receipt_routing
from gitswarm.runner.step.examine import Worked
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.secrets import told
from gitswarm.specs.flow import Join, Microloop


def write_envelope(plan: StepPlan, worked: Worked) -> Envelope:
    """The agent's handoff, as far as it can be believed."""
    return _blocked(plan, worked, _capped(plan, _envelope(plan, worked)))


def _blocked(plan: StepPlan, worked: Worked, envelope: Envelope) -> Envelope:
    """A file with a secret is not in the step's change: whoever goes on would miss it."""
    secrets = worked.evidence.secrets
    if not secrets:
        return envelope
    run_id = plan.execution.run.run_id
    ways = (
        f'git swarm resume {run_id} -m "read it from the environment"   (the step is executed again)',
        # A run keeps the rules of the commit that it was started from.
        "no secret? list the file under secrets.allow_paths in .swarm/config.yaml, commit that and start a new run",
    )
    blockers = (*(f"{told(found)}: the file was left out" for found in secrets), *ways)
    return envelope.model_copy(
        update={
            "status": Status.BLOCKED,
            "blockers": (*envelope.blockers, *blockers),
            "status_reason": f"{told(secrets[0])} in what it changed",
        }
    )


def _capped(plan: StepPlan, envelope: Envelope) -> Envelope:
    """A join is no better than what comes together in it."""
    routing, outcome = plan.step.routing, plan.joins
    cap = cap_of(routing, outcome) if isinstance(routing, Join) and outcome is not None else None
    if cap is None or outcome is None or worse(envelope.status, cap) is envelope.status:
        return envelope
    branches = ", ".join(f"{name} {status}" for name, status in outcome.statuses.items())
    reason = f"no better than what it joins: {branches}"
    return envelope.model_copy(update={"status": cap, "status_reason": reason})


def _envelope(plan: StepPlan, worked: Worked) -> Envelope:
    result = worked.result
    place = {
        "run_id": plan.execution.run.run_id,
        "flow_key": plan.flow.id,
        "step_id": plan.step.id,
        "agent_key": plan.step.agent,
        "iteration": plan.execution.iteration,
    }
    if result.handoff is not None:
        handoff = result.handoff
        artifacts = handoff.artifacts or tuple(sorted(worked.artifacts))
        said = {name: getattr(handoff, name) for name in type(handoff).model_fields} | {"artifacts": artifacts}
        problems = worked.evidence.artifact_problems
        if problems and handoff.status is Status.VERIFIED:
            # Whoever reads the artifact next would trip over it; the agent cannot have checked it.
            said |= {"status": Status.UNVERIFIED, "concerns": (*handoff.concerns, *problems)}
            return Envelope(**said, **place, status_reason=f"an artifact does not keep its schema: {problems[0]}")
        return Envelope(**said, **place)
    reason = result.error or result.handoff_problem or "the engine returned without a handoff"
    return Envelope(status=Status.UNVERIFIED, summary=reason, status_reason=reason, **place)


def said_events(envelope: Envelope) -> list[Event]:
    """What an agent observed, assumed and decided, for whoever follows the run (seed 001)."""
    events = []
    if envelope.observations:
        events.append(Event(EventKind.FACTS_UPDATED, {"facts": list(envelope.observations)}))
    events += [Event(EventKind.ASSUMPTION_RECORDED, item.model_dump(mode="json")) for item in envelope.assumptions]
    events += [Event(EventKind.DECISION_RECORDED, item.model_dump(mode="json")) for item in envelope.decisions]
    return events


def write_receipt(plan: StepPlan, worked: Worked, envelope: Envelope) -> Receipt:
    result = worked.result
    receipt = Receipt(
        engine=plan.choice.engine,
        mode=plan.choice.mode,
        provider=plan.choice.provider,
        model=result.model or plan.choice.model or "none",
        step_id=plan.step.id,
        flow_key=plan.flow.id,
        run_id=plan.execution.run.run_id,
        agent_key=plan.step.agent,
        started_at=timestamp(worked.started),
        completed_at=timestamp(worked.completed),
        duration_ms=result.duration_ms,
        status="failed" if result.status is Result.FAILED else "succeeded",
        tokens=result.tokens,
        transcript_path=plan.execution.transcript_in_flow(plan.choice.engine),
        error=result.error,
        tools_allowed=(plan.session.tools or None) if plan.session else None,
        iteration=plan.execution.iteration,
        station=plan.step.station,
        transport=plan.choice.mode,
        cost_usd=result.cost_usd,
        tool_calls=result.tool_calls,
        prompt_hash=plan.session.prompt.hash if plan.session else "",
        commit_before=plan.before.tip,
        skipped=result.status is Result.SKIPPED,
        model_rule=plan.session.model.rule if plan.session and plan.choice.mode != "stub" else None,
        context=plan.session.history.use if plan.session else None,
        outcome=result.outcome,
    )
    routing = plan.step.routing
    if not isinstance(routing, Microloop) or result.status is Result.FAILED:
        return receipt
    earlier: tuple[ExecutedStep, ...] = plan.before.tally.entered.get(plan.flow.id, ())
    history = (*earlier, Executed(plan.step.id, result.status))
    state = loop_state(plan.flow, plan.step.id, history)
    if state is None:
        return receipt
    verdict = judge_microloop(routing, state, _fields(envelope), _fields(receipt))
    said = receipt_routing(plan.flow, plan.step.id, plan.execution.iteration, state, verdict)
    return receipt.model_copy(update={"routing": said})


def kernel_files(plan: StepPlan, worked: Worked, envelope: Envelope, receipt: Receipt) -> dict[str, bytes]:
    """What the kernel writes about an execution, its events left out."""
    execution = plan.execution
    proposal = plan.decision.proposal
    return {
        **(proposal_file(plan.execution.run, proposal) if proposal else {}),
        execution.receipt: receipt.to_json(),
        execution.envelope: envelope.to_json(),
        execution.transcript(plan.choice.engine): to_jsonl(worked.result.transcript),
        execution.evidence: worked.evidence.to_json(),
    }


def proposal_file(layout: RunLayout, proposal: Proposal) -> dict[str, bytes]:
    """What a navigator proposed, where Wisdom and people find it."""
    path = f"{layout.base}/{proposal.flow_key}/routing/proposals/{proposal.id}.json"
    return {path: proposal.to_json()}


def draft_commit(
    plan: StepPlan, worked: Worked, envelope: Envelope, blobs: Mapping[str, str | None], seq: int
) -> Draft:
    """Of a failed step only the evidence is kept; beside others also its work, which is not on the branch there."""
    result = worked.result
    dropped = result.status is Result.FAILED and plan.beside is None
    kept = {path: blob for path, blob in blobs.items() if not (dropped and path in worked.artifacts)}
    fork = plan.decision.fork
    beside = fork.commit if fork is not None and plan.step.id in fork.pending else None
    subject = f"{plan.flow.id}/{plan.step.id}: {envelope.summary}"
    stack = plan.decision.stack
    trailers = {
        "Swarm-Kind": Kind.STEP,
        "Swarm-Run": plan.execution.run.run_id,
        "Swarm-Flow": plan.flow.id,
        "Swarm-Step": plan.step.id,
        "Swarm-Iteration": str(plan.execution.iteration),
        "Swarm-Agent": plan.step.agent,
        **({"Swarm-Stack": " ".join(frame.token for frame in stack)} if stack else {}),
        **({"Swarm-Fork": beside} if beside else {}),
        **({"Swarm-By": "command"} if plan.apart is not None else {}),
        "Swarm-Engine": f"{plan.choice.engine}/{plan.choice.mode}",
        "Swarm-Model": result.model or plan.choice.model or "none",
        "Swarm-Status": envelope.status,
        "Swarm-Result": result.status,
        "Swarm-Tokens": str(result.tokens.total),
        "Swarm-Cost-USD": "unknown" if result.cost_usd is None else f"{result.cost_usd:.6f}",
        "Swarm-Seq": str(seq),
        **result.trailers,
    }
    return Draft(
        message=Message(subject, envelope.summary, trailers),
        author=plan.step.agent,
        code_tree=plan.before.tip_tree if dropped else worked.code_tree,
        files=kept,
        make=plan.apart.make if plan.apart is not None else None,
    )


def _fields(record: Envelope | Receipt) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = record.model_dump(mode="json")
    return fields
