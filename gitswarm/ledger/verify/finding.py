"""What `verify` answers."""

from __future__ import annotations

from typing import Literal

from gitswarm.records.base import Record

Check = Literal["objects", "chain", "schemas", "trailers", "events", "numbers", "notes", "paths", "forks", "approval"]
CHECKS: tuple[Check, ...] = (
    "objects",
    "chain",
    "schemas",
    "trailers",
    "events",
    "numbers",
    "notes",
    "paths",
    "forks",
    "approval",
)


class Mismatch(Record):
    """Something that is not as git-swarm makes it. `step`: `flow/step@n`, `run`, `end@n`; None: no commit of the run.

    A `warning` is about what cannot be looked at here, or can be made anew: nothing contradicts the run.
    """

    commit: str | None = None
    step: str | None = None
    check: Check
    path: str | None = None
    message: str
    severity: Literal["error", "warning"] = "error"


class Report(Record):
    """`verify --json`. `trusted`: the commit that was relied on; `commits`: how many were looked through, those
    beside the branch too; `checks`: how often each check was made."""

    run_id: str
    tip: str
    trusted: str | None
    commits: int
    findings: tuple[Mismatch, ...]
    checks: dict[Check, int]

    @property
    def is_sound(self) -> bool:
        return all(finding.severity == "warning" for finding in self.findings)
