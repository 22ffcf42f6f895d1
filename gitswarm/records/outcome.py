from __future__ import annotations

from enum import StrEnum


class Result(StrEnum):
    """What became of an execution: did the engine do its work?"""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Status(StrEnum):
    """What the handoff claims about the work."""

    VERIFIED = "VERIFIED"
    UNVERIFIED = "UNVERIFIED"
    PARTIAL = "PARTIAL"
    BLOCKED = "BLOCKED"


class RunStatus(StrEnum):
    """State of a run. `interrupted`: not ended, and no live process owns it."""

    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
