"""Events of outside writers: one file each, moved in by the run's owner, deleted once they are in a commit."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from pydantic import JsonValue, ValidationError

from gitswarm.ledger.events import payload_problems
from gitswarm.records.base import Record, pretty_json
from gitswarm.records.event import Event, EventKind


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

    def to_plain(self) -> dict[str, JsonValue]:
        """What is not said is absent."""
        plain: dict[str, JsonValue] = self.model_dump(mode="json", exclude_none=True)
        return plain


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
                said = InboxEvent.from_json(path.read_bytes())
            except (ValidationError, UnicodeDecodeError, OSError):
                self._reject(path)
                continue
            event = Event(EventKind.EXTERNAL, said.to_plain())
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
