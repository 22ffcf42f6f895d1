"""A program that works for one session and says what it does in lines: started, heard, answered, ended."""

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
from typing import IO, cast

from msgspec import Struct, field

from gitswarm.engines import launch
from gitswarm.engines.base import SESSION_MARKER, StepEndedError, StepRequest
from gitswarm.process_table import end_processes_with

_POLL_S = 0.05
_BACKLOG = 1000
"""Lines that may wait: a program that never stops talking must not fill the memory."""
_LINE_BYTES = 16 << 20
_STDERR_LINES = 20
_REAP_S = 5.0


class AgentProcess(Struct):
    """`deadline`: on the monotonic clock; `ended`: nobody waits any more. `exit_code` None: it has not ended by
    itself; negative: the signal that killed it."""

    process: subprocess.Popen[bytes]
    deadline: float
    ended: threading.Event
    exit_code: int | None = None
    _heard: queue.Queue[bytes | None] = field(default_factory=lambda: queue.Queue(_BACKLOG))
    _stderr: deque[str] = field(default_factory=lambda: deque(maxlen=_STDERR_LINES))
    _closed: threading.Event = field(default_factory=threading.Event)

    @property
    def complaints(self) -> str:
        """The end of what it said on standard error, in one line."""
        return " ".join(self._stderr).strip()

    def lines(self) -> Iterator[str]:
        """What it says, until it is over.

        :raises StepEndedError: nobody waits for it any more.
        :raises TimeoutError: the deadline is over.
        """
        while time.monotonic() < self.deadline:
            if self.ended.is_set():
                raise StepEndedError
            try:
                line = self._heard.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if line is None:
                self.exit_code = self.process.wait(_REAP_S)
                return
            yield line.decode(errors="replace").rstrip("\n")
        raise TimeoutError

    def say(self, line: str) -> None:
        """A line on its standard input; nothing where it does not listen any more."""
        with contextlib.suppress(OSError):
            stdin = cast("IO[bytes]", self.process.stdin)
            stdin.write(line.encode() + b"\n")
            stdin.flush()

    def listen(self) -> None:
        """Passes on what it says, in a thread of its own."""
        with cast("IO[bytes]", self.process.stdout) as told:
            while line := told.readline(_LINE_BYTES):
                self._put(line)
        self._put(None)

    def _put(self, line: bytes | None) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._heard.put(line, timeout=_POLL_S)
                return

    def collect(self) -> None:
        with cast("IO[bytes]", self.process.stderr) as complaints:
            for line in complaints:
                self._stderr.append(line.decode(errors="replace").strip()[:500])

    def close(self) -> None:
        """Ends it, where it has not ended."""
        self._closed.set()
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self.process.stdin).close()
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_REAP_S)
        if self.process.poll() is None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_REAP_S)


@contextmanager
def agent_process(
    argv: Sequence[str], request: StepRequest, env: Mapping[str, str], deadline: float
) -> Iterator[AgentProcess]:
    """While the block lasts the program runs in the worktree, confined and in a session of its own. When it is left,
    nothing that it started is there any more.

    :param env: the whole environment.
    :raises OSError: it cannot be started.
    """
    marker, containment = secrets.token_hex(8), request.containment
    whole = {**env, **containment.environment, SESSION_MARKER: marker}
    above = (sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), ",".join(whole), str(containment.depth))
    with containment.served():
        process = subprocess.Popen(
            [*above, *containment.wrap(list(argv))],
            cwd=request.worktree,
            env=whole,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        agent = AgentProcess(process, deadline, request.ended)
        threads = [threading.Thread(target=each, daemon=True) for each in (agent.listen, agent.collect)]
        for thread in threads:
            thread.start()
        try:
            yield agent
        finally:
            end_processes_with(SESSION_MARKER, marker)
            agent.close()
            for thread in threads:
                thread.join(_REAP_S)
