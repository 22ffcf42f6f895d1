"""What is told when the flow's own graph is left, or made longer (seed 001)."""

from __future__ import annotations

from pydantic import JsonValue

from gitswarm.records.envelope import Confidence
from gitswarm.records.event import Event, EventKind
from gitswarm.records.routing import Action, Candidate, Choice, Continuation, Proposal, RoutingSource
from gitswarm.routing.navigator import OFF_THE_GRAPH

_BY_RULES = frozenset({RoutingSource.FAST_PATH, RoutingSource.DETERMINISTIC, RoutingSource.ESCALATE})
"""Nobody was asked, or nobody's answer counted."""


def graph_extended(proposal: Proposal) -> Event:
    """A proposal is carried out."""
    nodes: list[JsonValue] = [node.id for node in proposal.nodes]
    payload: dict[str, JsonValue] = {"proposal": proposal.id, "after": proposal.after_step, "nodes": nodes}
    return Event(kind=EventKind.GRAPH_EXTENDED, payload=payload)


def offroad(
    choice: Choice, from_step: str | None, golden: Candidate | Continuation, confidence: Confidence | None = None
) -> tuple[Event, ...]:
    """The flow's own graph is left: said once, with the reason and with what the graph would have done (seed 001).

    :param golden: the way that the graph takes by itself.
    """
    if choice.decision not in OFF_THE_GRAPH:
        return ()
    frame = choice.stack[-1] if choice.stack and choice.decision is not Action.SKIP else None
    payload: dict[str, JsonValue] = {
        "candidate_id": choice.candidate_id,
        "from_step": from_step,
        "instead_of": golden.candidate_id,
        "why_now": choice.why_now.model_dump(mode="json") if choice.why_now else None,
        "golden_path_step": golden.target if isinstance(golden, Candidate) else golden.step,
        "actual_step": choice.to_step,
        "route_type": choice.decision.name,
        "rationale": choice.reason,
        "return_address": frame.back.step if frame else None,
        "confidence": confidence,
        "evaluated_conditions": [trace.expression for trace in choice.explanation.conditions],
        "tie_breaker_used": choice.routing_source not in _BY_RULES,
        "offroad_rule": choice.offroad_rule,
    }
    return (Event(kind=EventKind.ROUTING_OFFROAD, payload=payload),)
