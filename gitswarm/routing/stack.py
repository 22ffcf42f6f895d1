"""Interruptions: what a flow is left for, how deep that may go, and where the run continues after it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import Action, Candidate, ConditionTrace, Continuation, Frame, Node, WhyNow
from gitswarm.routing.choices import (
    MAX_DEPTH,
    Situation,
    Transitions,
    advance,
    continuation,
    continuation_of,
    end,
    pause,
    resumed,
    retry,
    with_events,
)
from gitswarm.routing.conditions import evaluate
from gitswarm.routing.macro import after_flow
from gitswarm.specs.flow import Flow
from gitswarm.specs.sidequest import NODE_PREFIX, Return, Sidequest


def is_full(stack: Sequence[Frame]) -> bool:
    return len(stack) >= MAX_DEPTH


def overflow(stack: Sequence[Frame], candidate_id: str) -> Event:
    payload: dict[str, JsonValue] = {"candidate_id": candidate_id, "depth": len(stack), "max_depth": MAX_DEPTH}
    return Event(kind=EventKind.STACK_OVERFLOW_PREVENTED, payload=payload)


def detour(
    situation: Situation, quest: Sidequest, before: Candidate, why: WhyNow, pointers: tuple[str, ...]
) -> Candidate:
    """Into a sidequest; `before` is what would have been taken without it."""
    candidate = Candidate(
        candidate_id=f"detour:{quest.id}",
        action=Action.DETOUR,
        target=quest.step_names[0],
        reason=f"{quest.title}: {why.trigger}",
        priority=quest.priority,
        source="detour_catalog",
        evidence_pointers=pointers,
    )
    return _pushed(candidate, _frame(situation, "sidequest", quest.id, before), before, why)


def inject_flow(situation: Situation, flow: Flow, before: Candidate, why: WhyNow, *, priority: int = 20) -> Candidate:
    """Into another flow from its first step."""
    candidate = Candidate(
        candidate_id=f"inject:{flow.id}",
        action=Action.INJECT_FLOW,
        target=flow.steps[0].id,
        flow=flow.id,
        reason=why.trigger,
        priority=priority,
        source="macro",
    )
    option = _pushed(candidate, _frame(situation, "flow", flow.id, before), before, why)
    return with_events(option, Event(kind=EventKind.FLOW_INJECTED, payload={"flow": flow.id}))


def inject_nodes(situation: Situation, nodes: tuple[Node, ...], before: Candidate, why: WhyNow) -> Candidate:
    """Into steps that no flow has."""
    frame = _frame(situation, "nodes", nodes[0].id, before)
    return into_nodes(replace(frame, nodes=nodes), before.stack, why)


def into_nodes(frame: Frame, stack: tuple[Frame, ...], why: WhyNow) -> Candidate:
    """Injects nodes like `inject_nodes`, with a frame that is known already."""
    first = frame.nodes[0]
    candidate = Candidate(
        candidate_id=f"inject:{NODE_PREFIX}{first.id}",
        action=Action.INJECT_NODES,
        target=NODE_PREFIX + first.id,
        flow=frame.flow,
        reason=why.trigger,
        priority=20,
        source="kernel",
        stack=(*stack, frame),
        why_now=why,
    )
    injected = [
        Event(
            kind=EventKind.NODE_INJECTED,
            payload={"flow": frame.flow, "step": NODE_PREFIX + node.id, "station": node.station},
        )
        for node in frame.nodes
    ]
    return with_events(candidate, _push_event(frame, len(candidate.stack)), *injected)


def _frame(situation: Situation, kind: str, name: str, before: Candidate) -> Frame:
    return Frame.from_plain(
        {
            "kind": kind,
            "id": name,
            "opened": situation.progress.steps,
            "flow": situation.flow.id,
            "step": situation.step_id or None,
            "back": continuation_of(before, situation),
        }
    )


def _pushed(candidate: Candidate, frame: Frame, before: Candidate, why: WhyNow) -> Candidate:
    stack = (*before.stack, frame)
    left = tuple(event for event in before.events if event.kind == EventKind.STACK_POP)
    events = (*left, _push_event(frame, len(stack)))
    return replace(candidate, stack=stack, why_now=why, events=events)


def _push_event(frame: Frame, depth: int) -> Event:
    back = frame.back
    payload: dict[str, JsonValue] = {
        "frame": frame.token,
        "depth": depth,
        "interrupted": f"{frame.flow}/{frame.step}" if frame.step else frame.flow,
        "back_to": f"{back.flow}/{back.step}" if back.step else None,
        "paused_flow": frame.flow,
        "paused_step": frame.step,
        "injected_flow": frame.id,
        "current_depth": depth,
    }
    return Event(kind=EventKind.STACK_PUSH, payload=payload)


def _popped(option: Candidate, frame: Frame) -> Candidate:
    return replace(option, events=(_pop_event(frame, len(option.stack)), *option.events))


def _pop_event(frame: Frame, depth: int) -> Event:
    return Event(kind=EventKind.STACK_POP, payload={"frame": frame.token, "depth": depth})


def after_detour_step(situation: Situation) -> Transitions:
    """After a step of a sidequest or an injected node: the next one, or back."""
    frame = situation.stack[-1]
    quest = situation.rules.sidequests.get(frame.id) if frame.kind == "sidequest" else None
    names = quest.step_names if quest else [NODE_PREFIX + node.id for node in frame.nodes]
    if situation.step_id not in names:
        raise ValueError(f"{situation.step_id} is no step of {frame.token}")
    at = names.index(situation.step_id)
    if situation.status is Status.BLOCKED and (quest is None or quest.steps[at].on_blocked == "halt"):
        waiting = pause(
            f"{situation.step_id} is BLOCKED: waiting for your answer", situation.stack, "envelope.blockers"
        )
        return Transitions(waiting, (waiting,), waiting.reason)
    if at + 1 < len(names):
        option = advance(situation, names[at + 1], f"the next step of {frame.id}")
        return Transitions(option, (option,), option.reason, is_obvious=True)
    return _returning(situation, frame, quest)


def _returning(situation: Situation, frame: Frame, quest: Sidequest | None) -> Transitions:
    returns = quest.returns if quest else Return()
    mode: str = returns.mode
    traces: tuple[ConditionTrace, ...] = ()
    if returns.if_ is not None:
        trace = evaluate(returns.if_, "return", situation.context)
        chosen = returns.then if trace.value is True else returns.otherwise
        mode, traces = chosen or "resume", (trace,)
    reason = f"back from {frame.id}: {mode}"
    option = _back(situation, frame, mode, returns.target, reason)
    return Transitions(option, (option,), reason, conditions=traces)


def _back(situation: Situation, frame: Frame, mode: str, target: str | None, reason: str) -> Candidate:
    flow = situation.rules.flows.get(frame.flow, situation.flow)
    stack = situation.stack[:-1]
    inside = frame.back.flow == flow.id or (not stack and situation.progress.flow_sequence[-1:] == (flow.id,))
    if mode == "halt":
        return _popped(pause(f"{frame.id} says to stop here", stack, resume_at=frame.back), frame)
    if mode == "bounce_to" and target is not None and inside and flow.has_step(target):
        return _bounced(situation, flow, target, reason)
    if mode == "advance" and inside and frame.step and flow.has_step(frame.step) and frame.back.fork is None:
        following = flow.following(frame.step)
        resume_at = continuation(Action.ADVANCE if following else Action.TERMINATE, flow.id, following, reason)
    else:
        resume_at = frame.back
        reason = reason if mode == "resume" else f"{reason} leads nowhere from here: continuing as before"
    return _popped(_on(resume_at, situation, stack, reason), frame)


def _bounced(situation: Situation, flow: Flow, target: str, reason: str) -> Candidate:
    """A jump to a step of the flow's own graph: out of every sidequest that lies around this one too."""
    resume_at = continuation(Action.ADVANCE, flow.id, target, reason)
    entered = [index for index, frame in enumerate(situation.stack, start=1) if frame.kind == "flow"]
    kept = situation.stack[: max(entered, default=0)]
    option = resumed(resume_at, situation, kept, reason)
    for depth, frame in enumerate(situation.stack[len(kept) :], start=len(kept)):
        option = replace(option, events=(_pop_event(frame, depth), *option.events))
    return option


