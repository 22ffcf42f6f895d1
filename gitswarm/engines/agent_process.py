"""A program that works for one session and writes lines about it: started, read, answered, ended."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Generic, Protocol, TypeVar, cast

from gitswarm.containment import Containment
from gitswarm.engines import launch
from gitswarm.engines.base import SESSION_MARKER, StepEndedError
from gitswarm.process_table import end_processes_with

_POLL_S = 0.05
_BACKLOG = 1000
"""How much may wait: a program that never stops talking must not fill the memory."""
_LINE_BYTES = 16 << 20
_STDERR_LINES = 20
_REAP_S = 5.0


def last_lines() -> deque[str]:
    """Takes the last lines of what a program writes on standard error."""
    return deque(maxlen=_STDERR_LINES)


def launched(argv: Sequence[str], env: Mapping[str, str], containment: Containment) -> list[str]:
    """The command line that starts `argv` confined, in this environment, below what ends all that it starts."""
    above = (sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), ",".join(env), str(containment.depth))
    return [*above, *containment.wrap(list(argv))]


def start_piped(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, with a pipe for each stream.

    :raises OSError: it cannot be started.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def pour(process: subprocess.Popen[bytes], text: str) -> None:
    """Its whole standard input, in a thread of its own: it may not read before it has begun, or end before that."""

    def write() -> None:
        with contextlib.suppress(OSError, ValueError), cast("IO[bytes]", process.stdin) as stdin:
            stdin.write(text.encode(errors="replace"))

    threading.Thread(target=write, daemon=True).start()


def collect_lines(process: subprocess.Popen[bytes], lines: deque[str]) -> None:
    """Its standard error, until that is closed."""
    with cast("IO[bytes]", process.stderr) as stderr:
        for line in stderr:
            lines.append(line.decode(errors="replace").strip()[:500])


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends it where it has not ended, and reaps it."""
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)
    if process.poll() is None:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)


Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Items that one thread puts and another one receives. `deadline`: on the monotonic clock; `ended`: nobody waits
    any more."""

    def __init__(self, deadline: float, ended: threading.Event) -> None:
        self.deadline = deadline
        self.ended = ended
        self._items: queue.Queue[Item] = queue.Queue(_BACKLOG)
        self._closed = threading.Event()

    def put(self, item: Item) -> None:
        """Blocks while the backlog is full, until it is closed."""
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._items.put(item, timeout=_POLL_S)
                return

    def received(self) -> Iterator[Item]:
        """
        :raises StepEndedError: nobody waits for it any more.
        :raises TimeoutError: the deadline is over.
        """
        while time.monotonic() < self.deadline:
            if self.ended.is_set():
                raise StepEndedError
            try:
                item = self._items.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            yield item
        raise TimeoutError

    def close(self) -> None:
        """Items are received no more: none is put, and nobody blocks."""
        self._closed.set()


class AgentProcess(Backlog[bytes | None]):
    """`exit_code` None: it has not ended by itself; negative: the signal that killed it. `stderr`: the end of what it
    wrote there."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float, ended: threading.Event) -> None:
        super().__init__(deadline, ended)
        self.process = process
        self.exit_code: int | None = None
        self.stderr = last_lines()

    @property
    def complaints(self) -> str:
        """The end of what it said on standard error, in one line."""
        return " ".join(self.stderr).strip()

    def lines(self) -> Iterator[str]:
        """The lines that it writes, until it ends; raises what `received` does."""
        for line in self.received():
            if line is None:
                self.exit_code = self.process.wait(_REAP_S)
                return
            yield line.decode(errors="replace").rstrip("\n")

    def say(self, line: str) -> None:
        """A line on its standard input; nothing where it does not listen any more."""
        with contextlib.suppress(OSError):
            stdin = cast("IO[bytes]", self.process.stdin)
            stdin.write(line.encode() + b"\n")
            stdin.flush()

    def say_all(self, text: str) -> None:
        """The whole of its standard input."""
        pour(self.process, text)

    def listen(self) -> None:
        """Passes on what it says, in a thread of its own."""
        with cast("IO[bytes]", self.process.stdout) as stdout:
            while line := stdout.readline(_LINE_BYTES):
                self.put(line)
        self.put(None)

    def close(self) -> None:
        """Ends it, where it has not ended."""
        super().close()
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self.process.stdin).close()
        end_process(self.process)


class AgentContext(Protocol):
    """Where a program of an agent works: a `StepRequest`, or as much of one as this."""

    @property
    def worktree(self) -> Path: ...

    @property
    def containment(self) -> Containment: ...

    @property
    def ended(self) -> threading.Event: ...


@contextmanager
def agent_process(
    argv: Sequence[str], request: AgentContext, env: Mapping[str, str], deadline: float
) -> Iterator[AgentProcess]:
    """While the block lasts the program runs in the worktree, confined and in a session of its own. When it is left,
    nothing that it started is there any more.

    :param env: the whole environment.
    :raises OSError: it cannot be started.
    """
    marker, containment = secrets.token_hex(8), request.containment
    whole = {**env, **containment.environment, SESSION_MARKER: marker}
    with containment.served():
        process = start_piped(launched(argv, whole, containment), request.worktree, whole)
        agent = AgentProcess(process, deadline, request.ended)
        threads = [
            threading.Thread(target=agent.listen, daemon=True),
            threading.Thread(target=collect_lines, args=(process, agent.stderr), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield agent
        finally:
            end_processes_with(SESSION_MARKER, marker)
            agent.close()
            for thread in threads:
                thread.join(_REAP_S)
