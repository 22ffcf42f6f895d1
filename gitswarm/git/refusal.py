"""Says in a person's words why git or libgit2 did not do what it was told."""

from __future__ import annotations

import re
import time
from pathlib import Path

from gitswarm.errors import GitFailedError, SwarmError, is_storage_fault, storage_error

_LOCK = re.compile(r"'([^'\n]+\.lock)'")


def refusal(what: str, said: str) -> SwarmError:
    """The error for a call that failed: a lock that lies there, storage that takes nothing, or git's own words.

    :param what: what was to be done, the beginning of a sentence.
    :param said: what git or libgit2 said about it.
    """
    found = _LOCK.search(said)
    lock = Path(found[1]) if found else None
    if lock is not None and lock.exists():
        # Only git knows whose lock a shared one is: we never delete it.
        return GitFailedError(
            f"{what}: {lock} is in the way, {_age(lock)} old",
            hint=f"rm {lock}   (if no git command is running)",
        )
    if is_storage_fault(said):
        return storage_error(f"{what}: {said}")
    return GitFailedError(f"{what}: {said}", hint="git swarm resume   (when that is fixed)")


def _age(path: Path) -> str:
    seconds = max(0, int(time.time() - path.lstat().st_mtime))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
