"""Executes a run in a process of its own that outlives the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitswarm.cli.here import now
from gitswarm.git.owners import announce
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.base import timestamp


def execute_in_background(repository: Repository, layout: RunLayout, until: str | None) -> Path:
    """Starts the process; the file that its output goes to."""
    log = log_of(repository, layout.run_id)
    words = ["resume", layout.run_id, *(["--until", until] if until else [])]
    process = in_background(words, repository.checkout or repository.common_dir, os.environ, log)
    announce(repository.common_dir, layout.run_id, process.pid, timestamp(now()))
    return log


def log_of(repository: RepositoryReader, run: str) -> Path:
    """What processes in the background say about a run."""
    log = repository.swarm_dir / "logs" / f"{run}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def in_background(words: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A command of git-swarm, in a process that outlives this one."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command_line(words),
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def command_line(words: Sequence[str]) -> list[str]:
    """What starts a command of this git-swarm."""
    # -P: the folder that we stand in may hold modules with our names.
    return [sys.executable, "-P", "-m", "gitswarm", *words]
