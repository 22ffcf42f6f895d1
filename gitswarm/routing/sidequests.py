"""Which sidequests the evidence calls for after a step, and which of them may be taken."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from gitswarm.records.event import Event
from gitswarm.records.execution import Result
from gitswarm.records.globs import gitignore
from gitswarm.records.routing import Candidate, ConditionTrace, Elimination, Frame, StallState, WhyNow
from gitswarm.records.text import listed
from gitswarm.routing.choices import Situation
from gitswarm.routing.conditions import evaluate
from gitswarm.routing.stack import detour, is_full, overflow
from gitswarm.specs.sidequest import (
    ConditionTrigger,
    IterationTrigger,
    PathTrigger,
    Sidequest,
    StallTrigger,
    Trigger,
)


class TriggeredSidequests(Struct, frozen=True):
    """What the triggers say: detours that may be taken, the highest priority first; what stands in the way of the
    others that fired; the conditions that hold, or that could not be evaluated; events of a stack that is full."""

    detours: tuple[Candidate, ...] = ()
    dropped: tuple[Elimination, ...] = ()
    conditions: tuple[ConditionTrace, ...] = ()
    events: tuple[Event, ...] = ()


def evaluate_triggers(situation: Situation, before: Candidate) -> TriggeredSidequests:
    """
    :param before: what would be taken without a sidequest.
    """
    detours: list[Candidate] = []
    dropped: list[Elimination] = []
    traces: list[ConditionTrace] = []
    events: list[Event] = []
    for quest in sorted(situation.rules.sidequests.values(), key=lambda quest: (-quest.priority, quest.id)):
        found = [_fires(trigger, quest, situation) for trigger in quest.triggers]
        traces += [one.trace for one in found if one.trace is not None and one.trace.error is not None]
        fired = [one for one in found if one.what]
        if not fired or (quest.match == "all" and len(fired) < len(found)):
            continue
        traces += [one.trace for one in fired if one.trace is not None]
        reason = refusal(situation, quest, before.stack)
        if reason is None:
            trigger = "; ".join(one.what for one in fired)
            why = WhyNow(trigger=trigger, relevance_to_charter=quest.title, expected_outcome=quest.steps[0].objective)
            pointers = tuple(dict.fromkeys(pointer for one in fired for pointer in one.pointers))
            detours.append(detour(situation, quest, before, why, pointers))
            continue
        dropped.append(Elimination(candidate_id=f"detour:{quest.id}", reason=reason))
        if is_full(before.stack):
            events.append(overflow(before.stack, f"detour:{quest.id}"))
    return TriggeredSidequests(tuple(detours), tuple(dropped), tuple(traces), tuple(events))


def refusal(situation: Situation, quest: Sidequest, stack: Sequence[Frame]) -> str | None:
    """Why a sidequest may not be taken now; None when it may."""
    used = situation.progress.uses.get(quest.id, 0)
    if used >= quest.max_uses_per_run:
        return f"used up: {used} of {quest.max_uses_per_run} in this run"
    under_way = next((frame.id for frame in stack if frame.kind == "sidequest"), None)
    if any(frame.kind == "sidequest" and frame.id == quest.id for frame in situation.stack) and not quest.nested:
        return "not because of its own steps"
    if under_way is not None and not quest.nested:
        return f"not inside the sidequest {under_way}"
    return f"{len(stack)} interruptions are open: no more" if is_full(stack) else None


class _Found(Struct, frozen=True):
    """What a trigger found. `what` is empty when it does not fire; `trace`: its condition, if it has one."""

    what: str = ""
    pointers: tuple[str, ...] = ()
    trace: ConditionTrace | None = None


def _fires(trigger: Trigger, quest: Sidequest, situation: Situation) -> _Found:
    if isinstance(trigger, PathTrigger):
        return _paths(trigger, situation)
    if isinstance(trigger, StallTrigger):
        return _stall(trigger, situation.progress.stall)
    if isinstance(trigger, ConditionTrigger):
        trace = evaluate(trigger.if_, f"detour:{quest.id}", situation.context)
        if trace.value is not True:
            return _Found(trace=trace)
        return _Found(trace.expression, ("explanation.conditions",), trace)
    if isinstance(trigger, IterationTrigger) and situation.progress.executions >= trigger.at_least:
        what = f"{situation.step_id} was executed {situation.progress.executions} times"
        return _Found(what, ("receipt.iteration",))
    return _Found()


def _paths(trigger: PathTrigger, situation: Situation) -> _Found:
    if situation.result is Result.FAILED or not situation.changed:
        return _Found()
    spec = gitignore(*trigger.patterns)
    hits = [path for path in situation.changed if spec.match_file(path)]
    if not hits:
        return _Found()
    return _Found(f"changed {listed(hits)}", tuple(f"evidence.diff:{path}" for path in hits[:10]))


def _stall(trigger: StallTrigger, stall: StallState | None) -> _Found:
    if stall is None or stall.passes < trigger.count or trigger.same_failure not in (None, stall.same_failure):
        return _Found()
    what = "the same failing tests" if stall.same_failure else "nothing new"
    return _Found(f"{stall.passes} passes in a row left {what}", ("explanation.stall",))


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern can never match; None when it can."""
    try:
        gitignore(pattern).match_file("a/b")
    except (ValueError, re.error) as error:
        return str(error)
    return None if pattern.strip() and not pattern.startswith("#") else "it names nothing"
