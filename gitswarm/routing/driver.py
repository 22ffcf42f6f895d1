"""The one driver: fast path, graph and conditions, navigator, the agent's own wish, a person. Pure; the ledger
records what it decides, and the same situation always gives the same choice."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from gitswarm.records.event import EventKind
from gitswarm.records.outcome import Result, Status, reset_words
from gitswarm.records.routing import (
    Action,
    Asked,
    Candidate,
    Choice,
    Decision,
    Frame,
    HumanPolicy,
    Proposal,
    RoutingEvent,
    RoutingMode,
    RoutingSignal,
    RoutingSource,
    Way,
    WhyNow,
)
from gitswarm.routing import navigator
from gitswarm.routing.graph import graph_ways, onward
from gitswarm.routing.options import Option, Ways, escalate, only, pause, take, with_events
from gitswarm.routing.sidequests import Called, called_for, refusal
from gitswarm.routing.situation import MAX_INJECTIONS, Progress, Rules, Situation
from gitswarm.routing.stack import detour, inject_flow, into_nodes, is_full
from gitswarm.specs.flow import Flow, Linear

DOCTOR = "env-doctor"
"""The sidequest that comes first when a preflight finds something missing."""

CLARIFIER = "clarifier"
"""The sidequest that a pause becomes when nobody is there to answer."""

_OFF_THE_GRAPH = frozenset({Action.DETOUR, Action.INJECT_FLOW, Action.INJECT_NODES, Action.SKIP})
_WAITING = frozenset({Action.PAUSE, Action.ESCALATE})


def start(flow: Flow, first: str | None = None) -> Choice:
    """The way into a flow; `first` is where a person wants to begin."""
    at = first or flow.steps[0].id
    candidate = Candidate(
        candidate_id=f"advance:{at}",
        action=Action.ADVANCE,
        target=at,
        reason="started from here by hand" if first else "the flow starts here",
        source="fast_path",
    )
    return only(Option(candidate), RoutingSource.FAST_PATH)


def start_with_doctor(flow: Flow, rules: Rules, problem: str) -> Choice | None:
    """Before the first step of a run whose surroundings lack something; None when that sidequest may not be taken."""
    quest = rules.sidequests.get(DOCTOR)
    if quest is None:
        return None
    first = start(flow)
    before = Option(first.candidates[0])
    nothing = Situation(flow, "", Result.SUCCEEDED, Status.VERIFIED, {}, (), rules=rules, progress=Progress(steps=0))
    why = WhyNow(trigger=f"preflight: {problem}", relevance_to_charter="no step can do its work without it")
    option = detour(nothing, quest, before, why, ("preflight",))
    ways = Ways(option, (option, before), option.candidate.reason)
    return take(option, ways, RoutingSource.DETERMINISTIC)


def skip(situation: Situation) -> Choice:
    """On from a step that a person does not want to be executed, as from one that said VERIFIED."""
    ways = graph_ways(situation)
    leaving = ways.default if situation.is_aside or situation.is_branch else onward(situation, "")
    reason = f"{situation.step_id} was skipped by hand"
    candidate = leaving.candidate.model_copy(update={"reason": reason, "source": "kernel"})
    return only(replace(leaving, candidate=candidate), RoutingSource.DETERMINISTIC)


def go_on(way: Way, stack: tuple[Frame, ...], reason: str) -> Choice:
    """Takes a way on because a person resumed the run: what it waited for, or the step that failed, once more."""
    candidate = Candidate(
        candidate_id=way.candidate_id,
        action=way.decision,
        target=way.step,
        flow=way.flow,
        reason=reason,
        source="kernel",
    )
    return only(Option(candidate, stack=stack, fork=way.fork, failed=way.failed), RoutingSource.DETERMINISTIC)


def approve(decision: Decision, steps: int) -> Choice:
    """Carries out what a navigator proposed and a person approved: the nodes first, then the way that waited."""
    proposal, back = decision.proposal, decision.resume_at
    if proposal is None or back is None:
        raise ValueError("nothing waits for approval")
    frame = Frame(
        kind="nodes",
        id=proposal.nodes[0].id,
        opened=steps,
        flow=proposal.flow_key,
        step=proposal.after_step,
        back=back,
        nodes=proposal.nodes,
    )
    option = with_events(into_nodes(frame, decision.stack, proposal.why_now), graph_extended(proposal))
    return only(option, RoutingSource.NAVIGATOR)


def decide(situation: Situation) -> Choice:
    """Where the run goes from here."""
    if situation.limited_until is not None and not situation.is_branch:
        why = f"{situation.step_id} met a usage limit, which {reset_words(situation.limited_until)}"
        return only(pause(why, situation.stack, "receipt.outcome"), RoutingSource.DETERMINISTIC)
    ways = graph_ways(situation)
    if not _goes_back(situation, ways.default):
        situation = replace(situation, progress=replace(situation.progress, stall=None))
    called = _called(situation, ways)
    ways = _with_stall(situation, ways)
    options = _all_options(situation, ways, called)
    default = _default(situation, ways, called)
    whole = replace(
        ways,
        options=options,
        is_obvious=ways.is_obvious and not called.dropped,
        conditions=(*ways.conditions, *called.conditions),
        dropped=(*ways.dropped, *called.dropped),
    )
    choice, asked, events = _choose(situation, whole, default, is_open=ways.is_open or bool(called.detours))
    stall = situation.progress.stall
    explanation = choice.explanation.model_copy(update={"stall": stall, "navigator": asked})
    told = (*choice.events, *called.events, *events, *_offroad(situation, choice, ways))
    return choice.model_copy(update={"explanation": explanation, "events": told})


def _goes_back(situation: Situation, option: Option) -> bool:
    """Whether the loop goes round once more: one that is left has not stalled, whatever it was like."""
    flow, target = situation.flow, option.candidate.target
    if situation.is_aside or option.candidate.flow is not None or target is None or not flow.has_step(target):
        return False
    return flow.index(target) <= flow.index(situation.step_id)


def _called(situation: Situation, ways: Ways) -> Called:
    """Branches of a fork are no place to leave it from: what they call for waits until they have come together."""
    return Called() if situation.is_branch else called_for(situation, ways.default)


def _with_stall(situation: Situation, ways: Ways) -> Ways:
    stall = situation.progress.stall
    if stall is None or not stall.is_stalled:
        return ways
    what = f"stalled: {stall.passes} passes in a row brought nothing new"
    stop = escalate(what, ways.default.stack, "explanation.stall", priority=60)
    return replace(ways, options=(*ways.options, stop), is_open=True)


def _all_options(situation: Situation, ways: Ways, called: Called) -> tuple[Option, ...]:
    """The graph's ways, the detours that the evidence calls for, and what a navigator may want beside them."""
    options = [*ways.options, *called.detours]
    mode = situation.rules.mode
    if mode is RoutingMode.AUTHORITATIVE or (
        mode is RoutingMode.ASSIST and situation.ask is not None and (ways.is_open or called.detours)
    ):
        options += _free_options(situation, ways, {option.id for option in options})
    known: dict[str, Option] = {}
    for option in options:
        known.setdefault(option.id, option)
    return tuple(known.values())


