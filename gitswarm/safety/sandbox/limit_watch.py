"""Ends a step that takes more of the machine than it may: the disk that it fills, its memory, its processes.

The kernel limits what it can (`bubblewrap.py`). It has no limit for what a folder holds, and none for the processes
of root.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.containment import Containment, is_wall, pid_namespace
from gitswarm.safety.sandbox.bubblewrap import Bubblewrap
from gitswarm.safety.sandbox.control_group import Limits

if TYPE_CHECKING:
    import psutil

_POLL_S = 0.25
_PATIENCE = 10
"""Looking through files may take one part in so many of the time."""

_BLOCK = 512  # what `st_blocks` counts in
_GIB = 1 << 30
_MARKS = ("SWARM_STEP_OF", "SWARM_FLOW", "SWARM_STEP", "SWARM_ITERATION")


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
        while not self.over.wait(_POLL_S):
            found = self._disk() or self._memory() or self._processes()
            if found:
                self.reason = found
                for wall in self._walls():
                    with contextlib.suppress(ProcessLookupError):
                        wall.kill()

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
        """Those of the step's namespaces."""
        inside = {pid_namespace(child.pid) for wall in self._walls() for child in wall.children()}
        return [pid for pid in pids if pid_namespace(pid) in inside]

    def _walls(self) -> list[psutil.Process]:
        """What holds the namespaces of the step."""
        import psutil  # noqa: PLC0415  20 ms, needed only when something is wrong

        own, found = pid_namespace(os.getpid()), []
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error, OSError):
                if pid_namespace(pid) == own:
                    process = psutil.Process(pid)
                    env = process.environ()
                    if all(env.get(name) == value for name, value in self.marks.items()) and is_wall(process):
                        found.append(process)
        return found


@contextmanager
def watched(containment: Containment, env: Mapping[str, str]) -> Iterator[Watch]:
    """Watches what is confined in it while the block lasts.

    :param env: of the step's programs.
    """
    if not isinstance(containment, Bubblewrap):
        yield Watch(Limits(), (), {})
        return
    folders = [mount.source for mount in containment.mounts if mount.kind == "write" and mount.source is not None]
    watch = Watch(containment.limits, folders, {name: env[name] for name in _MARKS if name in env})
    thread = threading.Thread(target=watch.keep, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()
    if watch.reason:
        watch.make_room()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - many times faster


def _available_bytes() -> int:
    """Of memory, as the kernel estimates it without swapping."""
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
