"""What killed processes left in the repository, and nobody will ask for again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from gitswarm.git.incoming import PREFIX
from gitswarm.git.locks import Locks, names_dead_process
from gitswarm.git.repository import Repository
from gitswarm.ledger.archive import archived_runs
from gitswarm.ledger.trash import TRASH
from gitswarm.records.run_id import BRANCH_PREFIX, RUN_ID
from gitswarm.worktree.land import lost_landings
from gitswarm.worktree.shadow import is_ours, lost_worktrees
from gitswarm.worktree.side import lost_sides

_STALE_S = 3600
_FOLDERS = ("journal", "inbox", "quarantine", "requests", "logs", "locks", "caches", "sessions")


def leftovers(repository: Repository) -> Iterator[Path]:
    """Files and folders that can go. What is younger than an hour may belong to a process that just begins."""
    oldest = time.time() - _STALE_S
    known = _known_runs(repository)
    for path in (*_of_no_run(repository, known), *_temporary(repository), *_worktrees(repository, known)):
        if path.lstat().st_mtime < oldest:
            yield path


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _known_runs(repository: Repository) -> set[str]:
    """Ids of the runs that have a ref of any kind, in the trash too, or are archived."""
    archived = {layout.run_id for layout in archived_runs(repository)}
    prefixes = (f"refs/heads/{BRANCH_PREFIX}", TRASH, "refs/swarm/", "refs/notes/swarm/")
    return archived | {
        name.removeprefix(prefix).partition("/")[0] for prefix in prefixes for name in repository.refs.list(prefix)
    }


def _of_no_run(repository: Repository, known: set[str]) -> Iterator[Path]:
    """Local files that are named after a run which does not exist and which nobody owns."""
    locks = Locks(repository.common_dir)
    for folder in _FOLDERS:
        for path in sorted((repository.swarm_dir / folder).glob("run-*")):
            found = RUN_ID.match(path.name)
            if found and found[0] not in known and locks.owner(found[0]) is None:
                yield path


def _worktrees(repository: Repository, known: set[str]) -> Iterator[Path]:
    yield from lost_worktrees(repository, known)
    yield from lost_sides(repository, known)
    yield from lost_landings(repository, Locks(repository.common_dir))
    yield from _put_away_for_good(repository)


def _put_away_for_good(repository: Repository) -> Iterator[Path]:
    """Files of worktrees that were moved aside to be deleted; those of discarded runs have a record."""
    main = repository.main_folder
    folders = {main.parent / f"{main.name.removesuffix('.git')}.swarm"}
    folders |= {linked.path.parent for linked in repository.linked_worktrees() if is_ours(linked)}
    for path in sorted(path for folder in folders for path in (folder / ".trash").glob("run-*")):
        if RUN_ID.fullmatch(path.name) and not (repository.swarm_dir / "trash" / f"{path.name}.json").exists():
            yield path


def _temporary(repository: Repository) -> Iterator[Path]:
    """Half-written files: of libgit2, which `git prune` does not know, and our own before they get their name."""
    yield from (repository.common_dir / "objects").rglob("tmp_object_git2_*")
    yield from repository.objects.store.glob(f"{PREFIX}*")
    lock = repository.common_dir / "gc.pid.lock"
    yield from (path for path in repository.common_dir.glob("gc.pid.*") if path != lock)
    if names_dead_process(lock):
        yield lock
    yield from (repository.swarm_dir / "requests").glob("*.tmp")
    yield from (repository.swarm_dir / "inbox").glob("*/.*.tmp")
