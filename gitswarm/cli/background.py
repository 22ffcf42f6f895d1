"""Executes a run in a process of its own that outlives the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gitswarm.cli.here import now
from gitswarm.git.owners import announce
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.base import timestamp


def execute_in_background(repository: Repository, layout: RunLayout, until: str | None) -> Path:
    """Starts the process; the file that its output goes to."""
    log = repository.swarm_dir / "logs" / f"{layout.run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P: the folder that we stand in may hold modules with our names.
    command = [sys.executable, "-P", "-m", "gitswarm", "resume", layout.run_id]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, *(["--until", until] if until else [])],
            cwd=repository.checkout or repository.common_dir,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    announce(repository.common_dir, layout.run_id, process.pid, timestamp(now()))
    return log