def _on(resume_at: Continuation, situation: Situation, stack: tuple[Frame, ...], reason: str) -> Candidate:
    """Where a flow continues; at its end, what follows it."""
    if resume_at.decision is Action.TERMINATE and not resume_at.failed:
        flow = situation.rules.flows.get(resume_at.flow, situation.flow)
        return _over(flow, situation, stack, reason)
    return resumed(resume_at, situation, stack, reason)


def flow_is_over(situation: Situation) -> Candidate:
    """What comes when the flow of the step is complete: the flow to run then, the interrupted one, the next one."""
    return _over(situation.flow, situation, situation.stack, "the flow is complete")


def _over(flow: Flow, situation: Situation, stack: tuple[Frame, ...], reason: str, *, done: str = "") -> Candidate:
    untested = situation.untested(flow)
    if untested is not None:
        resume_at = continuation(Action.ADVANCE, flow.id, untested, "the code changed after its tests")
        return resumed(resume_at, situation, stack, resume_at.reason)
    following = _follow_up(flow.on_complete, situation, stack)
    if following is not None and done != following.id:
        why = WhyNow(trigger=f"{flow.id} is complete", relevance_to_charter=f"on_complete of {flow.id}")
        ended = continuation(Action.TERMINATE, flow.id, None, "the flow is complete")
        return inject_flow(situation, following, resumed(ended, situation, stack, reason), why, priority=80)
    if stack and stack[-1].kind == "flow":
        frame = stack[-1]
        if frame.back.decision is Action.TERMINATE and not frame.back.failed:
            outer = situation.rules.flows.get(frame.back.flow, situation.flow)
            return _popped(_over(outer, situation, stack[:-1], reason, done=flow.id), frame)
        option = resumed(frame.back, situation, stack[:-1], f"back from {flow.id}")
        if frame.back.failed:
            option = replace(option, resume_at=_retry(frame))
        return _popped(option, frame)
    return after_flow(flow, situation)


