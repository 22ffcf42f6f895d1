"""The navigator: what it is asked, and whether its answer may count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.records.envelope import Confidence
from gitswarm.records.event import Event, EventKind
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.routing import (
    Action,
    Candidate,
    Choice,
    Continuation,
    HumanPolicy,
    NavigatorUse,
    Node,
    Proposal,
    RouteAnswer,
    RouteQuestion,
    RoutingMode,
    RoutingSignal,
    RoutingSource,
)
from gitswarm.routing.choices import MAX_INJECTIONS, Situation, Transitions, continuation_of, pause
from gitswarm.routing.stack import inject_nodes, is_full
from gitswarm.specs.fragments import charter_text, invoked_rule, offroad_problem
from gitswarm.specs.graph import edges

_CONTEXT_CHARS = 8_000
_HOW_TO_ANSWER = (
    "Choose exactly one by its id. Detours and injections need `why_now`, a skip needs `skip_justification`; "
    "without them your answer is rejected. Where the charter has reasons to leave the way of the flow, each of these "
    "needs `offroad_rule` too: one of those reasons, word for word."
)
_NEEDS_WHY_NOW = frozenset({Action.DETOUR, Action.INJECT_FLOW, Action.INJECT_NODES})
OFF_THE_GRAPH = _NEEDS_WHY_NOW | {Action.SKIP}
"""What leaves the flow's own graph."""

_BY_RULES = frozenset({RoutingSource.FAST_PATH, RoutingSource.DETERMINISTIC, RoutingSource.ESCALATE})
"""Nobody was asked, or nobody's answer counted."""

_NOTHING = RouteAnswer()


class NavigatorAnswer(Struct, frozen=True):
    """Whether a signal counts. `option` None: it does not, and `problem` says why. `rule`: what the charter allows it
    by."""

    option: Candidate | None
    signal: RoutingSignal | None = None
    problem: str | None = None
    proposal: Proposal | None = None
    rule: str | None = None
    answer: RouteAnswer = _NOTHING

    @property
    def confidence(self) -> Confidence | None:
        """The confidence that whoever signalled claims."""
        return self.signal.confidence if self.signal else None


def ask(situation: Situation, transitions: Transitions) -> NavigatorAnswer | None:
    """Asks the navigator; None when it has nothing to say.

    Whatever comes back that cannot be used is a verdict with a problem, never an error: the run continues without it.
    """
    if situation.ask is None:
        return None
    question = RouteQuestion(prompt(situation, transitions), answer_schema(), situation.rules.navigator_timeout_s)
    try:
        answer = situation.ask(question)
    except TimeoutError:
        unknown = RouteAnswer(cost_usd=None)
        return NavigatorAnswer(
            None, problem=f"no answer within {situation.rules.navigator_timeout_s:g} s", answer=unknown
        )
    if answer.problem is not None:
        return NavigatorAnswer(None, problem=answer.problem, answer=answer)
    verdict = _understood(answer.value, situation, transitions)
    return None if verdict is None else replace(verdict, answer=answer)


def _understood(answer: JsonValue, situation: Situation, transitions: Transitions) -> NavigatorAnswer | None:
    if answer is None:
        return None
    if isinstance(answer, str):
        text = answer
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):  # the latter: a thousand brackets
            return NavigatorAnswer(None, problem=f"the answer is not JSON: {text[:60]!r}")
    try:
        signal = RoutingSignal.from_plain(answer)
    except MistakesError as error:
        return NavigatorAnswer(None, problem=f"the answer does not match its schema: {error.mistakes[0].text}")
    return judge(signal, situation, transitions)


def judge(signal: RoutingSignal, situation: Situation, transitions: Transitions) -> NavigatorAnswer:
    """Whether what a navigator or an agent wants is one of the candidates, with the reasons that it needs, and within
    the charter."""
    verdict = _judge(signal, situation, transitions)
    if verdict.proposal is None and (verdict.option is None or verdict.option.action not in OFF_THE_GRAPH):
        return verdict
    problem = offroad_problem(situation.flow, signal.offroad_rule)
    if problem is not None:
        return NavigatorAnswer(None, signal, problem)
    return replace(verdict, rule=invoked_rule(situation.flow, signal.offroad_rule))


def _judge(signal: RoutingSignal, situation: Situation, transitions: Transitions) -> NavigatorAnswer:
    nodes = signal.extend_graph or signal.inject_nodes
    if nodes:
        return _judge_nodes(signal, nodes, situation, transitions)
    if signal.chosen_candidate_id is None:
        return NavigatorAnswer(None, signal, "no candidate was chosen")
    option = next(
        (option for option in transitions.options if option.candidate_id == signal.chosen_candidate_id), None
    )
    if option is None:
        return NavigatorAnswer(None, signal, f"'{signal.chosen_candidate_id}' is none of the candidates")
    if option.action in _NEEDS_WHY_NOW and signal.why_now is None:
        return NavigatorAnswer(None, signal, f"{option.candidate_id} needs why_now (trigger, relevance_to_charter)")
    if option.action is Action.SKIP and signal.skip_justification is None:
        return NavigatorAnswer(None, signal, f"{option.candidate_id} needs skip_justification")
    return NavigatorAnswer(option, signal)


