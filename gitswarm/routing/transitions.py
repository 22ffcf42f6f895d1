"""What the flow's own graph says after a step: loops, branches, forks, the next step."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.records.execution import Result, Status
from gitswarm.records.routing import Action, Candidate, Elimination
from gitswarm.routing.choices import MAX_REPEATS, Situation, Transitions, advance, again, end, escalate, pause
from gitswarm.routing.conditions import evaluate
from gitswarm.routing.forks import after_branch, at_fork
from gitswarm.routing.loops import judge_microloop, jump_state, loop_state
from gitswarm.routing.stack import after_detour_step, flow_is_over, on_failure
from gitswarm.specs.flow import Branch, Fork, Microloop

_UNDECIDED = "no condition could be evaluated, and there is no default"


def graph_transitions(situation: Situation) -> Transitions:
    """The transitions that the graph knows, and the one that it takes by itself."""
    if situation.is_branch:
        return after_branch(situation)
    if situation.result is Result.FAILED:
        return _failed(situation)
    if situation.is_detour:
        return after_detour_step(situation)
    return _blocked(situation) if situation.status is Status.BLOCKED else _by_kind(situation)


def _by_kind(situation: Situation) -> Transitions:
    if situation.flow.is_closing(situation.step_id):
        return _closing(situation)
    routing = situation.flow.step(situation.step_id).routing
    if isinstance(routing, Microloop):
        return _microloop(situation, routing)
    if isinstance(routing, Branch):
        return _branch(situation, routing)
    if isinstance(routing, Fork):
        return at_fork(situation, routing)
    return _straight_on(situation)


def onward(situation: Situation, reason: str) -> Candidate:
    """The transition to the step that follows, or those; at the end of the flow, wherever that leads."""
    routing = situation.flow.step(situation.step_id).routing
    if isinstance(routing, Fork):
        return at_fork(situation, routing).default
    following = situation.flow.following(situation.step_id)
    return advance(situation, following, reason) if following else flow_is_over(situation)


def _failed(situation: Situation) -> Transitions:
    repeated, dropped = _repeating(situation, "resume retries a failed step")
    ended = end(f"{situation.step_id} failed", priority=100, failed=True)
    default = on_failure(situation) or replace(ended, stack=situation.stack)
    return Transitions(default, (default, *repeated), f"{situation.step_id} failed", dropped=dropped)


def _blocked(situation: Situation) -> Transitions:
    waiting = pause(f"{situation.step_id} is BLOCKED: waiting for your answer", situation.stack, "envelope.blockers")
    repeated, dropped = _repeating(situation, "try again unchanged")
    transitions = (
        waiting,
        escalate("hand the run to a person", situation.stack),
        *repeated,
        onward(situation, "continue regardless"),
    )
    return Transitions(waiting, transitions, waiting.reason, is_open=True, dropped=dropped)


def _repeating(situation: Situation, reason: str) -> tuple[tuple[Candidate, ...], tuple[Elimination, ...]]:
    """The step again, as long as it was not executed too often in a row; else why not."""
    in_a_row = _in_a_row(situation)
    option = again(situation.step_id, reason, situation.stack)
    if in_a_row < MAX_REPEATS:
        return (option,), ()
    return (), (Elimination(candidate_id=option.candidate_id, reason=f"executed {in_a_row} times in a row"),)


def _in_a_row(situation: Situation) -> int:
    """Executions of the step with nothing between them; of a step of no flow's graph all that the run had."""
    if situation.is_detour:
        return situation.progress.executions
    others = (at for at, executed in enumerate(reversed(situation.history)) if executed.step != situation.step_id)
    return next(others, len(situation.history))


def _straight_on(situation: Situation) -> Transitions:
    following = onward(situation, "the only next step")
    is_obvious = following.source == "graph_edge"
    if is_obvious:
        following = replace(following, source="fast_path")
    if situation.status is Status.PARTIAL:
        more, dropped = _repeating(situation, "PARTIAL: more could be done")
        options = (following, *more)
        return Transitions(following, options, following.reason, is_open=True, is_obvious=is_obvious, dropped=dropped)
    return Transitions(following, (following,), following.reason, is_obvious=is_obvious)


