"""Worktrees beside that of a run, without a branch: for steps that are executed at the same time and write code."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository
from gitswarm.git.worktrees import LinkedWorktree
from gitswarm.records.run_id import RUN_ID
from gitswarm.worktree.push_block import block_pushes, is_initialised
from gitswarm.worktree.shadow import Shadow, mark_made_for, refuse_place

_INFIX = ".fork-"


class Side(Struct, frozen=True):
    """A worktree that was made for a step. `path` may be gone, or not be there yet."""

    step: str
    path: Path
    git_dir: Path


def side_worktrees(repository: Repository, run_id: str) -> list[Side]:
    """Those of one run, also such as were only half made or half removed."""
    return [side for run, side in _all_sides(repository) if run == run_id]


def lost_sides(repository: Repository, known: Collection[str]) -> Iterator[Path]:
    """Folders of the side worktrees of runs that are not among the `known` ids, and what git keeps about them."""
    for run, side in _all_sides(repository):
        if run not in known:
            if side.path.is_dir():
                yield side.path
            yield side.git_dir


def add_side(repository: Repository, shadow: Shadow, step: str, commit: str, locks: Locks) -> Shadow:
    """Registers a worktree beside that of the run, with a detached HEAD; it is not filled yet.

    One that was made for the same step before is removed.

    :param shadow: the run's own worktree.
    :raises SetupFailedError: something of somebody else lies at its place.
    """
    run_id = shadow.branch.rpartition("/")[2]
    path = shadow.path.parent / f"{run_id}{_INFIX}{step}"
    with locks.repository():
        _remove(Side(step, path, repository.common_dir / "worktrees" / path.name))
        refuse_place(repository, run_id, path)
        repository.git.output("worktree", "add", "--force", "--detach", "--no-checkout", "--quiet", str(path), commit)
        git_dir = repository.common_dir / "worktrees" / path.name
        mark_made_for(git_dir, f"refs/swarm/{run_id}/side/{step}")
        if is_initialised(repository):
            block_pushes(repository, git_dir)
    return Shadow(path, git_dir, commit, repository.git_in(git_dir, path), repository.objects)


def open_side(repository: Repository, side: Side) -> Shadow | None:
    """A side worktree whose files are there; its HEAD stands where it began."""
    if not (side.path / ".git").exists() or not (side.git_dir / "index").exists():
        return None
    head = (side.git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    return Shadow(side.path, side.git_dir, head, repository.git_in(side.git_dir, side.path), repository.objects)


def remove_side(side: Side, locks: Locks) -> None:
    """Removes the worktree with all its files; safe to repeat after a crash."""
    with locks.repository():
        _remove(side)


def _remove(side: Side) -> None:
    # A pointer that an agent garbled must not make us delete anything else.
    if _INFIX in side.path.name and side.path.name == side.git_dir.name:
        shutil.rmtree(side.path, ignore_errors=True)
    shutil.rmtree(side.git_dir, ignore_errors=True)


def _all_sides(repository: Repository) -> Iterator[tuple[str, Side]]:
    for linked in repository.linked_worktrees():
        side = _side(linked)
        if side is not None:
            yield side


def _side(linked: LinkedWorktree) -> tuple[str, Side] | None:
    run, infix, step = linked.git_dir.name.partition(_INFIX)
    if not infix or not step or not RUN_ID.fullmatch(run):
        return None
    return run, Side(step, linked.path, linked.git_dir)
