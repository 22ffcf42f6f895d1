"""From flow to flow: the order a run was started with, a Gate's verdict, and what is never allowed."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.records.execution import Status
from gitswarm.records.gate_decision import GateVerdict
from gitswarm.records.routing import Action, Candidate, Continuation, HumanPolicy
from gitswarm.routing.choices import Situation, candidate_of, end, pause
from gitswarm.specs.flow import Flow

GATE, DEPLOY, RESET = "gate", "deploy", "reset"
ALL = ("signal", "plan", "build", "review", GATE, DEPLOY, "wisdom")
"""What `start all` executes."""
MAX_FLOWS = 20
"""Flows that a run enters at most, bounces included."""
_BOUNCES = {GateVerdict.BOUNCE_BUILD: ("build", 2), GateVerdict.BOUNCE_PLAN: ("plan", 1)}


class SequenceProblem(Struct, frozen=True):
    """Why flows cannot be executed in an order, and one in which they can."""

    what: str
    better: tuple[str, ...]


def sequence_problem(flows: tuple[str, ...]) -> SequenceProblem | None:
    """Why flows cannot be executed in this order; None: they can."""
    twice = next((flow for index, flow in enumerate(flows) if flow in flows[:index]), None)
    if twice is not None:
        return SequenceProblem(f"{twice} is named twice", tuple(dict.fromkeys(flows)))
    before = flows[: flows.index(DEPLOY)] if DEPLOY in flows else flows
    if DEPLOY in flows and GATE not in before:
        what = "deploy needs the gate before it: nothing is deployed that no gate has judged"
        others = [flow for flow in flows if flow not in (GATE, DEPLOY)]
        at = len([flow for flow in before if flow != GATE])
        return SequenceProblem(what, (*others[:at], GATE, DEPLOY, *others[at:]))
    return None


def after_flow(flow: Flow, situation: Situation) -> Candidate:
    """What comes after a flow that nothing interrupted."""
    sequence = situation.rules.sequence
    by_verdict = _after_gate(situation) if flow.id == GATE else None
    if by_verdict is not None:
        return by_verdict
    following = sequence[sequence.index(flow.id) + 1 :][:1] if flow.id in sequence else ()
    if not following:
        return end("the flow is complete", priority=80)
    verdict = situation.progress.verdict if flow.id == GATE else None
    if verdict is None:
        return _enter(situation, following[0], f"{flow.id} is complete")
    is_approved = situation.status is Status.VERIFIED
    reason = f"the gate says {verdict}" if is_approved else f"the verdict is {verdict}, but the gate does not approve"
    return _enter(situation, following[0], reason)


def _after_gate(situation: Situation) -> Candidate | None:
    verdict = situation.progress.verdict
    if verdict is GateVerdict.BLOCK:
        blocked = end("the gate says BLOCK", priority=100, failed=True)
        return replace(blocked, source="macro")
    if verdict is GateVerdict.ESCALATE:
        return pause("the gate says ESCALATE: waiting for your decision", (), "gate/merge_decision.json")
    if verdict is None or verdict not in _BOUNCES:
        return None
    target, most = _BOUNCES[verdict]
    flow_sequence = situation.progress.flow_sequence
    bounces = sum(1 for pair in pairwise(flow_sequence) if pair == (GATE, target))
    if target not in situation.rules.flows:
        return pause(f"the gate says {verdict}, but this run has no flow {target}", (), "gate/merge_decision.json")
    if bounces >= most:
        return pause(f"the gate says {verdict} again, after {bounces} of {most}", (), "gate/merge_decision.json")
    return _enter(situation, target, f"the gate says {verdict}: {bounces + 1} of {most}")


def _enter(situation: Situation, target: str, reason: str) -> Candidate:
    flow = situation.rules.flows[target]
    resume_at = Continuation(
        decision=Action.ADVANCE,
        flow=target,
        step=flow.steps[0].id,
        candidate_id=f"advance:{target}/{flow.steps[0].id}",
        reason=reason,
    )
    if len(situation.progress.flow_sequence) >= MAX_FLOWS:
        return pause(f"the run has entered {MAX_FLOWS} flows", (), resume_at=resume_at)
    if target == DEPLOY:
        verdict = situation.progress.verdict
        if verdict is None or not verdict.merges:
            shown = verdict or "nothing that can be read"
            return pause(f"not deployed: the gate says {shown}", (), "gate/merge_decision.json")
        if situation.rules.human is HumanPolicy.SUPERVISED:
            return pause(f"the gate says {verdict}: deploy needs your approval", (), resume_at=resume_at)
    return replace(candidate_of(resume_at, (), reason), priority=80, source="macro")