def _microloop(situation: Situation, routing: Microloop) -> Transitions:
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
        stack=situation.stack,
    )
    leaving = onward(situation, verdict.reason)
    if state.iteration >= state.max_iterations:
        dropped = (Elimination(candidate_id=back.candidate_id, reason=f"at its maximum of {state.max_iterations}"),)
        return Transitions(leaving, (leaving,), verdict.reason, loop=state, dropped=dropped)
    return Transitions(back if verdict.again else leaving, (back, leaving), verdict.reason, loop=state)


def _branch(situation: Situation, routing: Branch) -> Transitions:
    traces = tuple(evaluate(when.if_, when.next, situation.context) for when in routing.when)
    hit = next((when for when, trace in zip(routing.when, traces, strict=True) if trace.value is True), None)
    fallback = routing.default or situation.flow.following(situation.step_id)
    target = hit.next if hit else fallback
    limit = hit.max_iterations if hit and hit.max_iterations else routing.max_iterations
    transitions = {when.next: _branch_to(situation, when.next, f"if {when.if_}") for when in reversed(routing.when)}
    if hit is not None:
        transitions[hit.next] = _branch_to(situation, hit.next, f"if {hit.if_}")
    if fallback is not None and fallback not in transitions:
        transitions[fallback] = _branch_to(situation, fallback, "no condition holds")
    maxima = {name: _spent(situation, routing, name, limit if name == target else None) for name in transitions}
    spent = {name: most for name, most in maxima.items() if most is not None}
    order = dict.fromkeys([*(when.next for when in routing.when), *transitions])
    leaving = onward(situation, f"at its maximum of {limit}")
    options = (*(transitions[name] for name in order if name not in spent), leaving)
    undecided = hit is None and routing.default is None and any(trace.error for trace in traces)
    if undecided:
        options = (*options, escalate(_UNDECIDED, situation.stack, "explanation.conditions"))
    state = jump_state(situation.flow, situation.step_id, target, limit, situation.history) if target else None
    reason = _UNDECIDED if undecided else hit.if_ if hit else "no condition holds: default"
    if target in spent:
        reason = f"max_iterations_reached:{limit}: on, with the concern recorded"
    return Transitions(
        leaving if target is None or target in spent else transitions[target],
        options,
        reason,
        is_open=undecided,
        is_undecided=undecided,
        loop=state or loop_state(situation.flow, situation.step_id, situation.history),
        conditions=traces,
        dropped=tuple(
            Elimination(candidate_id=f"branch:{name}", reason=f"at its maximum of {most}")
            for name, most in spent.items()
        ),
    )


def _closing(situation: Situation) -> Transitions:
    """The transitions behind the tests of the finished code: red ones send it back once, as a test step of the flow
    would."""
    leaving = onward(situation, "the end of the flow")
    target = situation.flow.fixed_at(situation.step_id)
    evidence = situation.context.get("evidence")
    tests = evidence.get("tests") if isinstance(evidence, dict) else None
    is_red = isinstance(tests, dict) and tests.get("passed") is False
    executed = sum(1 for each in situation.history if each.step == situation.step_id)
    if not is_red or target is None or executed > 1:
        return Transitions(leaving, (leaving,), leaving.reason)
    back = _branch_to(situation, target, "the tests of the finished code failed")
    return Transitions(back, (back, leaving), back.reason)


def _spent(situation: Situation, routing: Branch, target: str, limit: int | None) -> int | None:
    """The maximum of a jump back that has been made so often; None for one that is still possible.

    :param limit: the maximum, None: the highest that a condition gives this target.
    """
    named = [when.max_iterations or routing.max_iterations for when in routing.when if when.next == target]
    most = limit or max(named, default=routing.max_iterations)
    state = jump_state(situation.flow, situation.step_id, target, most, situation.history)
    return most if state is not None and state.iteration >= most else None


def _branch_to(situation: Situation, target: str, reason: str) -> Candidate:
    return Candidate(
        candidate_id=f"branch:{target}",
        action=Action.BRANCH,
        target=target,
        reason=reason,
        priority=70,
        evidence_pointers=("evidence.tests",),
        stack=situation.stack,
    )
