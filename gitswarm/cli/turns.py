"""A decision in half a line: where it leads, unless that is simply the next step."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.cli.run_words import reason_words
from gitswarm.records.event import EventKind
from gitswarm.records.routing import Action, Decision, RoutingSource

_QUIET = frozenset({RoutingSource.FAST_PATH, RoutingSource.DETERMINISTIC})
_ON = (Action.ADVANCE, Action.TERMINATE)
_BACK = (Action.LOOP, Action.REPEAT)
OFF_THE_GRAPH = frozenset({Action.DETOUR, Action.INJECT_FLOW, Action.INJECT_NODES, Action.SKIP})
_RESIGNED = ("max_iterations_reached", "no_further_help")
_ENDINGS = {Action.PAUSE: "pause", Action.ESCALATE: "escalate"}


class Turn(Struct, frozen=True):
    """`sign`: `↺` for a way back, `→` for every other one. `who` decided, where the flow's own rules did not."""

    sign: str
    text: str
    who: str | None = None


def where_to(decision: Decision) -> str:
    """The next step, with its flow where that is another one."""
    if decision.to_step is None:
        return "a person" if decision.decision in (Action.PAUSE, Action.ESCALATE) else "the end"
    return f"{decision.to_flow}/{decision.to_step}" if decision.to_flow else decision.to_step


def turn_of(decision: Decision, *, is_behind: bool = False) -> Turn | None:
    """None for the plain way on.

    :param is_behind: the run has been at the target already, before or at the step that this is decided after.
    """
    is_back = decision.decision in _BACK or (is_behind and decision.decision in (Action.BRANCH, Action.ADVANCE))
    if _is_quiet(decision) and (_is_return(decision) or (decision.decision in _ON and not is_back)):
        return None
    passes = _passes(decision) if is_back else ""
    reason = short_reason(decision)
    who = None if decision.routing_source in _QUIET else decision.routing_source.value
    text = f"{target_text(decision)}{passes}{f' ({who})' if who else ''}"
    return Turn("↺" if is_back else "→", f"{text}: {reason}" if reason else text, who)


def short_reason(decision: Decision) -> str:
    """The reason in one line; what triggered it, where a navigator gave no other reason."""
    reason = " ".join(decision.reason.split())
    if decision.why_now is not None and reason.endswith("the navigator's choice"):
        reason = " ".join(decision.why_now.trigger.split())
    return reason_words(reason)


def gave_up(decision: Decision) -> bool:
    """Whether a loop ended though its critic was not content."""
    return decision.reason.startswith(_RESIGNED)


def _is_quiet(decision: Decision) -> bool:
    """Whether nobody asks why: the graph or an interruption that is over decided, and nothing was given up."""
    if decision.routing_source not in _QUIET or decision.join is not None or decision.failed:
        return False
    return not gave_up(decision)


def _is_return(decision: Decision) -> bool:
    """Back from an interruption: what is done then was decided before it began."""
    popped = any(event.kind is EventKind.STACK_POP for event in decision.events)
    return popped and decision.decision not in OFF_THE_GRAPH


def _passes(decision: Decision) -> str:
    state = decision.loop_state
    if state is None or decision.decision not in (Action.LOOP, Action.BRANCH):
        return ""
    return f" ({state.iteration} of {state.max_iterations})"


def target_text(decision: Decision) -> str:
    """Where a decision leads, with what kind of way that is."""
    if decision.proposal is not None and decision.to_step is None:
        return f"proposes {', '.join(node.id for node in decision.proposal.nodes)}"
    if decision.to_step is None:
        return _ENDINGS.get(decision.decision, "the end")
    return _off_the_graph(decision) or where_to(decision)


def _off_the_graph(decision: Decision) -> str | None:
    """An interruption by its name, a skip by what is left out, a fork by its branches."""
    frame = decision.stack[-1] if decision.stack else None
    kind = decision.decision
    if kind is Action.DETOUR and frame is not None:
        return f"sidequest {frame.id}"
    if kind is Action.INJECT_FLOW:
        return f"flow {decision.next_flow}"
    if kind is Action.INJECT_NODES and frame is not None:
        return f"new {', '.join(node.id for node in frame.nodes)}"
    if kind is Action.SKIP:
        return f"{where_to(decision)} without {decision.candidate_id.removeprefix('skip:')}"
    if kind is Action.FORK and decision.fork is not None:
        return f"{', '.join(decision.fork.targets)} in parallel"
    return None
