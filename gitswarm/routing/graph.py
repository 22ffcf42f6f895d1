"""What the flow's own graph says after a step: loops, branches, forks, the straight way on."""

from __future__ import annotations

from dataclasses import replace

from gitswarm.records.outcome import Result, Status
from gitswarm.records.routing import Action, Candidate, LoopState
from gitswarm.routing.conditions import evaluate
from gitswarm.routing.forks import after_branch, at_fork
from gitswarm.routing.loops import judge_microloop, loop_state, way_state
from gitswarm.routing.options import Option, Ways, advance, again, end, escalate, pause
from gitswarm.routing.situation import Situation
from gitswarm.routing.stack import after_aside, flow_is_over, on_failure
from gitswarm.specs.flow import Branch, Fork, Microloop


def graph_ways(situation: Situation) -> Ways:
    """The ways that the graph knows, and the one that it takes by itself."""
    if situation.is_branch:
        return after_branch(situation)
    if situation.result is Result.FAILED:
        return _failed(situation)
    if situation.is_aside:
        return after_aside(situation)
    return _blocked(situation) if situation.status is Status.BLOCKED else _by_kind(situation)


def _by_kind(situation: Situation) -> Ways:
    routing = situation.flow.step(situation.step_id).routing
    if isinstance(routing, Microloop):
        return _microloop(situation, routing)
    if isinstance(routing, Branch):
        return _branch(situation, routing)
    if isinstance(routing, Fork):
        return at_fork(situation, routing)
    return _straight_on(situation)


def onward(situation: Situation, reason: str) -> Option:
    """To the step that follows; at the end of the flow, wherever that leads."""
    following = situation.flow.following(situation.step_id)
    return advance(situation, following, reason) if following else flow_is_over(situation)


def _failed(situation: Situation) -> Ways:
    repeated = again(situation.step_id, "resume retries a failed step", situation.stack)
    default = on_failure(situation) or end(f"{situation.step_id} failed", priority=100, failed=True)
    return Ways(default, (default, repeated), f"{situation.step_id} failed")


def _blocked(situation: Situation) -> Ways:
    waiting = pause(f"{situation.step_id} is BLOCKED: a person has to answer", situation.stack, "envelope.blockers")
    ways = (
        waiting,
        escalate("hand the run to a person", situation.stack),
        again(situation.step_id, "try once more as it is", situation.stack),
        onward(situation, "go on regardless"),
    )
    return Ways(waiting, ways, waiting.candidate.reason, is_open=True)


def _straight_on(situation: Situation) -> Ways:
    way = onward(situation, "the only way on")
    way = _with_source(way)
    if situation.status is Status.PARTIAL:
        more = again(situation.step_id, "PARTIAL: more could be done", situation.stack)
        return Ways(way, (way, more), way.candidate.reason, is_open=True, is_obvious=True)
    return Ways(way, (way,), way.candidate.reason, is_obvious=True)


def _with_source(option: Option) -> Option:
    if option.candidate.source != "graph_edge":
        return option
    return replace(option, candidate=option.candidate.model_copy(update={"source": "fast_path"}))


def _microloop(situation: Situation, routing: Microloop) -> Ways:
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
    back = Option(
        Candidate(
            candidate_id=f"loop:{routing.loop_target}:iter_{state.iteration + 1}",
            action=Action.LOOP,
            target=routing.loop_target,
            reason=verdict.reason,
            priority=90,
            evidence_pointers=("envelope.status", "envelope.concerns"),
        ),
        stack=situation.stack,
    )
    leaving = onward(situation, verdict.reason)
    return Ways(back if verdict.again else leaving, (back, leaving), verdict.reason, loop=state)


def _branch(situation: Situation, routing: Branch) -> Ways:
    traces = tuple(evaluate(when.if_, when.next, situation.context) for when in routing.when)
    hit, when = next((pair for pair in zip(traces, routing.when, strict=True) if pair[0].value is True), (None, None))
    fallback = routing.default or situation.flow.following(situation.step_id)
    ways = {when.next: _branch_to(situation, when.next, f"if {when.if_}") for when in reversed(routing.when)}
    if hit is not None:
        ways[hit.target] = _branch_to(situation, hit.target, f"if {hit.expression}")
    if fallback is not None and fallback not in ways:
        ways[fallback] = _branch_to(situation, fallback, "no condition holds")
    limit = when.max_iterations if when and when.max_iterations else routing.max_iterations
    leaving = onward(situation, f"at its maximum of {limit}")
    order = dict.fromkeys([*(when.next for when in routing.when), *ways])
    options = (*(ways[name] for name in order), leaving)
    target = hit.target if hit else fallback
    flow, step_id, history = situation.flow, situation.step_id, situation.history
    state = way_state(flow, step_id, target, limit, history) if target else None
    reason = hit.expression if hit else "no condition holds: default"
    taken = ways[target] if target is not None else leaving
    if state is not None and state.iteration >= state.max_iterations:
        reason = f"max_iterations_reached:{limit}: on, with the concern recorded"
        taken = leaving
    undecided = hit is None and routing.default is None and any(trace.error for trace in traces)
    if undecided:
        reason = "no condition could be decided, and there is no default"
        options = (*options, escalate(reason, situation.stack, "explanation.conditions"))
    loop: LoopState | None = state or loop_state(flow, step_id, history)
    return Ways(taken, options, reason, is_open=undecided, is_undecided=undecided, loop=loop, conditions=traces)


def _branch_to(situation: Situation, target: str, reason: str) -> Option:
    candidate = Candidate(
        candidate_id=f"branch:{target}",
        action=Action.BRANCH,
        target=target,
        reason=reason,
        priority=70,
        evidence_pointers=("evidence.tests",),
    )
    return Option(candidate, stack=situation.stack)
