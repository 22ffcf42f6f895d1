"""Locks: one per run for its owner's life, one per repository for worktrees, and git's own gc lock."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec.structs import asdict

from gitswarm.errors import RunHeldError, SwarmError
from gitswarm.git.owners import (
    Owner,
    is_alive,
    lock_file,
    locks_folder,
    owner_file,
    owner_of,
    read_owner,
    starting_file,
    this_host,
)
from gitswarm.git.repository import SHADOW_BRANCH
from gitswarm.process_table import program_of

_REPO_LOCK_WAIT_S = 120
_PROBE_WAIT_S = 0.3
_CHILD_WAIT_S = 10.0
_STAGED_GC = "gc.pid."
_GC_WAIT_S = 300.0
_GC_POLL_S = 0.001  # as long as one gc takes to follow another in a tight loop
_STALE_LOCK_S = 10.0
_CREATION_S = 60.0


class Locks:
    """The locks of one repository, below `<common dir>/swarm/locks`."""

    def __init__(self, common_dir: Path) -> None:
        self._common_dir = common_dir
        self._folder = locks_folder(common_dir)

    @contextmanager
    def own_run(self, run_id: str, started: str) -> Iterator[None]:
        """Owns a run; the kernel gives the lock back when the process dies, however it dies.

        :raises RunHeldError: a live process owns it.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._acquire(run_id)
        # filelock truncates its file on every attempt, a failed one too: the owner is written beside it.
        named = owner_file(self._folder, run_id)
        try:
            owner = Owner(os.getpid(), this_host(), started)
            named.write_text(json.dumps(asdict(owner)), encoding="utf-8")
            starting_file(self._folder, run_id).unlink(missing_ok=True)
            with self._holding_gc(named):
                yield
        finally:
            lock.release()

    def owned_since_ns(self, run_id: str) -> int:
        """When the owner of a run took it, by the clock of its files."""
        return owner_file(self._folder, run_id).stat().st_mtime_ns

    def _acquire(self, run_id: str) -> FileLock:
        lock = FileLock(lock_file(self._folder, run_id))
        try:
            # Whoever asks for the owner holds the lock for an instant: that is not an owner.
            lock.acquire(timeout=_PROBE_WAIT_S, poll_interval=0.02)
        except Timeout as error:
            owner = read_owner(owner_file(self._folder, run_id))
            if owner is None or is_alive(owner):
                raise self._held(run_id) from error
            # A process that a killed owner had just started has the lock too, until it has become another program.
            try:
                lock.acquire(timeout=_CHILD_WAIT_S, poll_interval=0.02)
            except Timeout:
                raise self._held(run_id) from error
        return lock

    def owner(self, run_id: str) -> Owner | None:
        """Who owns a run right now; None when nobody alive does."""
        return owner_of(self._common_dir, run_id)

    @contextmanager
    def repository(self) -> Iterator[None]:
        """Guards `git worktree add|remove|prune` and files that runs share; never held across a step."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._folder / "repository.lock", timeout=_REPO_LOCK_WAIT_S, poll_interval=0.01):
                yield
        except Timeout as error:
            raise SwarmError(
                f"another git-swarm process holds the repository lock for over {_REPO_LOCK_WAIT_S} s",
                hint="git swarm list",
            ) from error

    def _held(self, run_id: str) -> RunHeldError:
        owner = read_owner(owner_file(self._folder, run_id))
        who = f"process {owner.pid} on {owner.host} since {owner.started}" if owner else "another process"
        return RunHeldError(f"{run_id} is executed by {who}", hint=f"git swarm status {run_id}")

    @contextmanager
    def _holding_gc(self, named: Path) -> Iterator[None]:
        """Keeps a foreign `git gc --prune=now` waiting, in git's own way: `gc.pid` names a live process.

        Several runs share the file: whoever leaves hands it to another live owner.
        """
        try:
            self._await_gc()
            yield
        finally:
            with self.repository():
                # In one go: nobody may hand gc to an owner that has just done this.
                named.unlink(missing_ok=True)
                self._hand_gc_on()

    def _await_gc(self) -> None:
        """Takes part in holding gc; one that runs already would delete what we write before a ref reaches it.

        :raises SwarmError: it does not come to an end.
        """
        deadline = time.monotonic() + _GC_WAIT_S
        while True:
            with self.repository():
                holder = self.hold_gc()
            if holder is None:
                return
            if time.monotonic() > deadline:
                raise SwarmError(
                    f"git gc has been running for over {_GC_WAIT_S:.0f} s (process {holder})",
                    hint=f"kill {holder}   (or wait for it)",
                )
            time.sleep(_GC_POLL_S)

    def hold_gc(self) -> int | None:
        """Takes `gc.pid` if no live process has it, else only keeps it young (git ignores it after 12 h).

        Returns the pid of a git that has it and may be at work. One on another machine cannot be asked.
        """
        path = self._common_dir / "gc.pid"
        holder = _gc_holder(path)
        owners = {owner.pid for file in self._folder.glob("*.owner") if (owner := read_owner(file)) is not None}
        if holder == os.getpid():
            os.utime(path)
            return None
        if holder is not None and (holder in owners or holder < 0):
            return None
        program = program_of(holder) if holder is not None else None
        if program is not None:
            # Numbers are given out again: what is no git is at no gc, but git itself respects its number.
            return holder if program.startswith("git") else None
        return None if self._write_gc(path, os.getpid(), instead_of=holder) else _gc_holder(path) or 0

    def _hand_gc_on(self) -> None:
        path = self._common_dir / "gc.pid"
        if _gc_holder(path) != os.getpid():
            return
        for file in self._folder.glob("*.owner"):
            owner = read_owner(file)
            if owner and owner.pid != os.getpid() and is_alive(owner):
                self._write_gc(path, owner.pid, instead_of=os.getpid())
                return
        path.unlink(missing_ok=True)

    def _write_gc(self, path: Path, pid: int, *, instead_of: int | None) -> bool:
        """Makes `pid` the holder under git's own lock for that file; False: somebody takes it at this very moment."""
        self._sweep()
        # Among our own files: a process that is killed here leaves nothing in the user's part of the repository.
        staged = self._folder / f"{_STAGED_GC}{os.getpid()}"
        staged.write_text(f"{pid} {this_host()}\n", encoding="utf-8")
        lock = path.with_name("gc.pid.lock")
        try:
            os.link(staged, lock)  # with its content from the first moment on: it shows whether its owner lives
        except FileExistsError:
            staged.unlink()
            # While a dead process's lock lies there no gc can begin: nothing is to be held.
            return _is_abandoned(lock)
        except OSError:  # a file system without hard links
            staged.replace(path)
            return True
        staged.unlink()
        if _gc_holder(path) != instead_of:
            lock.unlink()  # somebody came between the caller's look and the lock
            return False
        lock.replace(path)
        return True

    def _sweep(self) -> None:
        """Removes what killed processes had written on their way to `gc.pid`, or to the branch of a run."""
        for staged in self._folder.glob(f"{_STAGED_GC}*"):
            pid = staged.name.removeprefix(_STAGED_GC)
            if pid.isdecimal() and not is_alive(Owner(int(pid), this_host(), "")):
                staged.unlink(missing_ok=True)
        for file in self._folder.glob("*.owner"):
            owner = read_owner(file)
            if owner is not None and not is_alive(owner):
                self._sweep_branch_lock(file)

    def _sweep_branch_lock(self, named: Path) -> None:
        """Removes the lock of a branch that was never made: nobody will `resume` that run."""
        branch = self._common_dir / SHADOW_BRANCH / named.stem
        lock = branch.with_name(f"{branch.name}.lock")
        with suppress(FileNotFoundError):
            # A lock that is much younger is none of that owner.
            if not branch.exists() and lock.stat().st_mtime - named.stat().st_mtime < _CREATION_S:
                lock.unlink()


def _is_abandoned(lock: Path) -> bool:
    """Whether the owner of this lock is gone. One that names a dead process is removed, for the next attempt."""
    if names_dead_process(lock):
        lock.unlink(missing_ok=True)
        return False
    try:
        return lock.stat().st_size == 0 and time.time() - lock.stat().st_mtime > _STALE_LOCK_S
    except OSError:
        return False


def names_dead_process(lock: Path) -> bool:
    """Whether git-swarm took this lock of `gc.pid`, and was killed."""
    try:
        content = lock.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return bool(content) and _holder_named(content) is None


def _gc_holder(path: Path) -> int | None:
    """Pid of the live process (on this host) that holds gc; a foreign host's counts as live: -1."""
    try:
        return _holder_named(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _holder_named(content: str) -> int | None:
    pid, _blank, host = content.strip().partition(" ")
    if host != this_host():
        return -1 if host else None
    return int(pid) if pid.isdecimal() and is_alive(Owner(int(pid), host, "")) else None
