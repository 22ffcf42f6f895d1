"""The write-ahead log of one executing step: one JSON line per event, one write each, never truncated; which events
there may be, and their order; and the inbox of outside writers, one file per event, moved in by the run's owner."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import storage_error
from gitswarm.ledger.finding import JournalFile, journal_files
from gitswarm.records.event import TERMINAL_KINDS, Event, EventKind, LoggedEvent
from gitswarm.records.execution import Execution
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.record import Clock, Record, pretty_json, timestamp
from gitswarm.records.safety import Scrubber

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


def payload_problems(event: Event | LoggedEvent) -> list[str]:
    """What is missing in an event's payload; empty when it keeps the contract."""
    return [f"{event.kind}: '{key}' is missing" for key in _REQUIRED[event.kind] if key not in event.payload]


def read_lines(content: bytes) -> list[LoggedEvent]:
    """Events of a file; a truncated or corrupt line is skipped, as only the last write can be truncated."""
    found: list[LoggedEvent] = []
    for line in content.splitlines():
        try:
            found.append(LoggedEvent.from_json(line))
        except MistakesError:
            continue
    return found


def current(events: Iterable[LoggedEvent]) -> list[LoggedEvent]:
    """One stream for readers: ends that a resume continued from are dropped, only the last one stays."""
    kept = list(events)
    last = len(kept) - 1
    return [event for index, event in enumerate(kept) if event.kind not in TERMINAL_KINDS or index == last]


_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync

Listener = Callable[[LoggedEvent], None]


class Journal:
    """Numbers, stamps and stores the events of one execution without their secrets, and hands them to a listener."""

    def __init__(
        self, folder: Path, execution: Execution, clock: Clock, listener: Listener, scrubber: Scrubber
    ) -> None:
        self._execution = execution
        self._clock = clock
        self._listener = listener
        self._scrubber = scrubber
        self._events: list[LoggedEvent] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{execution.flow}.{execution.step}@{execution.iteration}.jsonl"
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @property
    def events(self) -> tuple[LoggedEvent, ...]:
        return tuple(self._events)

    @property
    def content(self) -> bytes:
        """What the events file in the commit holds."""
        return b"".join(event.to_line() for event in self._events)

    def append(self, event: Event) -> None:
        """Appends an event, which is on disk when this returns (fdatasync): it survives kill -9 and, after it, power
        loss.

        :raises ValueError: the payload breaks the contract; a bug of the caller.
        """
        self.append_all((event,))

    def append_all(self, events: Iterable[Event | Received]) -> None:
        """As `append`, one line and one write each, but one flush for what happens at the same moment."""
        known = len(self._events)
        for event in events:
            self._add(*((event, None) if isinstance(event, Event) else (event.event, event.origin)))
        if len(self._events) > known:
            self._flush()

    def _add(self, event: Event, origin: str | None) -> None:
        problems = payload_problems(event)
        if problems:
            raise ValueError("; ".join(problems))
        logged = LoggedEvent(
            **self._execution.keys,
            seq=len(self._events) + 1,
            ts=timestamp(self._clock()),
            kind=event.kind,
            origin=origin,
            payload=self._scrubbed(dict(event.payload)),
        )
        self._write(logged.to_line())
        self._events.append(logged)
        self._listener(logged)

    def _scrubbed(self, payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
        clean = self._scrubber.scrub_json(payload)
        return clean if isinstance(clean, dict) else payload

    def _write(self, line: bytes) -> None:
        try:
            while line:  # a disk that fills up takes a part first
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise storage_error(f"{self.path}: {error.strerror}") from error

    def _flush(self) -> None:
        try:
            _fdatasync(self._file)
        except OSError as error:
            raise storage_error(f"{self.path}: {error.strerror}") from error

    def delete(self) -> None:
        """The step is in git: the journal has done its duty."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class OpenJournal(JournalFile, frozen=True):
    def read(self) -> list[LoggedEvent]:
        try:
            return read_lines(self.path.read_bytes())
        except FileNotFoundError:
            return []


def open_journals(folder: Path) -> list[OpenJournal]:
    return [OpenJournal(found.path, found.flow, found.step, found.iteration) for found in journal_files(folder)]


class InboxEvent(Record):
    """What an outside writer may say (seed 002). `flow_key`, `step_id`, `agent_key`: what it is about. `kind` is the
    writer's own word: whatever it says, in the run it is an event of kind `external`."""

    source: str
    message: str
    kind: str | None = None
    flow_key: str | None = None
    step_id: str | None = None
    agent_key: str | None = None
    payload: dict[str, JsonValue] | None = None

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        """The event without the fields that are not set."""
        return {name: value for name, value in super().to_plain(exclude).items() if value is not None}


class Received(Struct, frozen=True):
    origin: str
    event: Event


class Inbox:
    def __init__(self, swarm_dir: Path, run_id: str) -> None:
        self._folder = swarm_dir / "inbox" / run_id
        self._rejected = swarm_dir / "quarantine" / run_id

    def put(self, event: InboxEvent, name: str) -> None:
        """Hands an event in. `name` orders it among the others and must be unique."""
        self._folder.mkdir(parents=True, exist_ok=True)
        staged = self._folder / f".{name}.tmp"
        staged.write_bytes(pretty_json(event.to_plain()))
        staged.replace(self._folder / f"{name}.json")

    def waiting(self) -> list[Received]:
        """Everything that lies there, in the order of the names. What is not an event goes to quarantine."""
        found: list[Received] = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            try:
                waiting = InboxEvent.from_json(path.read_bytes())
            except (MistakesError, UnicodeDecodeError, OSError):
                self._reject(path)
                continue
            event = Event(EventKind.EXTERNAL, waiting.to_plain())
            if payload_problems(event):
                self._reject(path)
                continue
            found.append(Received(path.name, event))
        return found

    def delete(self, origins: list[str]) -> None:
        for origin in origins:
            (self._folder / origin).unlink(missing_ok=True)

    def _reject(self, path: Path) -> None:
        self._rejected.mkdir(parents=True, exist_ok=True)
        target = self._rejected / path.name
        number = 1
        while target.exists() or target.is_symlink():
            number += 1
            target = self._rejected / f"{path.stem}.{number}{path.suffix}"
        path.rename(target)