def _retry(frame: Frame) -> Continuation:
    """Where a run continues that ended because of what the frame interrupted."""
    resume_at, fork = retry(frame.flow, frame.step or ""), frame.back.fork
    into = {"decision": Action.FORK, "step": fork.pending[0], "fork": fork} if fork else {}
    return replace(resume_at, **into)


def on_failure(situation: Situation) -> Candidate | None:
    """The flow to run when a step of this one has failed, before the run ends as failed."""
    following = _follow_up(situation.flow.on_failure, situation, situation.stack)
    if following is None:
        return None
    why = WhyNow(trigger=f"{situation.step_id} failed", relevance_to_charter=f"on_failure of {situation.flow.id}")
    ended = end(f"{situation.step_id} failed", priority=100, failed=True)
    back = continuation(Action.TERMINATE, situation.flow.id, None, ended.reason, failed=True)
    failed = replace(ended, stack=situation.stack, resume_at=back)
    return inject_flow(situation, following, failed, why, priority=100)


def _follow_up(name: str | None, situation: Situation, stack: Sequence[Frame]) -> Flow | None:
    """A flow that another one names to be executed after it; none that is open, or that the run enters anyway."""
    rules = situation.rules
    is_open = any(frame.kind == "flow" and frame.id == name for frame in stack)
    if name is None or is_open or is_full(stack) or name in rules.sequence:
        return None
    return rules.flows.get(name)
