"""One commit of a run with all that is needed to judge it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gitswarm.git.sealed import SealedCommit, TreeChange
from gitswarm.ledger.finding import events_path
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind
from gitswarm.ledger.verify.finding import Check, Mismatch
from gitswarm.records.execution import RUNS_FOLDER, Execution


class Seal(Struct, frozen=True):
    """What `Swarm-Prev-Notes` says of the parent's notes: blob ids, None for `-`; `routing` is that blob."""

    events_id: str | None
    routing_id: str | None
    routing: bytes | None


class Link(Struct, frozen=True):
    """A commit of the run `layout`, of kind `kind`. `execution`: of a step.

    `changes` are against the first parent; `papers` the files in RUN_BASE that it wrote or has to have, path →
    content, but for the `unreadable`. `own_events`, `parent_events`: blob ids of the events files in its tree and in
    that of its parent, if that is of the same run. `beside`: it is not on the branch, but the commit of a step that
    was executed beside others.
    """

    layout: RunLayout
    commit: SealedCommit
    message: CommitMessage
    kind: Kind
    execution: Execution | None
    changes: tuple[TreeChange, ...]
    papers: Mapping[str, bytes]
    unreadable: frozenset[str]
    seal: Seal | None
    own_events: str | None
    parent_events: str | None
    beside: bool

    @property
    def id(self) -> str:
        return self.commit.id

    @property
    def said(self) -> Mapping[str, str]:
        return self.message.trailers

    @property
    def parent(self) -> str | None:
        return self.commit.parents[0] if self.commit.parents else None

    @property
    def is_failed(self) -> bool:
        return self.said.get("Swarm-Result") == "failed"

    @property
    def replays(self) -> str | None:
        """The commit beside the branch that this one brought onto it."""
        return self.said.get("Swarm-Fork-Commit")

    @property
    def events(self) -> str:
        return events_path(self.layout, self.said)

    @property
    def name(self) -> str:
        return link_name(self.said)

    def finding(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return Mismatch(commit=self.id, step=self.name, check=check, path=path, message=message)

    def warning(self, check: Check, message: str, path: str | None = None) -> Mismatch:
        return self.finding(check, message, path).model_copy(update={"severity": "warning"})


def link_name(said: Mapping[str, str]) -> str:
    """`flow/step@n`, `run`, `end@n`."""
    iteration = said.get("Swarm-Iteration", "?")
    if said.get("Swarm-Kind") == Kind.STEP:
        return f"{said.get('Swarm-Flow', '?')}/{said.get('Swarm-Step', '?')}@{iteration}"
    return f"end@{iteration}" if said.get("Swarm-Kind") == Kind.END else "run"


def in_runs(path: str) -> bool:
    return path == RUNS_FOLDER or path.startswith(f"{RUNS_FOLDER}/")


def shown(path: str) -> str:
    """A path as JSON can hold it."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
