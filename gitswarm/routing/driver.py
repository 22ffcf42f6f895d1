"""The one driver: fast path, then the graph and its conditions. Pure; the ledger records what it decides.

A navigator, sidequests and the interruption stack will hang here, between the graph and the last resort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitswarm.records.outcome import Result, Status
from gitswarm.records.routing import (
    Action,
    Candidate,
    Choice,
    ConditionTrace,
    Elimination,
    Explanation,
    LoopState,
    RoutingSource,
)
from gitswarm.routing.conditions import Context, evaluate
from gitswarm.routing.loops import ExecutedStep, judge_microloop, loop_state, way_state
from gitswarm.specs.flow import Branch, Flow, Microloop


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when a step has been committed.

    `context` holds receipt, envelope, evidence and run as plain data; `history` every execution of this
    flow in the run, the one that just ended last.
    """

    flow: Flow
    step_id: str
    result: Result
    status: Status
    context: Context
    history: Sequence[ExecutedStep]


def start(flow: Flow, first: str | None = None) -> Choice:
    """The way into a flow; `first` is where a person wants to begin."""
    at = first or flow.steps[0].id
    only = Candidate(
        candidate_id=f"advance:{at}",
        action=Action.ADVANCE,
        target=at,
        reason="started from here by hand" if first else "the flow starts here",
        source="fast_path",
        is_default=True,
    )
    return _take(only, (only,), RoutingSource.FAST_PATH)


def skip(flow: Flow, step_id: str) -> Choice:
    """On from a step that a person does not want to be executed."""
    following = flow.following(step_id)
    onward = Candidate(
        candidate_id=f"advance:{following}" if following else "terminate",
        action=Action.ADVANCE if following else Action.TERMINATE,
        target=following,
        reason=f"{step_id} was skipped by hand",
        source="kernel",
        is_default=True,
    )
    return _take(onward, (onward,), RoutingSource.DETERMINISTIC)


def retry(step_id: str, reason: str) -> Choice:
    """Executes a step again after a failure, a block or an interruption, because a person resumed the run."""
    candidate = Candidate(
        candidate_id=f"repeat:{step_id}",
        action=Action.REPEAT,
        target=step_id,
        reason=reason,
        source="kernel",
        is_default=True,
    )
    return _take(candidate, (candidate,), RoutingSource.DETERMINISTIC)


def decide(situation: Situation) -> Choice:
    """Where the run goes from here. The same situation always gives the same choice."""
    if situation.result is Result.FAILED:
        return _failed(situation)
    if situation.status is Status.BLOCKED:
        return _blocked(situation)
    routing = situation.flow.step(situation.step_id).routing
    if isinstance(routing, Microloop):
        return _microloop(situation, routing)
    if isinstance(routing, Branch):
        return _branch(situation, routing)
    return _straight_on(situation)


def _failed(situation: Situation) -> Choice:
    end = _end(f"{situation.step_id} failed", priority=100)
    again = _again(situation, "resume retries a failed step")
    return _take(end, (end, again), RoutingSource.DETERMINISTIC)


def _blocked(situation: Situation) -> Choice:
    pause = Candidate(
        candidate_id="pause",
        action=Action.PAUSE,
        reason=f"{situation.step_id} is BLOCKED: a person has to answer",
        priority=100,
        source="kernel",
        evidence_pointers=("envelope.blockers",),
    )
    escalate = Candidate(
        candidate_id="escalate",
        action=Action.ESCALATE,
        reason="hand the run to a person",
        priority=90,
        source="kernel",
    )
    ways = (
        pause,
        escalate,
        _again(situation, "try once more as it is"),
        _onward(situation, "go on regardless"),
    )
    return _take(pause, ways, RoutingSource.DETERMINISTIC)


def _straight_on(situation: Situation) -> Choice:
    way = _onward(situation, "the only way on").model_copy(update={"source": "fast_path"})
    ways = (way, _again(situation, "PARTIAL: more could be done")) if situation.status is Status.PARTIAL else (way,)
    return _take(way, ways, RoutingSource.FAST_PATH)


