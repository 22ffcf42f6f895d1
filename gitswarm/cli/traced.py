"""A run as Chrome trace events: a bar for each execution and each tool call, a mark for each decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pydantic import JsonValue

from gitswarm.cli.live_events import place
from gitswarm.records.event import EventKind, LoggedEvent

Traced = dict[str, JsonValue]

_BEGINS = {EventKind.STEP_START, EventKind.TOOL_START}
_ENDS = {
    EventKind.STEP_END: EventKind.STEP_START,
    EventKind.STEP_ERROR: EventKind.STEP_START,
    EventKind.TOOL_END: EventKind.TOOL_START,
}


def trace_events(events: Iterable[LoggedEvent]) -> list[Traced]:
    """Each flow is a process and each step a thread of it. What has not ended is left out."""
    begun: dict[tuple[str, EventKind], list[LoggedEvent]] = {}
    rows: dict[tuple[str, str], Traced] = {}
    found: list[Traced] = []
    for event in events:
        name = place(event.flow_key, event.step_id, event.iteration)
        where = _row(rows, event.flow_key or "run", event.step_id or "run")
        if event.kind in _BEGINS:
            begun.setdefault((name, event.kind), []).append(event)
        elif event.kind in _ENDS:
            start = begun.get((name, _ENDS[event.kind]), [])
            if start:
                found.append({**where, **_bar(start.pop(), event, name)})
        elif event.kind is EventKind.ROUTE_DECISION:
            title = f"{event.payload.get('decision')} {event.payload.get('to_step') or ''}".strip()
            found.append({**where, "ph": "i", "s": "g", "name": title, "ts": _microseconds(event), "cat": "decision"})
    return [*_names(rows), *found]


def _row(rows: dict[tuple[str, str], Traced], flow: str, step: str) -> Traced:
    """Where a step is drawn: the format wants numbers."""
    flows = list(dict.fromkeys([*(known for known, _step in rows), flow]))
    return rows.setdefault((flow, step), {"pid": flows.index(flow) + 1, "tid": len(rows) + 1})


def _names(rows: dict[tuple[str, str], Traced]) -> Iterator[Traced]:
    for (flow, step), where in rows.items():
        yield {**where, "ph": "M", "name": "process_name", "args": {"name": flow}}
        yield {**where, "ph": "M", "name": "thread_name", "args": {"name": step}}


def _bar(start: LoggedEvent, end: LoggedEvent, name: str) -> Traced:
    is_call = start.kind is EventKind.TOOL_START
    begin = _microseconds(start)
    return {
        "ph": "X",
        "name": str(start.payload.get("tool")) if is_call else name,
        "cat": "tool" if is_call else "step",
        "ts": begin,
        "dur": max(_microseconds(end) - begin, 0),
        "args": dict(start.payload if is_call else end.payload),
    }


def _microseconds(event: LoggedEvent) -> int:
    return int(datetime.fromisoformat(event.ts).timestamp() * 1_000_000)
