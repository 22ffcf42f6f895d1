"""Removes runs by way of a trash: refs are renamed, the worktree is moved; nothing is lost until it is purged.

Also what killed processes left in the repository, and nobody will ask for again.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.incoming import PREFIX
from gitswarm.git.locks import Locks, names_dead_process
from gitswarm.git.packing import STAGED, is_left_behind
from gitswarm.git.repository import Repository
from gitswarm.ledger.archive import TRASH, archived_runs, discarded_runs
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import live_journals
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import BRANCH_PREFIX, RUN_ID
from gitswarm.records.record import Record, timestamp
from gitswarm.runner.containing import caches_of
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.unfinished import conversations_of
from gitswarm.runner.undo.recovery import SetAsideReason, interrupted, look, retire_sides, set_aside
from gitswarm.untrusted import remove_tree
from gitswarm.worktree import snapshot
from gitswarm.worktree.extra_worktrees import lost_landings, lost_step_worktrees
from gitswarm.worktree.index_entries import NestedFinder, is_submodule
from gitswarm.worktree.shadow import PutAway, Shadow, bring_back, find_shadow, is_ours, lost_worktrees, put_away
from gitswarm.worktree.sparse import narrowed_to

_STALE_S = 3600
_FOLDERS = ("journal", "inbox", "quarantine", "requests", "logs", "locks", "caches", "sessions", "shared")


def leftovers(repository: Repository) -> Iterator[Path]:
    """Files and folders that can go. What is younger than an hour may belong to a process that just begins."""
    oldest = time.time() - _STALE_S
    known = _known_runs(repository)
    for path in (*_of_no_run(repository, known), *_temporary(repository), *_worktrees(repository, known)):
        with contextlib.suppress(FileNotFoundError):  # its process has just removed it
            if path.lstat().st_mtime < oldest:
                yield path


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
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
    yield from lost_step_worktrees(repository, known)
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
    yield from repository.objects.store.glob(f"pack/{STAGED}*")
    yield from (path for path in repository.objects.store.glob("pack/*.keep") if is_left_behind(path))
    lock = repository.common_dir / "gc.pid.lock"
    yield from (path for path in repository.common_dir.glob("gc.pid.*") if path != lock)
    if names_dead_process(lock):
        yield lock
    yield from (repository.swarm_dir / "requests").glob("*.tmp")
    yield from (repository.swarm_dir / "inbox").glob("*/.*.tmp")


class Discarded(Record):
    """`<common dir>/swarm/trash/<run>.json`: when a run was discarded, where its worktree lies now, where it was, and
    which files had been copied there. These paths are percent-encoded, as they need not be text. `paths`: the folders
    that the worktree held; (): all.
    """

    run_id: str
    discarded_at: str
    worktree: str | None
    path: str | None = None
    copied: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def away(self) -> PutAway | None:
        if self.worktree is None or self.path is None:
            return None
        copied = [_decoded(name) for name in self.copied]
        return PutAway(Path(_decoded(self.worktree)), Path(_decoded(self.path)), copied, self.paths)


def _encoded(path: Path | str) -> str:
    return quote(os.fsencode(path))


def _decoded(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(text))


def discard_run(session: Session, state: RunState, *, force: bool) -> None:
    """Safe to repeat after a crash: the branch goes last.

    :raises SwarmError: the worktree holds uncommitted work and `force` is not given.
    """
    repository, layout = session.repository, session.layout
    shadow = find_shadow(repository, layout.branch)
    if shadow is not None:
        _keep_work(session, state, shadow, force=force)
    retire_sides(session, state)
    away = _place_in_trash(repository, layout, shadow)
    record = Discarded(
        run_id=layout.run_id,
        discarded_at=timestamp(session.context.clock()),
        worktree=_encoded(away.folder) if away else None,
        path=_encoded(away.path) if away else None,
        copied=tuple(_encoded(name) for name in away.copied) if away else (),
        paths=tuple(away.paths) if away else (),
    )
    path = _record_path(repository, layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(record.to_json())
    if shadow is not None and away is not None:
        put_away(shadow, away.folder, session.locks)
    for name in own_refs(repository, layout):
        value = repository.refs.read(name)
        trash = _trash_name(layout, name)
        repository.refs.swap(trash, repository.refs.read(trash), value, why="discarded")
    for name in own_refs(repository, layout):
        repository.refs.swap(name, repository.refs.read(name), None, why="discarded")
    for folder in (
        repository.swarm_dir / "journal" / layout.run_id,
        caches_of(repository, layout.run_id),
        conversations_of(repository, layout.run_id),
    ):
        remove_tree(folder)
    session.requests.clear()


def discard_worktree(session: Session, state: RunState, *, force: bool) -> None:
    """Only the worktree goes, for good, with all that git ignores in it; `resume` makes it again.

    :raises SwarmError: as `discard_run`.
    """
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is None:
        return
    _keep_work(session, state, shadow, force=force)
    if not force:
        _refuse_unseen(shadow)
    retire_sides(session, state)
    for journal in live_journals(session.repository, session.layout):
        journal.path.unlink(missing_ok=True)
    folder = _place_in_trash(session.repository, session.layout, shadow)
    assert folder is not None  # noqa: S101 - of a worktree that is there
    put_away(shadow, folder.folder, session.locks)
    remove_tree(folder.folder)


def restore_run(repository: Repository, text: str) -> RunLayout:
    """Brings a discarded run back, with all files of its worktree.

    :raises NotFoundError: none in the trash, or several.
    :raises SwarmError: the run continued since, or something lies where its worktree was; nothing has changed.
    """
    found = [layout for layout in discarded_runs(repository) if text.removeprefix("shadow/") in layout.run_id]
    if len(found) != 1:
        known = ", ".join(layout.run_id for layout in discarded_runs(repository)) or "it is empty"
        raise NotFoundError(f"'{text}' is not one run in the trash ({known})", hint="git swarm discard --restore")
    layout = found[0]
    _refuse_living(repository, layout)
    record = _read_record(repository, layout)
    away = record.away if record is not None else None
    if away is not None:
        _refuse_occupied(repository, layout, away)
    prefix = f"{TRASH}{layout.run_id}/"
    for trash in repository.refs.list(prefix):
        name = f"refs/{trash.removeprefix(prefix)}"
        repository.refs.swap(name, repository.refs.read(name), repository.refs.read(trash), why="restored")
    if away is not None:
        bring_back(repository, layout.branch, away, Locks(repository.common_dir))
    for trash in repository.refs.list(prefix):
        repository.refs.swap(trash, repository.refs.read(trash), None, why="restored")
    _record_path(repository, layout).unlink(missing_ok=True)
    return layout


def _refuse_living(repository: Repository, layout: RunLayout) -> None:
    """A discard that was killed half-way leaves the run and its trash; the run may have continued since.

    :raises SwarmError: it has, or does so now.
    """
    here = repository.refs.read(layout.branch)
    owner = Locks(repository.common_dir).owner(layout.run_id)
    if here is not None and (owner is not None or here != repository.refs.read(_trash_name(layout, layout.branch))):
        what = "is being executed now" if owner is not None else "is here, and continued since it was discarded"
        raise SwarmError(f"{layout.run_id} {what}", hint=f"git swarm status {layout.run_id}")


def _refuse_occupied(repository: Repository, layout: RunLayout, away: PutAway) -> None:
    """
    :raises SwarmError: the files of its worktree could not come back: `gc` would remove them.
    """
    if away.folder.is_dir() and away.path.exists() and find_shadow(repository, layout.branch) is None:
        where = shlex.quote(str(away.path))
        again = f"git swarm discard --restore {layout.run_id}"
        raise SwarmError(f"{away.path} is where its worktree was", hint=f"mv {where} {where}.old && {again}")


def purge(repository: Repository, before: datetime, *, dry_run: bool) -> list[str]:
    """Removes what was discarded before a moment, and leftovers of killed processes; what it was."""
    gone: list[str] = []
    for layout in discarded_runs(repository):
        record = _read_record(repository, layout)
        if _discarded_at(repository, layout, record) > before:
            continue
        gone.append(f"{layout.run_id} from the trash")
        if not dry_run:
            _purge_run(repository, layout, record)
    for path in leftovers(repository):
        gone.append(os.path.relpath(path, repository.common_dir))
        if not dry_run:
            remove(path)
    return gone


def refuse_work(session: Session, state: RunState) -> None:
    """
    :raises SwarmError: the worktree holds work that is in no commit.
    """
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is None:
        return
    run = session.layout.run_id
    hint = f"git swarm resume {run}, or: git swarm discard {run} --force"
    nested = [name for name in NestedFinder(shadow.path).find(time.time_ns()) if not is_submodule(shadow, name)]
    ignored = snapshot.ignored(shadow, [f"{name}/" for name in nested]) if nested else set()
    own = [name for name in nested if name not in ignored]
    if own:
        raise SwarmError(f"{shadow.path} holds a repository of its own: {own[0]}", hint=hint)
    left = look(session, state, shadow)
    if left.is_dirty or left.journals:
        raise SwarmError(f"{shadow.path} holds work that is not committed", hint=hint)


def _refuse_unseen(shadow: Shadow) -> None:
    """
    :raises SwarmError: a person locked the worktree, or staged what is not in its files: that would be lost.
    """
    if (shadow.git_dir / "locked").exists():
        where = shlex.quote(str(shadow.path))
        raise SwarmError(f"{shadow.path} is locked (git worktree lock)", hint=f"git worktree unlock {where}")
    if shadow.git.run("diff-index", "--cached", "--quiet", "HEAD", "--").returncode != 0:
        where = shlex.quote(str(shadow.path))
        raise SwarmError(f"{shadow.path} has staged changes", hint=f"git -C {where} status")


def _keep_work(session: Session, state: RunState, shadow: Shadow, *, force: bool) -> None:
    if not force:
        refuse_work(session, state)
        return
    left = look(session, state, shadow)
    if not left.is_dirty and not left.journals:
        return
    reason = SetAsideReason("uncommitted work before discard", {"Swarm-Reason": "discarded"})
    if left.journals:
        reason = interrupted(left.journals)
    set_aside(session, state, shadow, left.staged, reason)


def _place_in_trash(repository: Repository, layout: RunLayout, shadow: Shadow | None) -> PutAway | None:
    """Where the worktree goes; or where an attempt that was killed has put it."""
    if shadow is not None:
        trash = shadow.path.parent / ".trash" / layout.run_id
        return PutAway(trash, shadow.path, shadow.copied, narrowed_to(shadow.git_dir))
    record = _read_record(repository, layout)
    return record.away if record is not None else None


def _purge_run(repository: Repository, layout: RunLayout, record: Discarded | None) -> None:
    for trash in repository.refs.list(f"{TRASH}{layout.run_id}/"):
        repository.refs.swap(trash, repository.refs.read(trash), None, why="purged")
    folder = record.away.folder if record is not None and record.away is not None else None
    # A corrupt record must not make us delete anything else.
    if folder is not None and (folder.parent.name, folder.name) == (".trash", layout.run_id):
        remove_tree(folder)
    _record_path(repository, layout).unlink(missing_ok=True)
    for name in ("inbox", "quarantine"):
        remove_tree(repository.swarm_dir / name / layout.run_id)


def own_refs(repository: Repository, layout: RunLayout) -> list[str]:
    """Every ref of a run; its branch last, because it is what makes it a run."""
    prefixes = (f"refs/swarm/{layout.run_id}/", f"refs/notes/swarm/{layout.run_id}/")
    names = [name for prefix in prefixes for name in repository.refs.list(prefix)]
    return [*names, layout.branch]


def _trash_name(layout: RunLayout, name: str) -> str:
    return f"{TRASH}{layout.run_id}/{name.removeprefix('refs/')}"


def _record_path(repository: Repository, layout: RunLayout) -> Path:
    return repository.swarm_dir / "trash" / f"{layout.run_id}.json"


def _read_record(repository: Repository, layout: RunLayout) -> Discarded | None:
    try:
        return Discarded.from_json(_record_path(repository, layout).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _discarded_at(repository: Repository, layout: RunLayout, record: Discarded | None) -> datetime:
    """As its record says, or as old as the record's file; one without a record has been there for ever."""
    if record is not None:
        with contextlib.suppress(ValueError):
            when = datetime.fromisoformat(record.discarded_at)
            return when if when.tzinfo else when.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(_record_path(repository, layout).stat().st_mtime, UTC)
    except FileNotFoundError:
        return datetime.fromtimestamp(0, UTC)
