"""Events of an execution, and the lines of its transcript."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import parsed_json
from gitswarm.records.record import Record


class EventKind(StrEnum):
    """Event kinds of seeds 000 and 001, and those that the design adds."""

    RUN_CREATED = "run_created"
    RUN_STARTED = "run_started"
    RUN_COMPLETED = "run_completed"
    RUN_STOPPING = "run_stopping"
    RUN_STOPPED = "run_stopped"
    RUN_PAUSING = "run_pausing"
    RUN_PAUSED = "run_paused"
    RUN_RESUMED = "run_resumed"
    STEP_START = "step_start"
    STEP_END = "step_end"
    STEP_ERROR = "step_error"
    MESSAGE = "message"
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    ENGINE_RETRY = "engine_retry"
    USAGE = "usage"
    FILE_CHANGES = "file_changes"
    EXTRA_RUN = "extra_run"
    ROUTE_DECISION = "route_decision"
    ROUTING_OFFROAD = "routing_offroad"
    ROUTING_REJECTED = "routing_rejected"
    STACK_PUSH = "stack_push"
    STACK_POP = "stack_pop"
    STACK_OVERFLOW_PREVENTED = "stack_overflow_prevented"
    FLOW_INJECTED = "flow_injected"
    NODE_INJECTED = "node_injected"
    GRAPH_EXTENDED = "graph_extended"
    EVIDENCE_TAMPERING = "evidence_tampering"
    REPOSITORY_QUARANTINED = "repository_quarantined"
    SECRET_FOUND = "secret_found"  # noqa: S105 - a name
    CONCERN_OPENED = "concern_opened"
    CONCERN_CLOSED = "concern_closed"
    FACTS_UPDATED = "facts_updated"
    ASSUMPTION_RECORDED = "assumption_recorded"
    DECISION_RECORDED = "decision_recorded"
    EXTERNAL = "external"
    INTENT = "intent"


TERMINAL_KINDS = frozenset({EventKind.RUN_COMPLETED, EventKind.RUN_STOPPED, EventKind.RUN_PAUSED})
"""A run's event stream ends with one of these."""

END_KINDS: Mapping[str, EventKind] = {
    RunStatus.SUCCEEDED: EventKind.RUN_COMPLETED,
    RunStatus.UNPROVEN: EventKind.RUN_COMPLETED,
    RunStatus.FAILED: EventKind.RUN_COMPLETED,
    RunStatus.PAUSED: EventKind.RUN_PAUSED,
    RunStatus.STOPPED: EventKind.RUN_STOPPED,
}
"""By how a run ended."""

ANNOUNCED = {EventKind.RUN_STOPPING: EventKind.RUN_STOPPED, EventKind.RUN_PAUSING: EventKind.RUN_PAUSED}
"""What somebody asked for, and the end that it leads to."""

SINCE_FORMAT_2: Mapping[EventKind, frozenset[str]] = {
    EventKind.ROUTING_OFFROAD: frozenset(
        {
            *("golden_path_step", "actual_step", "route_type", "rationale", "return_address"),
            *("confidence", "evaluated_conditions", "tie_breaker_used"),
        }
    ),
    EventKind.STACK_PUSH: frozenset({"paused_flow", "paused_step", "injected_flow", "current_depth"}),
}
"""Keys of seed 001 that runs of format 1 do not have in their payloads."""


class Event(Record, kw_only=False):
    """Something that happened: the ledger adds when and where. A decision stores its events in this form."""

    kind: EventKind
    payload: Mapping[str, JsonValue]

    def in_format_1(self) -> Event:
        """The event as a run of format 1 has it."""
        later = SINCE_FORMAT_2.get(self.kind, frozenset())
        return Event(self.kind, {name: value for name, value in self.payload.items() if name not in later})


class LoggedEvent(Record):
    """One line of an events file or a journal.

    `seq` counts from 1 within one file and is never reused. `origin` is the inbox file that an outside
    writer's event came from.
    """

    run_id: str
    seq: int
    ts: str
    kind: EventKind
    flow_key: str | None = None
    step_id: str | None = None
    iteration: int | None = None
    agent_key: str | None = None
    origin: str | None = None
    payload: dict[str, JsonValue]

    def to_line(self) -> bytes:
        return (
            msgspec.json.encode({name: value for name, value in self.to_plain().items() if value is not None}) + b"\n"
        )


def numbered(run_id: str, ts: str, events: Iterable[Event], flow_key: str | None = None) -> list[LoggedEvent]:
    """Events of the run as a whole, all at one moment, as an events file has them."""
    return [
        LoggedEvent(run_id=run_id, seq=seq, ts=ts, kind=each.kind, flow_key=flow_key, payload=dict(each.payload))
        for seq, each in enumerate(events, start=1)
    ]


class Message(Record):
    timestamp: str
    role: Literal["system", "user", "assistant"]
    content: str


class ToolUse(Record):
    timestamp: str
    type: Literal["tool_use"] = "tool_use"
    tool: str
    input: dict[str, JsonValue]


class ToolResult(Record):
    timestamp: str
    type: Literal["tool_result"] = "tool_result"
    tool: str
    success: bool
    output: str


TranscriptLine = Message | ToolUse | ToolResult


def to_jsonl(lines: tuple[TranscriptLine, ...]) -> bytes:
    return b"".join(json.dumps(line.to_plain(), ensure_ascii=False).encode() + b"\n" for line in lines)


def transcript_line(content: bytes | str) -> TranscriptLine:
    """
    :raises MistakesError: it is none.
    """
    found = parsed_json(content)
    kind = found.get("type") if isinstance(found, dict) else None
    if kind == "tool_use":
        return ToolUse.from_plain(found)
    return ToolResult.from_plain(found) if kind == "tool_result" else Message.from_plain(found)
