"""Processes of a run: their marks, what people ask of the one that executes it, and what a dead one left."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import field

from gitswarm.errors import SwarmError
from gitswarm.git.owners import Owner, clone_id, live_owners
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.process_table import ancestors
from gitswarm.records.execution import RunStatus
from gitswarm.records.record import Record

MARKER = "SWARM_STEP_OF"
"""Environment variable of every process that works for a run; its value is `process_mark`."""

SIBLING_MARKER = "SWARM_SIBLING"
"""The same for every process of a step that is executed in parallel, so that only those can be ended."""


def process_mark(repository: Repository, layout: RunLayout) -> str:
    """`<run>:<repository>`: another clone on this machine may have the same run."""
    return f"{layout.run_id}:{clone_id(repository.common_dir)}"


def refuse_agent(env: Mapping[str, str], command: str, common_dir: Path) -> None:
    """Looks at the environment, and at who started this process: a step's detached child with an empty environment is
    still below the process that executes the run.

    :param command: as it is typed behind `git swarm`.
    :param common_dir: of the repository.
    :raises SwarmError: this process belongs to a step.
    """
    run = env.get(MARKER, "").partition(":")[0] or _executed_by_ancestor(common_dir)
    if run is not None:
        raise SwarmError(
            f"an agent cannot {command}: this process belongs to a step of {run or 'a run'}",
            hint=f"git swarm {command}   (a person, in a shell of their own)",
        )


def _executed_by_ancestor(common_dir: Path) -> str | None:
    """The run that an ancestor of this process executes."""
    owners = {owner.pid: run for run, owner in live_owners(common_dir)}
    return next((owners[pid] for pid in ancestors() if pid in owners), None) if owners else None


def remove_ref_locks(repository: Repository, layout: RunLayout) -> None:
    """Removes the locks that a dead process left on the run's refs, for who owns the run: nobody else writes them."""
    common = repository.common_dir
    locks = [common / f"{layout.branch}.lock"]
    for folder in (f"refs/swarm/{layout.run_id}", f"refs/notes/swarm/{layout.run_id}"):
        locks.extend((common / folder).rglob("*.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)


RequestKind = Literal["stop", "pause"]

STATUS: dict[RequestKind, RunStatus] = {"stop": RunStatus.STOPPED, "pause": RunStatus.PAUSED}


class Request(Record):
    """What somebody asks of the process that owns the run, left in a file for it."""

    kind: RequestKind = field(name="wish")
    reason: str


class Requests:
    """The box of one run; at most one request lies in it, the newest."""

    def __init__(self, repository: Repository, layout: RunLayout) -> None:
        self._path: Path = repository.swarm_dir / "requests" / f"{layout.run_id}.json"

    def put(self, request: Request) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staged = self._path.with_suffix(f".{os.urandom(4).hex()}.tmp")  # two may ask at once
        staged.write_bytes(request.to_json())
        staged.replace(self._path)

    def read(self) -> Request | None:
        try:
            return Request.from_json(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def clear(self, before_ns: int | None = None) -> None:
        """
        :param before_ns: what lies in it since then stays.
        """
        with suppress(FileNotFoundError):
            if before_ns is None or self._path.stat().st_mtime_ns < before_ns:
                self._path.unlink()


def interrupt(owner: Owner) -> bool:
    """Interrupts the step that a live owner executes; False when it lives on another machine."""
    if owner.host != socket.gethostname() or owner.pid <= 0:
        return False
    try:
        os.kill(owner.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True
