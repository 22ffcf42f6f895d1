"""The order of events that seed 000 promises for a whole run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitswarm.records.event import TERMINAL_KINDS, EventKind, LoggedEvent


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
