"""Who owns a run right now."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

_STARTS_WITHIN_S = 60.0
"""A process that was started longer ago is another one, which got its number."""


class Owner(Struct, frozen=True):
    """The process that owns a run. `started` tells a reused pid from the real one."""

    pid: int
    host: str
    started: str


def read_owner(path: Path) -> Owner | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Owner(int(fields["pid"]), str(fields["host"]), str(fields["started"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def this_host() -> str:
    """The name of this machine as `socket.gethostname` says, which is dear to import."""
    return os.uname().nodename


def clone_id(common_dir: Path) -> str:
    """Tells apart the repositories of one machine; ids of runs are the same in all that have them."""
    import hashlib  # noqa: PLC0415 - 2 ms of OpenSSL

    return hashlib.sha256(os.fsencode(common_dir)).hexdigest()[:8]


def locks_folder(common_dir: Path) -> Path:
    return common_dir / "swarm" / "locks"


def lock_file(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.lock"


def owner_file(folder: Path, run_id: str) -> Path:
    """Whoever holds the lock is named beside it: the lock's own file is emptied by every attempt."""
    return folder / f"{run_id}.owner"


def starting_file(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.starting"


def announce(common_dir: Path, run_id: str, pid: int, started: str) -> None:
    """Says that a process was started which will own the run in a moment."""
    content = json.dumps(asdict(Owner(pid, this_host(), started)))
    starting_file(locks_folder(common_dir), run_id).write_text(content, encoding="utf-8")


def starting_of(common_dir: Path, run_id: str) -> Owner | None:
    """The process that was started to own a run, and does not yet."""
    file = starting_file(locks_folder(common_dir), run_id)
    try:
        is_fresh = time.time() - file.stat().st_mtime < _STARTS_WITHIN_S
    except OSError:
        return None
    owner = read_owner(file) if is_fresh else None
    return owner if owner is not None and is_alive(owner) else None


def owner_of(common_dir: Path, run_id: str) -> Owner | None:
    """Who owns a run right now; None when nobody alive does."""
    folder = locks_folder(common_dir)
    file = owner_file(folder, run_id)
    try:
        lock = os.open(lock_file(folder, run_id), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:  # we may only read here: the owner's own word has to do
        owner = read_owner(file)
        return owner if owner is not None and is_alive(owner) else None
    try:
        # Shared: whoever asks at the same moment is not taken for an owner.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_owner(file) or Owner(0, "unknown", "")
    finally:
        os.close(lock)
    return None


def live_owners(common_dir: Path) -> Iterator[tuple[str, Owner]]:
    """Runs that are owned by a living process, each with its owner."""
    for file in locks_folder(common_dir).glob("*.owner"):
        owner = owner_of(common_dir, file.stem)
        if owner is not None:
            yield file.stem, owner


def is_alive(owner: Owner) -> bool:
    if owner.host != this_host():
        return True
    try:
        os.kill(owner.pid, 0)
    except (ProcessLookupError, OverflowError):  # no process can have a number that large
        return False
    except PermissionError:
        return True
    return True
