"""Starts the CLI and stays above it, so that nothing that a session starts outlives it, however it was started.

The CLI gets a session of its own, so that a Ctrl-C in the terminal is ours to handle, and exactly the environment
that it is given: the SDK has no way to say either. On Linux every process that loses its parent below us becomes our
child (PR_SET_CHILD_SUBREAPER), also one that took itself out of its session and emptied its environment; when the CLI
is over, those are ended. When our owner dies, we are told (PR_SET_PDEATHSIG). Elsewhere the CLI takes our place, and
the owner finds its processes by their environment.

Run by itself: `python -I -S launch.py OWNER NAMES DEPTH CLI …`. OWNER: its process; NAMES: the variables to keep,
separated by commas; DEPTH: how many processes stand between the one that we start and the CLI (see `Containment`).
"""

import contextlib
import ctypes
import os
import signal
import sys
import time

_SDK = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_", "CLAUDE_CODE_SDK_")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OWNER_DIED = signal.SIGUSR1
_GRACE_S = 0.7
"""Between SIGTERM and SIGKILL for the CLI. Shorter than the owner's patience with us."""
_REST_S = 0.3
"""The same for what it left behind."""
_LONGEST_S = 5.0
"""Another user's process, or one that hangs in the kernel, cannot be ended."""


def main() -> None:
    owner, names = int(sys.argv[1]), frozenset(sys.argv[2].split(","))
    depth, command = int(sys.argv[3]), sys.argv[4:]
    env = {name: value for name, value in os.environ.items() if name in names or name.startswith(_SDK)}
    if os.getpid() != os.getpgid(0):
        os.setsid()
    if sys.platform != "linux":
        os.execve(command[0], command, env)  # noqa: S606 - no shell is wanted
    signal_at_death_of(owner, _OWNER_DIED)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    status = _watch(_start(command, env), depth)
    _end_rest()
    if os.WIFSIGNALED(status):  # as if we were the CLI
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def signal_at_death_of(parent: int, number: int) -> None:
    """The process that calls this gets a signal when the one above it dies; that may be dead already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _start(command: list[str], env: dict[str, str]) -> int:
    ourselves = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            signal_at_death_of(ourselves, signal.SIGKILL)
            os.execve(command[0], command, env)  # noqa: S606 - no shell is wanted
        except OSError as error:
            sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
            sys.stderr.flush()
        finally:
            os._exit(127)
    # The pipes are the CLI's alone: whoever waits for their end must not wait for us.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return child


def _watch(child: int, depth: int) -> int:
    """Its wait status. A SIGTERM is passed on to the CLI, and followed by SIGKILL; without an owner that comes at
    once."""

    def terminate(_number: int, _frame: object) -> None:
        program = child
        for _ in range(depth):
            program = next(iter(_children(program)), child)
        _signal(program, signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, _GRACE_S)

    def kill(_number: int, _frame: object) -> None:
        _signal(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.signal(_OWNER_DIED, kill)
    signal.signal(signal.SIGTERM, terminate)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == child:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number in (signal.SIGTERM, _OWNER_DIED):  # nothing may keep us from the rest
                signal.signal(number, signal.SIG_IGN)
            return status


def _end_rest() -> None:
    """Whatever is left below us. The children of what ends become ours, and are found by the next look."""
    began = time.monotonic()
    while (left := _children(os.getpid())) and time.monotonic() < began + _LONGEST_S:
        for pid in left:
            _signal(pid, signal.SIGTERM if time.monotonic() < began + _REST_S else signal.SIGKILL)
        time.sleep(0.01)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _children(parent: int) -> list[int]:
    """The children of a process, zombies too, the oldest first."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib takes longer than all the rest
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - same
            # The name of a program may hold anything; behind its bracket come state and parent.
            fields = stat.read().rpartition(b")")[2].split()
            if int(fields[1]) == parent:
                found.append((int(fields[19]), int(name)))
    return [pid for _started, pid in sorted(found)]


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    main()
