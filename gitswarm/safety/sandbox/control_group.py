"""Limits of what a step may take (docs/sandbox.md), and the control group that binds root to that of processes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

_GIB = 1 << 30
_PREFIX = "git-swarm"
_MOUNT = re.compile(r"^\d+ \d+ \S+ / (?P<place>\S+) .* - (?P<kind>cgroup2?) \S+ (?P<options>\S+)$", re.MULTILINE)
_EMPTY_S = 2.0
_POLL_S = 0.0005
_JOIN = 'echo $$ 2>/dev/null > "$0"; exec "$@"'
"""What cannot join is started all the same: processes are counted too."""


class Limits(Struct, frozen=True):
    """Bytes, but for `processes` (counted, by whoever the user is) and `threads` (the kernel's: for users other than
    root, or of a control group). `growth`: of everything together that a step may write on the disk; `reserve`: what
    has to stay free. `memory`: what a step's processes may have in any case; `memory_left`: when the machine has less
    than that, no more."""

    temporary: int = 2 * _GIB
    shared_memory: int = 1 * _GIB
    home: int = 1 * _GIB
    growth: int = 10 * _GIB
    reserve: int = 256 << 20
    memory: int = 1 * _GIB
    memory_left: int = 512 << 20
    processes: int = 2_000
    threads: int = 8_000


LIMITS = Limits()


class ControlGroup(Struct, frozen=True):
    """`folder`: of its own, there while the group is open."""

    folder: Path
    most: int

    def joined(self, argv: Sequence[str]) -> list[str]:
        """The command line that starts `argv` as a member of it."""
        return ["/bin/sh", "-c", _JOIN, str(self.folder / "cgroup.procs"), *argv]

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Within another block of it nothing happens."""
        if self.folder.exists():
            yield
            return
        self.folder.mkdir()
        (self.folder / "pids.max").write_text(f"{self.most}\n", encoding="ascii")
        try:
            yield
        finally:
            _remove(self.folder)


def group_for(parent: Path, name: str, most: int) -> ControlGroup:
    """
    :param parent: see `find_parent`.
    :param name: nobody else's in this process at the same time.
    """
    return ControlGroup(parent / f"{_PREFIX}-{os.getpid()}-{name}", most)


def find_parent(own: Path = Path("/proc/self")) -> Path | None:
    """The group in which groups with a limit of processes can be made; None: there is none.

    :param own: what the kernel says about this process.
    """
    for parent in _parents(own):
        trial = group_for(parent, "trial", 1)
        with suppress(OSError), trial.opened():
            _remove_left(parent)
            return parent
    return None


def _parents(own: Path) -> Iterator[Path]:
    try:
        lines = (own / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = list(_MOUNT.finditer((own / "mountinfo").read_text(encoding="utf-8")))
    except OSError:
        return
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        for mount in mounts:
            is_first = mount["kind"] == "cgroup" and "pids" in controllers.split(",")
            if (is_first and "pids" in mount["options"].split(",")) or (
                not controllers and mount["kind"] == "cgroup2"
            ):
                yield Path(mount["place"] + path)


def _remove_left(parent: Path) -> None:
    """Those of processes that were killed."""
    for folder in parent.glob(f"{_PREFIX}-*"):
        owner = folder.name.split("-")[2]
        if not Path("/proc", owner).exists():
            with suppress(OSError):
                folder.rmdir()


def _remove(folder: Path) -> None:
    """Its processes have ended, or are about to."""
    deadline, pause = time.monotonic() + _EMPTY_S, _POLL_S
    while folder.exists() and time.monotonic() < deadline:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(pause)
            pause *= 2
