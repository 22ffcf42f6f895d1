"""The one driver: fast path, graph and conditions, navigator, the agent's own signal, a person. Pure; the ledger
records what it decides, and the same situation always gives the same choice."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.records.envelope import Confidence
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Result, Status, reset_words
from gitswarm.records.routing import (
    Action,
    Candidate,
    Choice,
    Continuation,
    Decision,
    Frame,
    HumanPolicy,
    NavigatorUse,
    RoutingMode,
    RoutingSignal,
    RoutingSource,
    WhyNow,
)
from gitswarm.routing import navigator
from gitswarm.routing.choices import (
    MAX_INJECTIONS,
    WAITING,
    Progress,
    Rules,
    Situation,
    Transitions,
    again,
    candidate_of,
    escalate,
    only,
    pause,
    take,
    with_events,
)
from gitswarm.routing.forks import continuation_into, into_fork, retried_fork
from gitswarm.routing.macro import DEPLOY, GATE, RESET
from gitswarm.routing.navigator import graph_extended, offroad
from gitswarm.routing.sidequests import TriggeredSidequests, evaluate_triggers, refusal
from gitswarm.routing.stack import detour, inject_flow, into_nodes, is_full
from gitswarm.routing.transitions import graph_transitions, onward
from gitswarm.specs.flow import Flow, Linear

DOCTOR = "env-doctor"
"""The sidequest that comes first when a preflight finds something missing."""

CLARIFIER = "clarifier"
"""The sidequest that a pause becomes when nobody is there to answer."""


def start(flow: Flow, first: str | None = None) -> Choice:
    """Enters a flow; `first` is where a person wants to begin."""
    at = first or flow.steps[0].id
    candidate = Candidate(
        candidate_id=f"advance:{at}",
        action=Action.ADVANCE,
        target=at,
        reason="started from here by hand" if first else "the flow starts here",
        source="fast_path",
    )
    return only(candidate, RoutingSource.FAST_PATH)


def start_with_doctor(flow: Flow, rules: Rules, problem: str) -> Choice | None:
    """Before the first step of a run whose surroundings lack something; None when that sidequest may not be taken."""
    quest = rules.sidequests.get(DOCTOR)
    if quest is None:
        return None
    first = start(flow)
    before = first.candidates[0]
    nothing = Situation(flow, "", Result.SUCCEEDED, Status.VERIFIED, {}, (), rules=rules, progress=Progress(steps=0))
    why = WhyNow(trigger=f"preflight: {problem}", relevance_to_charter="no step can do its work without it")
    return _instead_of(before, detour(nothing, quest, before, why, ("preflight",)), None)


def skip(situation: Situation) -> Choice:
    """Continues behind a step that a person does not want to be executed, as behind one that said VERIFIED."""
    transitions = graph_transitions(situation)
    leaving = transitions.default if situation.is_detour or situation.is_branch else onward(situation, "")
    reason = f"{situation.step_id} was skipped by hand"
    return only(replace(leaving, reason=reason, source="kernel"), RoutingSource.DETERMINISTIC)


def continue_at(resume_at: Continuation, stack: tuple[Frame, ...], reason: str) -> Choice:
    """Continues because a person resumed the run: where it waited, or with the failed step again."""
    candidate = replace(candidate_of(resume_at, stack, reason), source="kernel")
    return only(candidate, RoutingSource.DETERMINISTIC)


def approve(decision: Decision, steps: int) -> Choice:
    """Carries out what a navigator proposed and a person approved: the nodes first, then what waited for them."""
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
    choice = only(option, RoutingSource.NAVIGATOR)
    return replace(choice, events=(*choice.events, *offroad(choice, proposal.after_step, back)))


def decide(situation: Situation) -> Choice:
    """Where the run goes from here."""
    if situation.limited_until is not None and not situation.is_branch:
        why = f"{situation.step_id} met a usage limit, which {reset_words(situation.limited_until)}"
        return only(pause(why, situation.stack, "receipt.outcome"), RoutingSource.DETERMINISTIC)
    choice = _unproven(situation)
    if choice is not None:
        return choice
    transitions = graph_transitions(situation)
    reset = _onto_new_ground(situation, transitions.default)
    if reset is not None:
        return reset
    if not _goes_back(situation, transitions.default):
        situation = replace(situation, progress=replace(situation.progress, stall=None))
    # Branches of a fork are no place to leave it from: what they call for waits until they have come together.
    triggered = TriggeredSidequests() if situation.is_branch else evaluate_triggers(situation, transitions.default)
    transitions = _with_stall(situation, transitions)
    options = _all_options(situation, transitions, triggered)
    default = _default(situation, transitions, triggered)
    whole = replace(
        transitions,
        options=options,
        is_obvious=transitions.is_obvious and not triggered.dropped,
        conditions=(*transitions.conditions, *triggered.conditions),
        dropped=(*transitions.dropped, *triggered.dropped),
    )
    chosen = _choose(situation, whole, default, is_open=transitions.is_open or bool(triggered.detours))
    choice, stall = chosen.choice, situation.progress.stall
    explanation = replace(choice.explanation, stall=stall, navigator=chosen.asked)
    left = offroad(choice, situation.step_id, transitions.default, chosen.confidence)
    events = (*choice.events, *triggered.events, *chosen.rejected, *left)
    return replace(choice, explanation=explanation, events=events)


def _unproven(situation: Situation) -> Choice | None:
    """Before the graph is asked: the step again, with its finding as the reason; then a person. None: neither, as
    nobody watches the run, and the concern stays open."""
    unproven = situation.unproven
    if unproven is None or situation.result is Result.FAILED or situation.status is Status.BLOCKED:
        return None
    fork = retried_fork(situation, unproven.steps)
    if situation.is_branch and fork is None:
        return None
    if unproven.may_repeat:
        taken = again(situation.step_id, unproven.reason, situation.stack)
        taken = into_fork(situation, fork, unproven.reason) if fork is not None else taken
    elif situation.rules.human is HumanPolicy.SUPERVISED:
        resume_at = continuation_into(fork, situation.flow.id, unproven.reason) if fork is not None else None
        taken = pause(unproven.reason, situation.stack, "evidence.opened", resume_at=resume_at)
    else:
        return None
    return replace(only(taken, RoutingSource.DETERMINISTIC), findings=unproven.ids)


def _onto_new_ground(situation: Situation, before: Candidate) -> Choice | None:
    """Into the flow `reset`, where the run's code is in conflict with what its target is now. Not from within another
    interruption, not while something is judged or deployed, and not before a fork, which starts from this commit."""
    flow = situation.rules.flows.get(RESET)
    if flow is None or situation.stack or situation.is_branch or situation.flow.id in (RESET, GATE, DEPLOY):
        return None
    if before.target is None or before.fork is not None or situation.result is Result.FAILED:
        return None
    what = situation.diverged()
    if what is None:
        return None
    why = WhyNow(trigger=what, relevance_to_charter="it could not land, and what follows would rest on it")
    return _instead_of(before, inject_flow(situation, flow, before, why, priority=90), situation.step_id)


def _instead_of(before: Candidate, option: Candidate, from_step: str | None) -> Choice:
    """What the rules take in the place of what the graph would take by itself."""
    choice = take(option, Transitions(option, (option, before), option.reason), RoutingSource.DETERMINISTIC)
    return replace(choice, events=(*choice.events, *offroad(choice, from_step, before)))


def _goes_back(situation: Situation, option: Candidate) -> bool:
    """Whether another pass of the loop follows. A loop that is left has not stalled."""
    flow, target = situation.flow, option.target
    if situation.is_detour or option.flow is not None or target is None or not flow.has_step(target):
        return False
    return flow.index(target) <= flow.index(situation.step_id)


def _with_stall(situation: Situation, transitions: Transitions) -> Transitions:
    stall = situation.progress.stall
    if stall is None or not stall.is_stalled:
        return transitions
    what = f"stalled: {stall.passes} passes in a row made no progress"
    stop = escalate(what, transitions.default.stack, "explanation.stall", priority=60)
    return replace(transitions, options=(*transitions.options, stop), is_open=True)


def _all_options(
    situation: Situation, transitions: Transitions, triggered: TriggeredSidequests
) -> tuple[Candidate, ...]:
    """The graph's transitions, the triggered detours, and what a navigator may want besides."""
    options = [*transitions.options, *triggered.detours]
    mode = situation.rules.mode
    if mode is RoutingMode.AUTHORITATIVE or (
        mode is RoutingMode.ASSIST and situation.ask is not None and (transitions.is_open or triggered.detours)
    ):
        options += _free_options(situation, transitions, {option.candidate_id for option in options})
    known: dict[str, Candidate] = {}
    for option in options:
        known.setdefault(option.candidate_id, option)
    return tuple(known.values())


