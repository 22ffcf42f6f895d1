"""Refs move by compare-and-swap only, their first creation included (facts: git-storage 0.3)."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path, PurePosixPath
from sys import intern  # as in `objects`

from gitswarm.errors import RefMovedError, is_storage_fault
from gitswarm.git.libgit2 import pygit2
from gitswarm.git.packing import Packing
from gitswarm.git.process import Git, refusal
from gitswarm.git.ref_files import RefReader, damaged_ref

_LOCK_WAIT_S = 10.0
_ABANDONED_LOCK_S = 5.0


class Refs(RefReader):
    """Reads and moves refs. Names are full: `refs/heads/shadow/…`."""

    def __init__(self, repository: pygit2.Repository, packing: Packing, git: Git) -> None:
        """
        :param packing: has what refs are to name; it is in the store before one does.
        """
        self._repository = repository
        self._packing = packing
        self._git = git
        self._moved: dict[str, str | None] = {}
        """Where we ourselves moved refs to."""

    def read(self, name: str) -> str | None:
        value = self._value_of(self._repository, name)
        if name in self._moved and value != self._moved[name]:
            # libgit2 takes a packed-refs that was replaced twice within one tick of the clock for the one it knows:
            # before we believe that somebody moved a ref of ours, somebody without a memory looks.
            value = self._value_of(pygit2.Repository(self._repository.path), name)
        return value

    def _value_of(self, repository: pygit2.Repository, name: str) -> str | None:
        try:
            target = repository.lookup_reference(intern(name)).resolve().target
        except (KeyError, pygit2.InvalidSpecError):
            return None
        except pygit2.GitError as error:
            raise damaged_ref(name, Path(repository.path), str(error)) from error
        return str(target)

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self._repository.references if name.startswith(prefix))

    def swap(self, name: str, old: str | None, new: str | None, *, why: str) -> None:
        """Moves `name` from `old` (None: absent) to `new` (None: delete it); safe to repeat after a crash.

        :raises RefMovedError: it holds something else.
        :raises GitFailedError: it stays locked.
        """
        deadline = time.monotonic() + _LOCK_WAIT_S
        pause = 0.005
        self._packing.flush()
        while True:
            try:
                self._swap_once(name, old, new, why)
            except (OSError, pygit2.GitError, KeyError, ValueError) as error:
                if time.monotonic() > deadline or is_storage_fault(str(error)):
                    raise refusal(f"cannot move {name}", str(error)) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.2)
            else:
                self._moved[name] = new
                return

    def _swap_once(self, name: str, old: str | None, new: str | None, why: str) -> None:
        """The lock of the ref is held from the comparison to the move."""
        transaction = pygit2.transaction.ReferenceTransaction(self._repository)
        transaction.lock_ref(name)
        with transaction:
            current = self.read(name)
            if current not in (old, new):
                raise RefMovedError(
                    f"{name} is at {current or 'nothing'}, expected {old or 'nothing'}",
                    hint="another process moved it: git swarm status",
                )
            if new is not None and current != new:
                transaction.set_target(name, new, message=f"git-swarm: {why}")
            if new is None and not self._may_be_packed(name):
                self._path(name).unlink(missing_ok=True)
        if new is None:
            if self._may_be_packed(name):
                self._remove_packed(name, current)
            self._remove_empty_folders(name)

    def _may_be_packed(self, name: str) -> bool:
        """Whether packed-refs has the ref, or a `git pack-refs` is at work that may have read it already."""
        lock = self._path("packed-refs.lock")
        try:
            if abs(time.time() - lock.stat().st_mtime) < _ABANDONED_LOCK_S:
                return True
        except FileNotFoundError:
            pass
        # After the look at the lock: what was written meanwhile stands in the file now.
        try:
            return f" {name}\n".encode() in self._path("packed-refs").read_bytes()
        except FileNotFoundError:
            return False

    def _remove_packed(self, name: str, value: str | None) -> None:
        """Deletes a ref from packed-refs, under git's lock of that file.

        libgit2 would write all of packed-refs as it was before it had the lock: refs that git packed in between,
        the user's too, would go back to an older value (libgit2 issue 1534).

        :raises GitError: not yet; somebody holds the lock.
        """
        if value is None:
            raise pygit2.GitError(f"failed to lock file '{self._path('packed-refs.lock')}' for writing")
        done = self._git.run("update-ref", "--no-deref", "-d", name, value)
        if done.returncode != 0:
            raise pygit2.GitError(done.stderr.decode(errors="replace").strip())

    def _remove_empty_folders(self, name: str) -> None:
        """Removes the folders that a deleted ref leaves behind, as git does; never `refs/heads` and its like."""
        with suppress(OSError):
            for folder in PurePosixPath(name).parents[:-3]:
                self._path(str(folder)).rmdir()

    def _path(self, name: str) -> Path:
        return Path(self._repository.path) / name
