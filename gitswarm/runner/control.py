"""What people ask of a run that executes: stop or pause, at the next boundary or now."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Literal

from gitswarm.git.owners import Owner
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.base import Record
from gitswarm.records.outcome import RunStatus

Wish = Literal["stop", "pause"]

STATUS: dict[Wish, RunStatus] = {"stop": RunStatus.STOPPED, "pause": RunStatus.PAUSED}


class Request(Record):
    """A wish, left in a file for the process that owns the run."""

    wish: Wish
    reason: str


class Requests:
    """The box of one run; at most one request lies in it, the newest."""

    def __init__(self, repository: Repository, layout: RunLayout) -> None:
        self._path: Path = repository.swarm_dir / "requests" / f"{layout.run_id}.json"

    def put(self, request: Request) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        staged = self._path.with_suffix(".tmp")
        staged.write_bytes(request.to_json())
        staged.replace(self._path)

    def read(self) -> Request | None:
        try:
            return Request.from_json(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


def interrupt(owner: Owner) -> bool:
    """Interrupts the step that a live owner executes; False when it lives on another machine."""
    if owner.host != socket.gethostname() or owner.pid <= 0:
        return False
    try:
        os.kill(owner.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True