def _free_options(situation: Situation, transitions: Transitions, known: set[str]) -> list[Candidate]:
    """Candidates that nothing calls for; the navigator's own reasons have to."""
    rules, before = situation.rules, transitions.default
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


def _skip(situation: Situation, before: Candidate) -> Candidate | None:
    """Past the step that would be next; only one that nothing else in the graph hangs on."""
    flow, target = situation.flow, before.target
    if before.action is not Action.ADVANCE or target is None or before.flow is not None:
        return None
    if not flow.has_step(target) or flow.join_of(target) or not isinstance(flow.step(target).routing, Linear):
        return None
    behind = flow.following(target)
    if behind is None:
        return None
    return Candidate(
        candidate_id=f"skip:{target}",
        action=Action.SKIP,
        target=behind,
        reason=f"without {target}",
        priority=10,
        source="kernel",
        stack=before.stack,
    )


def _default(situation: Situation, transitions: Transitions, triggered: TriggeredSidequests) -> Candidate:
    """What is taken when nobody answers."""
    waiting = transitions.default.action in WAITING
    if waiting and situation.rules.human is HumanPolicy.AUTOPILOT:
        return _clarifying(situation, transitions.default) or transitions.default
    if triggered.detours and not waiting:
        return triggered.detours[0]
    return transitions.default


