"""The names that runs and executions go by (ids, files, trailers, the project's commands), and how they end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypedDict

from msgspec import Struct

RUN_ID = re.compile(r"run-\d{8}-\d{6}-[0-9a-f]{6}")

BRANCH_PREFIX = "shadow/"

FORK_OF = "fork of "
"""How the initiator of a fork begins, before the id of the run that it shares steps with."""

REPLAY_OF = "replay of "
"""How the initiator of a replay begins, before the id of the run that is replayed."""

SHORT = 6
"""Letters that name a run at least."""

_TICKS = 4096  # per second


def new_run_id(now: datetime, entropy: bytes, newest: str | None = None) -> str:
    """`run-YYYYMMDD-HHMMSS-xxxxxx` in UTC. The first three x are 1/4096 s, so that ids sort by creation; the
    others come from `entropy` (2 bytes).

    :param newest: the newest id that there is. A clock that was set back does not go below it.
    """
    ticks = _ticks(now.astimezone(UTC))
    if newest is not None:
        ticks = max(ticks, _ticks(created_at(newest)) + 1)
    moment = _EPOCH + timedelta(seconds=ticks // _TICKS)
    chance = int.from_bytes(entropy[:2]) % _TICKS
    return f"run-{moment:%Y%m%d-%H%M%S}-{ticks % _TICKS:03x}{chance:03x}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ticks(moment: datetime) -> int:
    seconds = (moment.replace(microsecond=0) - _EPOCH) // timedelta(seconds=1)
    return seconds * _TICKS + moment.microsecond * _TICKS // 1_000_000


def created_at(run_id: str) -> datetime:
    """The moment that an id names; the epoch for one that names no day of the calendar."""
    try:
        second = datetime.fromisoformat(f"{run_id[4:12]}T{run_id[13:19]}").replace(tzinfo=UTC)
    except ValueError:
        return _EPOCH
    # Rounded up: the tick that it is turned into again is the same.
    return second + timedelta(microseconds=-(-int(run_id[20:23], 16) * 1_000_000 // _TICKS))


def shortest(run_id: str, others: Iterable[str]) -> str:
    """The end of an id that no other has: its last part, with more of it in front where that is needed."""
    ends = [other for other in others if other.endswith(run_id[-SHORT:]) and other != run_id]
    for length in (SHORT, len("hhmmss-xxxxxx")):
        if not any(other.endswith(run_id[-length:]) for other in ends):
            return run_id[-length:]
    return run_id


RUNS_FOLDER = ".swarm/runs"


class RecordKeys(TypedDict):
    """The identity of an execution, by the keys of records."""

    run_id: str
    flow_key: str
    step_id: str
    agent_key: str
    iteration: int


class Execution(Struct, frozen=True):
    """One execution of a step. `iteration` counts from 1. Paths are relative to the worktree."""

    run_id: str
    flow: str
    step: str
    iteration: int
    agent: str

    @classmethod
    def of_trailers(cls, run_id: str, trailers: Mapping[str, str]) -> Execution:
        """
        :raises KeyError: a trailer is missing.
        :raises ValueError: the iteration is not a number.
        """
        iteration = int(trailers["Swarm-Iteration"])
        return cls(run_id, trailers["Swarm-Flow"], trailers["Swarm-Step"], iteration, trailers["Swarm-Agent"])

    @property
    def trailers(self) -> dict[str, str]:
        return {
            "Swarm-Run": self.run_id,
            "Swarm-Flow": self.flow,
            "Swarm-Step": self.step,
            "Swarm-Iteration": str(self.iteration),
            "Swarm-Agent": self.agent,
        }

    @property
    def keys(self) -> RecordKeys:
        return {
            "run_id": self.run_id,
            "flow_key": self.flow,
            "step_id": self.step,
            "agent_key": self.agent,
            "iteration": self.iteration,
        }

    @property
    def name(self) -> str:
        """`flow/step`, without the iteration."""
        return f"{self.flow}/{self.step}"

    @property
    def folder(self) -> str:
        return f"{RUNS_FOLDER}/{self.run_id}/{self.flow}"

    @property
    def receipt(self) -> str:
        return f"{self.folder}/receipts/{self.step}-{self.agent}.json"

    @property
    def envelope(self) -> str:
        return f"{self.folder}/handoff/{self.step}.json"

    @property
    def events_folder(self) -> str:
        return f"{self.folder}/events"

    @property
    def events(self) -> str:
        return f"{self.events_folder}/{self.step}@{self.iteration}.jsonl"

    @property
    def evidence(self) -> str:
        return f"{self.folder}/evidence/{self.step}.json"

    @property
    def base_tests(self) -> str:
        return f"{self.folder}/base/{self.step}.json"

    def transcript(self, engine: str) -> str:
        return f"{self.folder}/{self.transcript_in_flow(engine)}"

    def transcript_in_flow(self, engine: str) -> str:
        """Relative to `<flow>/`, as receipts name it; the engine's name without `-step`, as in the seeds."""
        return f"llm/{self.step}-{self.agent}-{engine.removesuffix('-step')}.jsonl"


class Result(StrEnum):
    """The result of an execution: did the engine do its work?"""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Status(StrEnum):
    """What the handoff claims about the work; the best first."""

    VERIFIED = "VERIFIED"
    UNVERIFIED = "UNVERIFIED"
    PARTIAL = "PARTIAL"
    BLOCKED = "BLOCKED"


def worse(one: Status, other: Status) -> Status:
    return max(one, other, key=list(Status).index)


UNKNOWN_TIME = "unknown"
"""Of a usage limit that does not say when it resets."""


def reset_words(resets_at: str) -> str:
    """`resets at …`, for a person.

    :param resets_at: ISO 8601 in UTC, or `UNKNOWN_TIME`.
    """
    if resets_at == UNKNOWN_TIME:
        return "does not say when it resets"
    return f"resets at {resets_at[:16].replace('T', ' ')} UTC"


class RunStatus(StrEnum):
    """State of a run. `interrupted`: not ended, and no live process owns it. `unproven`: it reached the end of its
    way, and a blocking concern is open."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    UNPROVEN = "unproven"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


OVER = frozenset({RunStatus.SUCCEEDED, RunStatus.UNPROVEN, RunStatus.FAILED, RunStatus.STOPPED})
"""A run in another state waits for somebody, or is executed."""


TEST = "test"
"""Runs the project's tests."""

OTHER_COMMANDS = ("lint", "smoke")
"""Are no tests."""
