"""The ways on, as a set that a choice is made from, and the record of the choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gitswarm.records.outcome import Result, Status
from gitswarm.records.routing import (
    Action,
    Candidate,
    Choice,
    ConditionTrace,
    Elimination,
    Explanation,
    Fork,
    Frame,
    JoinOutcome,
    LoopState,
    RoutingEvent,
    RoutingSource,
    Way,
    WhyNow,
)
from gitswarm.routing.situation import Situation


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate, and what taking it means. `stack`: the interruptions that are open then; `resume_at`: where the
    run goes on when it pauses with it; `failed`: the run has failed when it ends with it."""

    candidate: Candidate
    stack: tuple[Frame, ...] = ()
    fork: Fork | None = None
    join: JoinOutcome | None = None
    resume_at: Way | None = None
    failed: bool = False
    why_now: WhyNow | None = None
    events: tuple[RoutingEvent, ...] = ()

    @property
    def id(self) -> str:
        return self.candidate.candidate_id


@dataclass(frozen=True, slots=True)
class Ways:
    """What the flow's own graph offers after a step. `default`: the way that it takes by itself.

    `is_open`: the graph leaves something to decide, so that a navigator is asked in mode `assist` too.
    `is_undecided`: the default follows from nothing; without an answer the run is handed to a person.
    `is_obvious`: there is nothing to consider.
    """

    default: Option
    options: tuple[Option, ...]
    reason: str
    is_open: bool = False
    is_undecided: bool = False
    is_obvious: bool = False
    loop: LoopState | None = None
    conditions: tuple[ConditionTrace, ...] = ()
    dropped: tuple[Elimination, ...] = ()


def again(step: str, reason: str, stack: tuple[Frame, ...]) -> Option:
    return Option(
        Candidate(candidate_id=f"repeat:{step}", action=Action.REPEAT, target=step, reason=reason), stack=stack
    )


def pause(reason: str, stack: tuple[Frame, ...], *pointers: str, resume_at: Way | None = None) -> Option:
    candidate = Candidate(
        candidate_id="pause",
        action=Action.PAUSE,
        reason=reason,
        priority=100,
        source="kernel",
        evidence_pointers=pointers,
    )
    return Option(candidate, stack=stack, resume_at=resume_at)


def escalate(reason: str, stack: tuple[Frame, ...], *pointers: str, priority: int = 90) -> Option:
    candidate = Candidate(
        candidate_id="escalate",
        action=Action.ESCALATE,
        reason=reason,
        priority=priority,
        source="kernel",
        evidence_pointers=pointers,
    )
    return Option(candidate, stack=stack)


def end(reason: str, *, priority: int, failed: bool = False, resume_at: Way | None = None) -> Option:
    candidate = Candidate(candidate_id="terminate", action=Action.TERMINATE, reason=reason, priority=priority)
    return Option(candidate, failed=failed, resume_at=resume_at)


def advance(situation: Situation, target: str, reason: str) -> Option:
    return Option(
        Candidate(
            candidate_id=f"advance:{target}",
            action=Action.ADVANCE,
            target=target,
            reason=reason,
            priority=80 if situation.status is Status.VERIFIED else 40,
            evidence_pointers=("envelope.status",),
        ),
        stack=situation.stack,
    )


def once_more(flow: str, step: str) -> Way:
    """The way to a step that is to be executed again."""
    return Way(
        decision=Action.REPEAT,
        flow=flow,
        step=step,
        candidate_id=f"repeat:{step}",
        reason=f"{step} once more",
    )


def way_of(option: Option, situation: Situation) -> Way:
    """Where the run goes on when an interruption before this option is over.

    A step that failed or is blocked is executed again then: what kept it was what the interruption was for.
    """
    if option.resume_at is not None:
        return option.resume_at
    stopped = option.candidate.action in (Action.PAUSE, Action.ESCALATE)
    failed = option.candidate.action is Action.TERMINATE and situation.result is Result.FAILED
    if stopped or failed:
        option = again(situation.step_id, f"{situation.step_id} once more", option.stack)
    candidate = option.candidate
    return Way(
        decision=candidate.action,
        flow=candidate.flow or situation.flow.id,
        step=candidate.target,
        candidate_id=candidate.candidate_id,
        reason=candidate.reason,
        fork=option.fork,
        failed=option.failed,
    )


def option_of(way: Way, situation: Situation, stack: tuple[Frame, ...], reason: str) -> Option:
    """The opposite of `way_of`."""
    candidate = Candidate(
        candidate_id=way.candidate_id,
        action=way.decision,
        target=way.step,
        flow=None if way.flow == situation.flow.id else way.flow,
        reason=reason,
        priority=80,
    )
    return Option(candidate, stack=stack, fork=way.fork, failed=way.failed)


def take(
    taken: Option, ways: Ways, source: RoutingSource, reason: str | None = None, *, default: Option | None = None
) -> Choice:
    """The record of a choice: every candidate, and why each other one was not taken.

    :param default: what is taken when nobody answers, if that is not the graph's own way.
    """
    why = reason or ways.reason
    usual = (default or ways.default).id
    candidates = tuple(
        option.candidate.model_copy(update={"is_default": option.id == usual}) for option in ways.options
    )
    others = tuple(
        Elimination(candidate_id=option.id, reason=_why_not(option, taken, ways, why))
        for option in ways.options
        if option.id != taken.id
    )
    candidate = taken.candidate
    return Choice(
        decision=candidate.action,
        to_step=candidate.target,
        to_flow=candidate.flow,
        reason=why,
        routing_source=source,
        candidate_id=taken.id,
        candidates=candidates,
        loop_state=ways.loop,
        explanation=Explanation(conditions=ways.conditions, eliminated=(*others, *ways.dropped)),
        stack=taken.stack if candidate.target is not None or candidate.action in _WAITING else (),
        resume_at=taken.resume_at,
        why_now=taken.why_now,
        fork=taken.fork,
        join=taken.join,
        failed=taken.failed,
        events=taken.events,
    )


_WAITING = (Action.PAUSE, Action.ESCALATE)


def _why_not(option: Option, taken: Option, ways: Ways, why: str) -> str:
    trace = next((trace for trace in ways.conditions if option.id == f"branch:{trace.target}"), None)
    if trace is not None and trace.error is not None:
        return f"cannot be evaluated: {trace.error}"
    if trace is not None and trace.value is not True:
        return f"{trace.expression} is {_cel(trace.value)}"
    if option.id == ways.default.id:
        return f"the graph's own way, but {taken.id} was taken: {why}"
    return f"not taken: {why}"


def _cel(value: object) -> str:
    return {"None": "null", "False": "false"}.get(str(value), str(value))


def only(taken: Option, source: RoutingSource) -> Choice:
    """A choice without another one."""
    return take(taken, Ways(taken, (taken,), taken.candidate.reason), source)


def with_events(option: Option, *events: RoutingEvent) -> Option:
    return replace(option, events=(*option.events, *events))