def _free_options(situation: Situation, ways: Ways, known: set[str]) -> list[Option]:
    """Ways that nothing calls for; the navigator's own reasons have to."""
    rules, before = situation.rules, ways.default
    if situation.is_branch:
        return []
    none_yet = WhyNow(trigger="the navigator's choice", relevance_to_charter="the navigator has to say")
    entered = {situation.flow.id, *(frame.id for frame in situation.stack if frame.kind == "flow")}
    may_inject = situation.progress.injections < MAX_INJECTIONS and not is_full(before.stack)
    found = [
        inject_flow(situation, flow, before, none_yet)
        for flow in rules.flows.values()
        if flow.utility and flow.id not in entered and may_inject
    ]
    if rules.mode is not RoutingMode.AUTHORITATIVE:
        return found
    quests = sorted(rules.sidequests.values(), key=lambda quest: (-quest.priority, quest.id))
    found += [
        detour(situation, quest, before, none_yet, ())
        for quest in quests
        if f"detour:{quest.id}" not in known and refusal(situation, quest, before.stack) is None
    ]
    skipped = _skip(situation, before)
    return [*found, skipped] if skipped else found


def _skip(situation: Situation, before: Option) -> Option | None:
    """Past the step that would be next; only one that nothing else in the graph hangs on."""
    flow, target = situation.flow, before.candidate.target
    if before.candidate.action is not Action.ADVANCE or target is None or before.candidate.flow is not None:
        return None
    if not flow.has_step(target) or flow.join_of(target) or not isinstance(flow.step(target).routing, Linear):
        return None
    behind = flow.following(target)
    if behind is None:
        return None
    candidate = Candidate(
        candidate_id=f"skip:{target}",
        action=Action.SKIP,
        target=behind,
        reason=f"without {target}",
        priority=10,
        source="kernel",
    )
    return Option(candidate, stack=before.stack)


def _default(situation: Situation, ways: Ways, called: Called) -> Option:
    """What is taken when nobody answers."""
    waiting = ways.default.candidate.action in _WAITING
    if waiting and situation.rules.human is HumanPolicy.AUTOPILOT:
        return _clarifying(situation, ways.default) or ways.default
    if called.detours and not waiting:
        return called.detours[0]
    return ways.default


def _clarifying(situation: Situation, waiting: Option) -> Option | None:
    """A pause in a run that nobody watches becomes a detour to the clarifier, as long as that may be taken."""
    quest = situation.rules.sidequests.get(CLARIFIER)
    if quest is None or refusal(situation, quest, waiting.stack) is not None:
        return None
    why = WhyNow(trigger=waiting.candidate.reason, relevance_to_charter="autopilot: nobody is there to answer")
    return detour(situation, quest, waiting, why, waiting.candidate.evidence_pointers)


