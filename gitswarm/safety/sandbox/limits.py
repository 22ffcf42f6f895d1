"""What a step may take of the machine (docs/sandbox.md): a watch that ends one that takes more of its disk, memory or
processes, and the control group that binds root to the limit of processes.

The kernel limits what it can (`backends.py`). It has no limit for what a folder holds, and none for the processes
of root.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.containment import holds_namespace, pid_namespace
from gitswarm.records.lazy_re import lazy_re

if TYPE_CHECKING:
    import psutil


_GIB = 1 << 30
_PREFIX = "git-swarm"
_MOUNT = lazy_re(r"^\d+ \d+ \S+ / (?P<place>\S+) .* - (?P<kind>cgroup2?) \S+ (?P<options>\S+)$", re.MULTILINE)
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
    """Removes the groups of processes that were killed."""
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


_WATCH_S = 0.25
_PATIENCE = 10
"""Looking through files may take one part in so many of the time."""

_BLOCK = 512  # what `st_blocks` counts in


class Watch(Struct):
    """`folders`: where the step may write on the disk; `marks`: in the environment of what it started. `reason`: why
    it was ended; empty: it was not."""

    limits: Limits
    folders: Sequence[Path]
    marks: Mapping[str, str]
    reason: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    _since: float = field(default_factory=time.time)
    _free: int = 0
    _next_look: float = 0.0
    _next_count: float = 0.0

    def keep(self) -> None:
        """Looks until the step is over, or has been ended."""
        self._free = _free_bytes(self.folders)
        while not self.over.wait(_WATCH_S):
            found = self._disk() or self._memory() or self._processes()
            if found:
                self.reason = found
                for holder in self._holders():
                    with contextlib.suppress(ProcessLookupError):
                        holder.kill()

    def make_room(self) -> None:
        """Removes the largest files of a step that filled the disk: nothing could be committed otherwise."""
        files = sorted(_changed(self.folders, self._since), reverse=True)
        left = sum(size for size, _path in files)
        for size, path in files:
            if left <= self.limits.reserve:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - a path as the system has it
                left -= size

    def _disk(self) -> str:
        """Asks the file system first, which is cheap."""
        free = _free_bytes(self.folders)
        is_tight = free < self.limits.reserve
        if not (is_tight or self._free - free > self.limits.growth) or time.monotonic() < self._next_look:
            return ""
        began = time.monotonic()
        grown = sum(size for size, _path in _changed(self.folders, self._since))
        self._next_look = time.monotonic() + _PATIENCE * (time.monotonic() - began)
        if grown > self.limits.growth:
            return f"it wrote {_size(grown)}, and {_size(self.limits.growth)} are its limit"
        if is_tight and grown > self.limits.reserve:
            return f"it wrote {_size(grown)}, and {_size(free)} are left on the disk"
        return ""

    def _memory(self) -> str:
        """The whole machine first, which is cheap."""
        left = _available_bytes()
        if left >= self.limits.memory_left or time.monotonic() < self._next_count:
            return ""
        began = time.monotonic()
        used = sum(map(_resident_bytes, self._inside(_pids())))
        self._next_count = time.monotonic() + _PATIENCE * (time.monotonic() - began)
        if used <= self.limits.memory:
            return ""
        return f"it had {_size(used)} of memory, and {_size(left)} are left on the machine"

    def _processes(self) -> str:
        """As above."""
        most = self.limits.processes
        pids = _pids()
        if len(pids) <= most:
            return ""
        count = len(self._inside(pids))
        return f"it had {count} processes, and {most} are its limit" if count > most else ""

    def _inside(self, pids: Sequence[int]) -> list[int]:
        """The processes in the step's namespaces."""
        inside = {pid_namespace(child.pid) for holder in self._holders() for child in holder.children()}
        return [pid for pid in pids if pid_namespace(pid) in inside]

    def _holders(self) -> list[psutil.Process]:
        """What holds the namespaces of the step."""
        import psutil  # noqa: PLC0415  20 ms, needed only when something is wrong

        own, found = pid_namespace(os.getpid()), []
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error, OSError):
                if pid_namespace(pid) == own:
                    process = psutil.Process(pid)
                    env = process.environ()
                    if all(env.get(name) == value for name, value in self.marks.items()) and holds_namespace(process):
                        found.append(process)
        return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - many times faster


def _available_bytes() -> int:
    """Bytes of memory that are available, as the kernel estimates it without swapping."""
    with Path("/proc/meminfo").open(encoding="ascii") as about:
        line = next((line for line in about if line.startswith("MemAvailable:")), "")
    return int(line.split()[1]) << 10 if line else sys.maxsize


def _resident_bytes(pid: int) -> int:
    try:
        pages = Path("/proc", str(pid), "statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _free_bytes(folders: Sequence[Path]) -> int:
    """Where there is least."""
    free = []
    for folder in folders:
        with contextlib.suppress(OSError):
            about = os.statvfs(folder)
            free.append(about.f_bavail * about.f_frsize)
    return min(free, default=0)


def _changed(folders: Sequence[Path], since: float) -> Iterator[tuple[int, str]]:
    """Bytes and path of files that were written since. Links are not followed."""
    pending = [os.fspath(folder) for folder in folders]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif (about := entry.stat(follow_symlinks=False)).st_ctime >= since:
                    yield about.st_blocks * _BLOCK, entry.path


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count >> 20} MiB"
