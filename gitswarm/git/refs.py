"""Refs move by compare-and-swap only, their first creation included (facts: git-storage 0.3)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pygit2

from gitswarm.errors import GitFailedError, RefMovedError

_LOCK_WAIT_S = 10.0


class Refs:
    """Reads and moves refs. Names are full: `refs/heads/shadow/…`."""

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository

    def read(self, name: str) -> str | None:
        """Id that a direct ref holds, or None."""
        try:
            target = self._repository.lookup_reference(name).resolve().target
        except (KeyError, pygit2.InvalidSpecError):
            return None
        return str(target)

    def list(self, prefix: str) -> list[str]:
        """Names of the refs that start with `prefix`, sorted."""
        return sorted(name for name in self._repository.references if name.startswith(prefix))

    def swap(self, name: str, old: str | None, new: str | None, *, why: str) -> None:
        """Moves `name` from `old` (None: absent) to `new` (None: delete it); safe to repeat after a crash.

        :raises RefMovedError: it holds something else.
        :raises GitFailedError: it stays locked.
        """
        with self._locked(name) as transaction:
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

    @contextmanager
    def _locked(self, name: str) -> Iterator[pygit2.transaction.ReferenceTransaction]:
        """A ref transaction that holds the lock of `name`; commits when the block ends well."""
        deadline = time.monotonic() + _LOCK_WAIT_S
        pause = 0.005
        while True:
            transaction = pygit2.transaction.ReferenceTransaction(self._repository)
            try:
                transaction.lock_ref(name)
            except (OSError, pygit2.GitError, KeyError, ValueError) as error:
                if time.monotonic() > deadline or _hopeless(error):
                    raise GitFailedError(
                        f"{name} stays locked: {error}",
                        hint="is another git command hanging? git swarm status",
                    ) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.2)
                continue
            break
        with transaction:
            yield transaction


def _hopeless(error: Exception) -> bool:
    """Waiting does not help against a store that we may not write to."""
    return any(sign in str(error) for sign in ("ermission denied", "Read-only", "No space left"))
