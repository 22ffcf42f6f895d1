"""Refs move by compare-and-swap only, their first creation included (facts: git-storage 0.3)."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pygit2

from gitswarm.errors import GarbledError, RefMovedError, is_storage_fault
from gitswarm.git.refusal import refusal

_LOCK_WAIT_S = 10.0


class Refs:
    """Reads and moves refs. Names are full: `refs/heads/shadow/…`."""

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository
        self._moved: dict[str, str | None] = {}
        """Where we ourselves moved refs to."""

    def read(self, name: str) -> str | None:
        """Id that a direct ref holds, or None.

        :raises GarbledError: its file holds something else.
        """
        value = self._look(self._repository, name)
        if name in self._moved and value != self._moved[name]:
            # libgit2 takes a packed-refs that was replaced twice within one tick of the clock for the one it knows:
            # before we believe that somebody moved a ref of ours, somebody without a memory looks.
            value = self._look(pygit2.Repository(self._repository.path), name)
        return value

    def _look(self, repository: pygit2.Repository, name: str) -> str | None:
        try:
            target = repository.lookup_reference(name).resolve().target
        except (KeyError, pygit2.InvalidSpecError):
            return None
        except pygit2.GitError as error:
            # git itself does not delete such a ref.
            raise GarbledError(
                f"{name} is damaged: {error}",
                hint=f"rm {shlex.quote(str(self._path(name)))}   (then: git swarm list)",
            ) from error
        return str(target)

    def list(self, prefix: str) -> list[str]:
        """Names of the refs that start with `prefix`, sorted."""
        return sorted(name for name in self._repository.references if name.startswith(prefix))

    def swap(self, name: str, old: str | None, new: str | None, *, why: str) -> None:
        """Moves `name` from `old` (None: absent) to `new` (None: delete it); safe to repeat after a crash.

        :raises RefMovedError: it holds something else.
        :raises GitFailedError: it stays locked.
        """
        deadline = time.monotonic() + _LOCK_WAIT_S
        pause = 0.005
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
            if current == new:
                return
            if current != old:
                raise RefMovedError(
                    f"{name} is at {current or 'nothing'}, expected {old or 'nothing'}",
                    hint="somebody else moved it: git swarm status",
                )
            if new is None:
                transaction.remove(name)
            else:
                transaction.set_target(name, new, message=f"git-swarm: {why}")
        if new is None and self.read(name) is not None:
            # libgit2 says nothing when the lock of packed-refs keeps it from taking a packed ref out.
            raise pygit2.GitError(f"failed to lock file '{self._path('packed-refs.lock')}' for writing")

    def _path(self, name: str) -> Path:
        return Path(self._repository.path) / name
