"""Runs of this clone that are on a hub too: a mark in a local file; hints that continue them under their lease."""

from __future__ import annotations

import re
from pathlib import Path

from gitswarm.errors import NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.execution import RUN_ID

FOLDER = "shared"
_RESUME = re.compile(rf"git swarm resume ({RUN_ID.pattern})(?! --hub)")


def mark_shared(repository: RepositoryReader, layout: RunLayout) -> None:
    """Says that the run was pushed from here, or came from there. Safe to repeat."""
    file = _mark(repository, layout.run_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def is_shared(repository: RepositoryReader, run_id: str) -> bool:
    """Whether it is on a hub that this clone still has."""
    return _mark(repository, run_id).exists() and _has_hub(repository)


def shared_runs(repository: RepositoryReader) -> list[str]:
    folder = repository.swarm_dir / FOLDER
    marks = [mark.name for mark in folder.iterdir()] if folder.is_dir() else []
    return marks if marks and _has_hub(repository) else []


def _has_hub(repository: RepositoryReader) -> bool:
    from gitswarm.git.remote import configured_hub  # noqa: PLC0415 - few runs are shared

    try:
        return bool(configured_hub(repository))
    except NotFoundError:
        return False


def with_hub(hint: str) -> str:
    """Every `git swarm resume RUN` in it with `--hub`."""
    return _RESUME.sub(r"git swarm resume \1 --hub", hint)


def onward(repository: RepositoryReader, hint: str) -> str:
    """A hint, where it resumes a shared run with `--hub`."""
    found = _RESUME.search(hint)
    return with_hub(hint) if found is not None and is_shared(repository, found[1]) else hint


def _mark(repository: RepositoryReader, run_id: str) -> Path:
    return repository.swarm_dir / FOLDER / run_id