def _choose(
    situation: Situation, ways: Ways, default: Option, *, is_open: bool
) -> tuple[Choice, Asked | None, list[RoutingEvent]]:
    """The navigator, the agent's wish, else the default; signals that may not count are reported."""
    rules = situation.rules
    ways = replace(ways, options=_with(default, ways.options))
    rejected: list[RoutingEvent] = []
    asked = None
    proposal = None
    may_ask = rules.mode is RoutingMode.AUTHORITATIVE or (rules.mode is RoutingMode.ASSIST and is_open)
    verdict = navigator.ask(situation, ways) if may_ask and len(ways.options) > 1 else None
    if verdict is not None:
        asked, proposal = navigator.asked(verdict), verdict.proposal
        if verdict.option is not None:
            return _chosen(verdict, ways, default, RoutingSource.NAVIGATOR), asked, rejected
        rejected.append(_rejection("navigator", verdict))
    if may_ask and is_open:
        wish = _wish(situation, ways)
        if wish is not None and wish.option is not None:
            return _chosen(wish, ways, default, RoutingSource.ENVELOPE_FALLBACK), asked, rejected
        if wish is not None:
            rejected.append(_rejection("envelope", wish))
    choice = _by_default(ways if asked is None else replace(ways, is_obvious=False), default)
    return choice.model_copy(update={"proposal": proposal}), asked, rejected


def _with(default: Option, options: tuple[Option, ...]) -> tuple[Option, ...]:
    return options if any(option.id == default.id for option in options) else (default, *options)


def _by_default(ways: Ways, default: Option) -> Choice:
    if default.id != ways.default.id:
        return take(default, ways, RoutingSource.DETERMINISTIC, default.candidate.reason, default=default)
    if ways.is_undecided:
        last = next(option for option in ways.options if option.candidate.action is Action.ESCALATE)
        return take(last, ways, RoutingSource.ESCALATE, default=last)
    source = RoutingSource.FAST_PATH if ways.is_obvious else RoutingSource.DETERMINISTIC
    return take(default, ways, source)


def _chosen(verdict: navigator.Verdict, ways: Ways, default: Option, source: RoutingSource) -> Choice:
    """What a navigator or an agent wanted, with its own reasons in place of ours."""
    option, signal = verdict.option, verdict.signal or RoutingSignal()
    if option is None:
        raise ValueError("a verdict without an option chooses nothing")
    if option.candidate.action is Action.DETOUR and source is RoutingSource.NAVIGATOR:
        source = RoutingSource.NAVIGATOR_DETOUR
    own = option.candidate.action is Action.PAUSE and verdict.proposal is not None
    reason = option.candidate.reason if own else signal.reasoning or option.candidate.reason
    whole = replace(ways, options=_with(option, ways.options))
    choice = take(option, whole, source, reason, default=default)
    justified = signal.skip_justification if option.candidate.action is Action.SKIP else None
    events = choice.events
    if verdict.proposal is not None and option.candidate.action is Action.INJECT_NODES:
        events = (*events, graph_extended(verdict.proposal))
    return choice.model_copy(
        update={
            "why_now": signal.why_now if option.candidate.action in _OFF_THE_GRAPH else None,
            "skip_justification": justified,
            "proposal": verdict.proposal,
            "events": events,
        }
    )


def graph_extended(proposal: Proposal) -> RoutingEvent:
    """A proposal is carried out."""
    nodes: list[JsonValue] = [node.id for node in proposal.nodes]
    payload: dict[str, JsonValue] = {"proposal": proposal.id, "after": proposal.after_step, "nodes": nodes}
    return RoutingEvent(kind=EventKind.GRAPH_EXTENDED, payload=payload)


def _wish(situation: Situation, ways: Ways) -> navigator.Verdict | None:
    """Where the agent itself would go on, as its envelope says."""
    envelope = situation.context.get("envelope")
    said = envelope.get("routing") if isinstance(envelope, dict) else None
    if said is None:
        return None
    return navigator.judge(RoutingSignal.model_validate(said), situation, ways)


def _rejection(who: str, verdict: navigator.Verdict) -> RoutingEvent:
    chosen = verdict.signal.chosen_candidate_id if verdict.signal else None
    return RoutingEvent(
        kind=EventKind.ROUTING_REJECTED, payload={"from": who, "candidate_id": chosen, "problem": verdict.problem}
    )


def _offroad(situation: Situation, choice: Choice, ways: Ways) -> tuple[RoutingEvent, ...]:
    """The flow's own graph is left: said once, with the reason and with what the graph would have done."""
    if choice.decision not in _OFF_THE_GRAPH:
        return ()
    why = choice.why_now.model_dump(mode="json") if choice.why_now else None
    payload = {
        "candidate_id": choice.candidate_id,
        "from_step": situation.step_id,
        "instead_of": ways.default.id,
        "why_now": why,
    }
    return (RoutingEvent(kind=EventKind.ROUTING_OFFROAD, payload=payload),)