def _judge_nodes(
    signal: RoutingSignal, nodes: tuple[Node, ...], situation: Situation, transitions: Transitions
) -> NavigatorAnswer:
    """New nodes are executed at once where the navigator has authority, else only when a person approves."""
    if signal.why_now is None:
        return NavigatorAnswer(None, signal, "new nodes need why_now (trigger, relevance_to_charter)")
    problem = _nodes_problem(nodes, situation, transitions)
    if problem is not None:
        return NavigatorAnswer(None, signal, problem)
    proposal = Proposal(
        id=f"{situation.step_id}-{situation.progress.iteration}",
        flow_key=situation.flow.id,
        after_step=situation.step_id,
        nodes=nodes,
        why_now=signal.why_now,
        reasoning=signal.reasoning,
    )
    if situation.rules.mode is RoutingMode.AUTHORITATIVE:
        option = inject_nodes(situation, nodes, transitions.default, signal.why_now)
        return NavigatorAnswer(option, signal, proposal=proposal if signal.extend_graph else None)
    if situation.rules.human is HumanPolicy.AUTOPILOT:
        return NavigatorAnswer(None, signal, "proposed, not executed: nobody is there to approve", proposal)
    names = ", ".join(node.id for node in nodes)
    waiting = pause(
        f"the navigator proposes {names}: `resume --approve` executes it, `resume` continues without it",
        transitions.default.stack,
        f"routing/proposals/{proposal.id}.json",
        resume_at=continuation_of(transitions.default, situation),
    )
    return NavigatorAnswer(waiting, signal, proposal=proposal)


def _nodes_problem(nodes: tuple[Node, ...], situation: Situation, transitions: Transitions) -> str | None:
    unknown = next((node.station for node in nodes if node.station not in situation.rules.stations), None)
    if unknown is not None:
        return f"this run has no station '{unknown}'"
    if len({node.id for node in nodes}) < len(nodes):
        return "two new nodes have the same id"
    if situation.progress.injections >= MAX_INJECTIONS:
        return f"this run has injected {MAX_INJECTIONS} times: no more"
    stack = transitions.default.stack
    return f"{len(stack)} interruptions are open: no more" if is_full(stack) else None


def asked(verdict: NavigatorAnswer) -> NavigatorUse:
    """What the record of the decision says about the question."""
    signal = verdict.signal
    return NavigatorUse(
        chosen=signal.chosen_candidate_id if signal else None,
        reasoning=signal.reasoning if signal else "",
        problem=verdict.problem,
        tokens=verdict.answer.tokens.total,
        cost_usd=verdict.answer.cost_usd,
    )


@cache
def answer_schema() -> Mapping[str, JsonValue]:
    from gitswarm.records.json_schema import json_schema  # noqa: PLC0415 - few runs ask a navigator

    return json_schema(RoutingSignal)


def prompt(situation: Situation, transitions: Transitions) -> str:
    """What the navigator reads: the graph, the candidates, what is proven, and after it what is said."""
    flow = situation.flow
    charter = flow.charter
    graph = "\n".join(
        f"- {edge.source} -> {edge.target}{f' ({edge.label})' if edge.label else ''}" for edge in edges(flow)
    )
    usual = transitions.default.candidate_id
    listed = "\n".join(
        f"- `{option.candidate_id}` (priority {option.priority}{_cost(option, situation)}"
        f"{', the graph takes it by itself' if option.candidate_id == usual else ''}): {option.reason}"
        for option in transitions.options
    )
    called = f"Stations that may be called on (`inject_nodes`): {', '.join(flow.cross_cutting)}."
    parts = [
        f"# Where does the run go on after {flow.id}/{situation.step_id}?",
        f"## Goal of the flow\n\n{charter_text(charter, _CONTEXT_CHARS)}" if charter else "",
        f"## The flow\n\n{graph}",
        f"## Candidates\n\n{listed}\n\n{_HOW_TO_ANSWER}",
        called if flow.cross_cutting else "",
        f"## Evidence (what git, the tests and the receipts prove)\n\n{_json(situation, 'evidence')}",
        f"## Handoff (what the agent says)\n\n{_json(situation, 'envelope')}",
        "Where evidence and handoff disagree, the evidence is right.",
    ]
    stall = situation.progress.stall
    if stall is not None and stall.is_stalled:
        parts.insert(5, f"## Stall\n\n{stall.passes} passes of this loop in a row made no progress.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cost(option: Candidate, situation: Situation) -> str:
    quest = situation.rules.sidequests.get(option.candidate_id.removeprefix("detour:"))
    return f", cost {quest.cost}" if quest is not None and option.action is Action.DETOUR else ""


def _json(situation: Situation, name: str) -> str:
    text = json.dumps(situation.context.get(name), indent=1, ensure_ascii=False)
    return text if len(text) <= _CONTEXT_CHARS else f"{text[:_CONTEXT_CHARS]}\n[… {len(text)} characters in all]"


def graph_extended(proposal: Proposal) -> Event:
    """A proposal is carried out."""
    nodes: list[JsonValue] = [node.id for node in proposal.nodes]
    payload: dict[str, JsonValue] = {"proposal": proposal.id, "after": proposal.after_step, "nodes": nodes}
    return Event(kind=EventKind.GRAPH_EXTENDED, payload=payload)


def offroad(
    choice: Choice, from_step: str | None, golden: Candidate | Continuation, confidence: Confidence | None = None
) -> tuple[Event, ...]:
    """The flow's own graph is left: said once, with the reason and with what the graph would have done (seed 001).

    :param golden: the transition that the graph takes by itself.
    """
    if choice.decision not in OFF_THE_GRAPH:
        return ()
    frame = choice.stack[-1] if choice.stack and choice.decision is not Action.SKIP else None
    payload: dict[str, JsonValue] = {
        "candidate_id": choice.candidate_id,
        "from_step": from_step,
        "instead_of": golden.candidate_id,
        "why_now": choice.why_now.to_plain() if choice.why_now else None,
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