def _microloop(situation: Situation, routing: Microloop) -> Choice:
    state = loop_state(situation.flow, situation.step_id, situation.history)
    if state is None:
        raise ValueError(f"{situation.step_id} closes no loop")
    envelope, receipt = situation.context["envelope"], situation.context["receipt"]
    verdict = judge_microloop(
        routing,
        state,
        envelope if isinstance(envelope, dict) else {},
        receipt if isinstance(receipt, dict) else {},
    )
    back = Candidate(
        candidate_id=f"loop:{routing.loop_target}:iter_{state.iteration + 1}",
        action=Action.LOOP,
        target=routing.loop_target,
        reason=verdict.reason,
        priority=90,
        evidence_pointers=("envelope.status", "envelope.concerns"),
    )
    onward = _onward(situation, verdict.reason)
    taken = back if verdict.again else onward
    return _take(taken, (back, onward), RoutingSource.DETERMINISTIC, _Grounds(verdict.reason, state))


def _branch(situation: Situation, routing: Branch) -> Choice:
    traces = tuple(evaluate(when.if_, when.next, situation.context) for when in routing.when)
    hit, when = next((pair for pair in zip(traces, routing.when, strict=True) if pair[0].value is True), (None, None))
    fallback = routing.default or situation.flow.following(situation.step_id)
    ways = {when.next: _branch_to(when.next, f"if {when.if_}") for when in reversed(routing.when)}
    if hit is not None:
        ways[hit.target] = _branch_to(hit.target, f"if {hit.expression}")
    if fallback is not None and fallback not in ways:
        ways[fallback] = _branch_to(fallback, "no condition holds")
    limit = when.max_iterations if when and when.max_iterations else routing.max_iterations
    onward = _onward(situation, f"at its maximum of {limit}")
    order = dict.fromkeys([*(when.next for when in routing.when), *ways])
    candidates = (*(ways[name] for name in order), onward)
    target = hit.target if hit else fallback
    flow, step_id, history = situation.flow, situation.step_id, situation.history
    state = way_state(flow, step_id, target, limit, history) if target else None
    reason = hit.expression if hit else "no condition holds: default"
    taken = ways[target] if target is not None else onward
    if state is not None and state.iteration >= state.max_iterations:
        reason = f"max_iterations_reached:{limit}: on, with the concern recorded"
        taken = onward
    grounds = _Grounds(reason, state or loop_state(flow, step_id, history), traces)
    return _take(taken, candidates, RoutingSource.DETERMINISTIC, grounds)


def _branch_to(target: str, reason: str) -> Candidate:
    return Candidate(
        candidate_id=f"branch:{target}",
        action=Action.BRANCH,
        target=target,
        reason=reason,
        priority=70,
        evidence_pointers=("evidence.tests",),
    )


def _onward(situation: Situation, reason: str) -> Candidate:
    following = situation.flow.following(situation.step_id)
    priority = 80 if situation.status is Status.VERIFIED else 40
    if following is None:
        return _end("the flow is complete", priority=priority)
    return Candidate(
        candidate_id=f"advance:{following}",
        action=Action.ADVANCE,
        target=following,
        reason=reason,
        priority=priority,
        evidence_pointers=("envelope.status",),
    )


def _end(reason: str, *, priority: int) -> Candidate:
    return Candidate(candidate_id="terminate", action=Action.TERMINATE, reason=reason, priority=priority)


def _again(situation: Situation, reason: str) -> Candidate:
    step = situation.step_id
    return Candidate(candidate_id=f"repeat:{step}", action=Action.REPEAT, target=step, reason=reason)


@dataclass(frozen=True, slots=True)
class _Grounds:
    """Why a candidate is taken: the reason, and what was looked at."""

    reason: str
    loop: LoopState | None = None
    conditions: tuple[ConditionTrace, ...] = ()


def _take(
    taken: Candidate, candidates: Sequence[Candidate], source: RoutingSource, grounds: _Grounds | None = None
) -> Choice:
    found = grounds or _Grounds(taken.reason)
    marked = tuple(
        candidate.model_copy(update={"is_default": candidate.candidate_id == taken.candidate_id})
        for candidate in candidates
    )
    dropped = tuple(
        Elimination(candidate_id=candidate.candidate_id, reason=f"not taken: {found.reason}")
        for candidate in marked
        if not candidate.is_default
    )
    return Choice(
        decision=taken.action,
        to_step=taken.target,
        reason=found.reason,
        routing_source=source,
        candidate_id=taken.candidate_id,
        candidates=marked,
        loop_state=found.loop,
        explanation=Explanation(conditions=found.conditions, eliminated=dropped),
    )
