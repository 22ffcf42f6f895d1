from __future__ import annotations

from enum import StrEnum


class Result(StrEnum):
    """What became of an execution: did the engine do its work?"""

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
    """State of a run. `interrupted`: not ended, and no live process owns it. `unproven`: it came to the end of its
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
