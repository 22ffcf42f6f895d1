"""Processes of this machine: found by their environment or as orphans of ours, ended, known by their parents."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gitswarm.containment import holds_namespace

if TYPE_CHECKING:
    import psutil

_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_POLL_S = 0.05
_SWEEPS = 3
_PR_SET_CHILD_SUBREAPER = 36
_REAP_S = 0.001


def end_processes_with(marker: str, value: str) -> int:
    """End every process that was started with `marker=value` in its environment; how many there were.

    Ourselves, our ancestors and processes of other users are left alone. A process that was started with a
    cleared environment is not found.
    """
    ended: set[psutil.Process] = set()
    for _ in range(_SWEEPS):  # what a process started while we looked is found by the next sweep
        found = _marked(marker, value)
        if not found:
            break
        _end_each(found)
        ended.update(found)
    return len(ended)


@contextlib.contextmanager
def ending_strays() -> Iterator[None]:
    """Ends what the block leaves running in sessions of its own, also what emptied its environment and was orphaned.

    On Linux: orphans below us become our children (prctl(2), PR_SET_CHILD_SUBREAPER). Nothing else that starts
    sessions may run at the same time.
    """
    if sys.platform != "linux":
        yield
        return
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = _children()
    try:
        yield
    finally:
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and (strays := _strays(before)):  # their children become ours in turn
            for pid in strays:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(_REAP_S)
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


@functools.cache
def _prctl() -> Callable[[int, int], int]:
    import ctypes  # noqa: PLC0415  needed only where steps are executed

    return ctypes.CDLL(None).prctl  # each CDLL makes a class, which only the garbage collector frees


def _strays(before: set[int]) -> list[int]:
    own = os.getsid(0)
    found = []
    for pid in _children() - before:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) != own:
                found.append(pid)
    return found


def _children() -> set[int]:
    """The children of all our threads."""
    return {int(pid) for listed in _read_each("/proc/self/task", "children") for pid in listed.split()}


def ancestors() -> Iterator[int]:
    """Process ids of our parent, its parent, and so on, as far as they are known."""
    import psutil  # noqa: PLC0415  as below

    with contextlib.suppress(psutil.Error):
        yield from (parent.pid for parent in psutil.Process().parents())


def program_of(pid: int) -> str | None:
    """Name of the program that a process executes; None when there is no living process of that number."""
    import psutil  # noqa: PLC0415  as below

    try:
        process = psutil.Process(pid)
        return process.name() if lives(process) else None
    except psutil.Error:
        return None


def _marked(marker: str, value: str) -> list[psutil.Process]:
    if sys.platform == "linux" and not _is_in_any_environment(f"{marker}={value}".encode()):
        return []
    import psutil  # noqa: PLC0415  20 ms that most commands need not pay

    ourselves = psutil.Process()
    spared = {ourselves, *ourselves.parents()}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(marker) == value and process not in spared and lives(process):
                found.append(process)
    return found


def _is_in_any_environment(entry: bytes) -> bool:
    """A process of another user cannot be asked, nor ended."""
    return any(entry in environment for environment in _read_each("/proc", "environ"))


def _read_each(folder: str, name: str) -> Iterator[bytes]:
    """This file of each process or thread below a folder of /proc; any may be gone by now, which `Path.glob` does not
    bear."""
    for number in filter(str.isdigit, os.listdir(folder)):  # noqa: PTH208 - pathlib takes longer than all the rest
        with contextlib.suppress(OSError):
            yield Path(folder, number, name).read_bytes()


def _end_each(processes: list[psutil.Process]) -> None:
    import psutil  # noqa: PLC0415  as above

    for process in processes:
        with contextlib.suppress(psutil.Error):
            if not holds_namespace(process):
                process.terminate()
    left = _await_each(processes)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _await_each(left)


def _await_each(processes: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that still live after the grace."""
    # Not psutil.wait_procs: it reaps our own children, and their Popen would then report exit code 0.
    deadline = time.monotonic() + _GRACE_S
    left = [process for process in processes if lives(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [process for process in left if lives(process)]
    return left


def lives(process: psutil.Process) -> bool:
    import psutil  # noqa: PLC0415  as above

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
