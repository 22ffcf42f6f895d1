"""The write-ahead log of one executing step: one JSON line per event, one write each, never truncated."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import JsonValue

from gitswarm.errors import storage_error
from gitswarm.ledger.events import payload_problems, read_lines
from gitswarm.ledger.journal_files import JournalFile, journal_files
from gitswarm.records.base import Clock, timestamp
from gitswarm.records.event import Event, LoggedEvent
from gitswarm.records.execution import Execution
from gitswarm.records.secrets import Scrubber

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync

Listener = Callable[[LoggedEvent], None]


class Journal:
    """Numbers, stamps and stores the events of one execution without their secrets, and tells them to a listener."""

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

    def append(self, event: Event, *, origin: str | None = None) -> None:
        """On disk when it returns (fdatasync): survives kill -9 and, after it, power loss.

        :raises ValueError: the payload breaks the contract; a bug of the caller.
        """
        self._add(event, origin)
        self._flush()

    def append_all(self, events: Sequence[Event]) -> None:
        """As `append`, one line and one write each, but one flush for what happens at the same moment."""
        for event in events:
            self._add(event, None)
        if events:
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