def _clarifying(situation: Situation, waiting: Candidate) -> Candidate | None:
    """A pause in a run that nobody watches becomes a detour to the clarifier, but not twice in a row."""
    quest = situation.rules.sidequests.get(CLARIFIER)
    if quest is None or situation.progress.clarified or refusal(situation, quest, waiting.stack) is not None:
        return None
    why = WhyNow(trigger=waiting.reason, relevance_to_charter="autopilot: nobody is there to answer")
    return detour(situation, quest, waiting, why, waiting.evidence_pointers)


class _Chosen(Struct, frozen=True):
    """`confidence`: of the navigator or the agent whose word it is; None: it said none, or the rules chose."""

    choice: Choice
    asked: NavigatorUse | None
    rejected: tuple[Event, ...]
    confidence: Confidence | None = None


def _choose(situation: Situation, transitions: Transitions, default: Candidate, *, is_open: bool) -> _Chosen:
    """The navigator, the agent's signal, else the default; signals that may not count are reported."""
    rules = situation.rules
    transitions = replace(transitions, options=_including(default, transitions.options))
    rejected: tuple[Event, ...] = ()
    asked = None
    proposal = None
    may_ask = rules.mode is RoutingMode.AUTHORITATIVE or (rules.mode is RoutingMode.ASSIST and is_open)
    verdict = navigator.ask(situation, transitions) if may_ask and len(transitions.options) > 1 else None
    if verdict is not None:
        asked, proposal = navigator.asked(verdict), verdict.proposal
        if verdict.option is not None:
            choice = _chosen(verdict, transitions, default, RoutingSource.NAVIGATOR)
            return _Chosen(choice, asked, rejected, verdict.confidence)
        rejected = (_rejection("navigator", verdict),)
    if may_ask and is_open:
        agent = _agent_choice(situation, transitions)
        if agent is not None and agent.option is not None:
            choice = _chosen(agent, transitions, default, RoutingSource.ENVELOPE_FALLBACK)
            return _Chosen(choice, asked, rejected, agent.confidence)
        if agent is not None:
            rejected = (*rejected, _rejection("envelope", agent))
    choice = _by_default(transitions if asked is None else replace(transitions, is_obvious=False), default)
    return _Chosen(replace(choice, proposal=proposal), asked, rejected)


def _including(default: Candidate, options: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    return options if any(option.candidate_id == default.candidate_id for option in options) else (default, *options)


def _by_default(transitions: Transitions, default: Candidate) -> Choice:
    if default.candidate_id != transitions.default.candidate_id:
        return take(default, transitions, RoutingSource.DETERMINISTIC, default.reason, default=default)
    if transitions.is_undecided:
        last = next(option for option in transitions.options if option.action is Action.ESCALATE)
        return take(last, transitions, RoutingSource.ESCALATE, default=last)
    source = RoutingSource.FAST_PATH if transitions.is_obvious else RoutingSource.DETERMINISTIC
    return take(default, transitions, source)


def _chosen(
    verdict: navigator.NavigatorAnswer, transitions: Transitions, default: Candidate, source: RoutingSource
) -> Choice:
    """What a navigator or an agent wanted, with its own reasons in place of ours."""
    option, signal = verdict.option, verdict.signal or RoutingSignal()
    if option is None:
        raise ValueError("a verdict without an option chooses nothing")
    if option.action is Action.DETOUR and source is RoutingSource.NAVIGATOR:
        source = RoutingSource.NAVIGATOR_DETOUR
    own = option.action is Action.PAUSE and verdict.proposal is not None
    reason = option.reason if own else signal.reasoning or option.reason
    whole = replace(transitions, options=_including(option, transitions.options))
    choice = take(option, whole, source, reason, default=default)
    justified = signal.skip_justification if option.action is Action.SKIP else None
    events = choice.events
    if verdict.proposal is not None and option.action is Action.INJECT_NODES:
        events = (*events, graph_extended(verdict.proposal))
    return replace(
        choice,
        why_now=signal.why_now if option.action in navigator.OFF_THE_GRAPH else None,
        skip_justification=justified,
        offroad_rule=verdict.rule,
        proposal=verdict.proposal,
        events=events,
    )


def _agent_choice(situation: Situation, transitions: Transitions) -> navigator.NavigatorAnswer | None:
    """Where the agent itself would continue, as its envelope says."""
    envelope = situation.context.get("envelope")
    signal = envelope.get("routing") if isinstance(envelope, dict) else None
    if signal is None:
        return None
    return navigator.judge(RoutingSignal.from_plain(signal), situation, transitions)


def _rejection(who: str, verdict: navigator.NavigatorAnswer) -> Event:
    chosen = verdict.signal.chosen_candidate_id if verdict.signal else None
    return Event(
        kind=EventKind.ROUTING_REJECTED, payload={"from": who, "candidate_id": chosen, "problem": verdict.problem}
    )
