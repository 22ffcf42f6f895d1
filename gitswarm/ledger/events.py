"""Which events there may be: the payload that each kind must have, and the order they come in (seed 000)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from gitswarm.records.event import TERMINAL_KINDS, Event, EventKind, LoggedEvent

_REQUIRED: dict[EventKind, tuple[str, ...]] = {
    EventKind.RUN_CREATED: ("flows", "backend", "initiator", "stepwise"),
    EventKind.RUN_STARTED: ("mode", "routing_enabled"),
    EventKind.RUN_COMPLETED: ("status", "error", "steps_completed", "total_steps_executed"),
    EventKind.RUN_STOPPING: ("reason",),
    EventKind.RUN_STOPPED: ("reason",),
    EventKind.RUN_PAUSING: ("reason",),
    EventKind.RUN_PAUSED: ("reason",),
    EventKind.RUN_RESUMED: (),
    EventKind.STEP_START: ("role", "agents", "step_index", "engine"),
    EventKind.STEP_END: ("status", "duration_ms", "engine"),
    EventKind.STEP_ERROR: ("status", "duration_ms", "error", "engine"),
    EventKind.MESSAGE: ("role", "text"),
    EventKind.TOOL_START: ("tool", "input"),
    EventKind.TOOL_END: ("tool", "success", "output"),
    EventKind.ENGINE_RETRY: ("attempt", "of", "wait_s", "reason"),
    EventKind.USAGE: ("tokens", "cost_usd"),
    EventKind.FILE_CHANGES: ("files", "insertions", "deletions"),
    EventKind.EXTRA_RUN: ("of",),
    EventKind.ROUTE_DECISION: ("from_step", "to_step", "reason", "loop_state", "routing_source"),
    EventKind.ROUTING_OFFROAD: ("candidate_id", "from_step", "instead_of", "why_now"),
    EventKind.ROUTING_REJECTED: ("from", "candidate_id", "problem"),
    EventKind.STACK_PUSH: ("frame", "depth", "interrupted", "back_to"),
    EventKind.STACK_POP: ("frame", "depth"),
    EventKind.STACK_OVERFLOW_PREVENTED: ("candidate_id", "depth", "max_depth"),
    EventKind.FLOW_INJECTED: ("flow",),
    EventKind.NODE_INJECTED: ("flow", "step", "station"),
    EventKind.GRAPH_EXTENDED: ("proposal", "after", "nodes"),
    EventKind.EVIDENCE_TAMPERING: ("paths",),
    EventKind.REPOSITORY_QUARANTINED: ("path", "kept_as"),
    EventKind.SECRET_FOUND: ("path", "line", "kind", "kept_as"),
    EventKind.CONCERN_OPENED: ("id", "flag", "blocking", "fact", "names"),
    EventKind.CONCERN_CLOSED: ("id", "accepted"),
    EventKind.FACTS_UPDATED: ("facts",),
    EventKind.ASSUMPTION_RECORDED: ("statement", "confidence"),
    EventKind.DECISION_RECORDED: ("subject", "decision"),
    EventKind.EXTERNAL: ("source", "message"),
    EventKind.INTENT: ("key",),
}


def payload_problems(event: Event) -> list[str]:
    """What is missing in an event's payload; empty when it keeps the contract."""
    return [f"{event.kind}: '{key}' is missing" for key in _REQUIRED[event.kind] if key not in event.payload]


def read_lines(content: bytes) -> list[LoggedEvent]:
    """Events of a file; a torn or garbled line is passed over, as only the last write can be torn."""
    found: list[LoggedEvent] = []
    for line in content.splitlines():
        try:
            found.append(LoggedEvent.model_validate_json(line))
        except ValidationError:
            continue
    return found


def current(events: Iterable[LoggedEvent]) -> list[LoggedEvent]:
    """One stream for readers: ends that a resume went on from are dropped, only the last one stays."""
    kept = list(events)
    last = len(kept) - 1
    return [event for index, event in enumerate(kept) if event.kind not in TERMINAL_KINDS or index == last]


def order_problems(events: Iterable[LoggedEvent]) -> Iterator[str]:
    """Breaches of the order that seed 000 promises for a whole run."""
    stream = list(events)
    kinds = [event.kind for event in stream]
    if kinds[:1] != [EventKind.RUN_CREATED]:
        yield "run_created is not first"
    if EventKind.RUN_STARTED not in kinds:
        yield "run_started is missing"
    elif EventKind.STEP_START in kinds and kinds.index(EventKind.RUN_STARTED) > kinds.index(EventKind.STEP_START):
        yield "a step starts before run_started"
    yield from _pairing_problems(stream)
    ends = [index for index, kind in enumerate(kinds) if kind in TERMINAL_KINDS]
    if ends and ends != [len(kinds) - 1]:
        yield f"{kinds[ends[0]]} is not last"


def _pairing_problems(stream: list[LoggedEvent]) -> Iterator[str]:
    open_steps: dict[tuple[str | None, str | None, int | None], bool] = {}
    for event in stream:
        key = (event.flow_key, event.step_id, event.iteration)
        if event.kind is EventKind.STEP_START:
            if key in open_steps:
                yield f"{event.flow_key}/{event.step_id}@{event.iteration} starts twice"
            open_steps[key] = True
        elif event.kind in (EventKind.STEP_END, EventKind.STEP_ERROR):
            if not open_steps.get(key):
                yield f"{event.flow_key}/{event.step_id}@{event.iteration} ends without a start"
            open_steps[key] = False
    for (flow, step, iteration), is_open in open_steps.items():
        if is_open:
            yield f"{flow}/{step}@{iteration} starts and does not end"
