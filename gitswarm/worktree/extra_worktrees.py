"""Worktrees besides the run's own: of steps that are executed in parallel, and the one where a landing is tested."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository
from gitswarm.records.execution import RUN_ID
from gitswarm.untrusted import remove_tree
from gitswarm.worktree.push_block import block_pushes, is_initialised
from gitswarm.worktree.shadow import Shadow, mark_made_for, refuse_place
from gitswarm.worktree.sparse import narrow, narrowed_to

_STEP = ".fork-"
_LANDING = ".landing"


class StepWorktree(Struct, frozen=True):
    """A worktree that was made for a step. `path` may be gone, or not be there yet."""

    step: str
    path: Path
    git_dir: Path


def step_worktrees(repository: Repository, run_id: str) -> list[StepWorktree]:
    """Those of one run, also such as were only half made or half removed."""
    return [found for run, found in _of_steps(repository) if run == run_id]


def lost_step_worktrees(repository: Repository, known: Collection[str]) -> Iterator[Path]:
    """Folders of the worktrees of steps of runs that are not among the `known` ids, and what git keeps about them."""
    for run, found in _of_steps(repository):
        if run not in known:
            if found.path.is_dir():
                yield found.path
            yield found.git_dir


def add_step_worktree(repository: Repository, shadow: Shadow, step: str, commit: str, locks: Locks) -> Shadow:
    """See `_added`; pushes out of it are blocked as out of the run's."""
    with locks.repository():
        found = _added(repository, shadow, f"{_STEP}{step}", f"side/{step}", commit)
        if is_initialised(repository):
            block_pushes(repository, found.git_dir)
    return found


def open_step_worktree(repository: Repository, found: StepWorktree) -> Shadow | None:
    """One whose files are there; its HEAD stands where it began."""
    if not (found.path / ".git").exists() or not (found.git_dir / "index").exists():
        return None
    head = (found.git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    return _shadow(repository, found.path, found.git_dir, head)


def remove_step_worktree(found: StepWorktree, locks: Locks) -> None:
    """Removes the worktree with all its files; safe to repeat after a crash."""
    with locks.repository():
        _remove(found.path, found.git_dir)


def add_landing(repository: Repository, shadow: Shadow, commit: str, locks: Locks) -> Shadow:
    """See `_added`."""
    with locks.repository():
        return _added(repository, shadow, _LANDING, "landing", commit)


def remove_landing(repository: Repository, run_id: str, locks: Locks) -> None:
    """Removes the place that a landing of the run used, half made or whole; safe to repeat after a crash."""
    for known, path, git_dir in _landings(repository):
        if known == run_id:
            with locks.repository():
                _remove(path, git_dir)


def lost_landings(repository: Repository, locks: Locks) -> Iterator[Path]:
    """Places of landings whose process is gone: the folder, and what git keeps about it."""
    for run_id, path, git_dir in _landings(repository):
        if locks.owner(run_id) is None:
            if path.is_dir():
                yield path
            yield git_dir


def _added(repository: Repository, shadow: Shadow, ending: str, name: str, commit: str) -> Shadow:
    """Registers a worktree next to that of the run, with a detached HEAD; it is not filled yet. One that was left
    there is removed.

    :param shadow: the run's own worktree.
    :param name: what it is made for.
    :raises SetupFailedError: something of somebody else lies at its place.
    """
    run_id = shadow.branch.rpartition("/")[2]
    path = shadow.path.parent / f"{run_id}{ending}"
    git_dir = repository.common_dir / "worktrees" / path.name
    _remove(path, git_dir)
    refuse_place(repository, run_id, path)
    repository.git.output("worktree", "add", "--force", "--detach", "--no-checkout", "--quiet", str(path), commit)
    narrow(git_dir, narrowed_to(shadow.git_dir))
    mark_made_for(git_dir, f"refs/swarm/{run_id}/{name}")
    return _shadow(repository, path, git_dir, commit)


def _shadow(repository: Repository, path: Path, git_dir: Path, head: str) -> Shadow:
    return Shadow(path, git_dir, head, repository.git_in(git_dir, path), repository.objects)


def _remove(path: Path, git_dir: Path) -> None:
    # A pointer that somebody changed must not make us delete anything else.
    if path.name == git_dir.name and (_STEP in path.name or path.name.endswith(_LANDING)):
        remove_tree(path)
    shutil.rmtree(git_dir, ignore_errors=True)


def _of_steps(repository: Repository) -> Iterator[tuple[str, StepWorktree]]:
    for linked in repository.linked_worktrees():
        run, infix, step = linked.git_dir.name.partition(_STEP)
        if infix and step and RUN_ID.fullmatch(run):
            yield run, StepWorktree(step, linked.path, linked.git_dir)


def _landings(repository: Repository) -> Iterator[tuple[str, Path, Path]]:
    for linked in repository.linked_worktrees():
        run_id = linked.git_dir.name.removesuffix(_LANDING)
        if run_id != linked.git_dir.name and RUN_ID.fullmatch(run_id):
            yield run_id, linked.path, linked.git_dir
