from __future__ import annotations

from typing import Literal

from gitswarm.records.acceptance import AcProgress
from gitswarm.records.base import Record
from gitswarm.records.envelope import FileChange


class ChangedFile(FileChange):
    """A file of the step's own change. Line counts are None for binary files."""

    old_path: str | None = None
    insertions: int | None = None
    deletions: int | None = None


class DiffSummary(Record):
    """What git says that the step changed, `.swarm/runs` left out."""

    files: tuple[ChangedFile, ...] = ()
    insertions: int = 0
    deletions: int = 0

    @classmethod
    def of(cls, files: tuple[ChangedFile, ...]) -> DiffSummary:
        return cls(
            files=files,
            insertions=sum(file.insertions or 0 for file in files),
            deletions=sum(file.deletions or 0 for file in files),
        )


class CheckOutcome(Record):
    """Outcome of a command step. `passed` is None when nothing was judged."""

    passed: bool | None = None
    exit_code: int | None = None
    reason: Literal["no_tests"] | None = None
    command: str | None = None


class Evidence(Record):
    """`<flow>/evidence/<step>.json`: what can be proven about one execution.

    `ac` counts the acceptance criteria, None without a matrix; `artifact_problems` says where an artifact does not
    keep its schema.
    """

    diff: DiffSummary
    tests: CheckOutcome
    tampered: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    ac: AcProgress | None = None
    artifact_problems: tuple[str, ...] = ()
