"""What a dead owner left running or locked."""

from __future__ import annotations

import shutil
from pathlib import Path

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.process_table import end_processes_with
from gitswarm.runner.containing import scratch_folder
from gitswarm.runner.marks import MARKER
from gitswarm.runner.session import Session
from gitswarm.worktree.shadow import find_shadow


def remove_ref_locks(repository: Repository, layout: RunLayout) -> None:
    """Those of a dead process, for who owns the run: nobody else writes its refs."""
    common = repository.common_dir
    locks = [common / f"{layout.branch}.lock"]
    for folder in (f"refs/swarm/{layout.run_id}", f"refs/notes/swarm/{layout.run_id}"):
        locks.extend((common / folder).rglob("*.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)


def end_orphans(session: Session) -> None:
    """Ends what a killed owner left running, and removes the locks that only this run writes."""
    ended = end_processes_with(MARKER, session.mark)
    if ended:
        session.around.observer.notice(f"ended {ended} processes that an earlier owner left behind")
    shutil.rmtree(scratch_folder(session), ignore_errors=True)
    remove_ref_locks(session.repository, session.layout)
    locks: list[Path] = []
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        locks.extend(shadow.git_dir / name for name in ("index.lock", "index.aligned.lock", "HEAD.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)
