"""How a tree of child processes is started, bounded and ended."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, cast

from msgspec import Struct, field

from gitswarm.containment import UNCONTAINED, Containment, program_below
from gitswarm.process_table import lives

if TYPE_CHECKING:
    import psutil

_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_POLL_S = 0.05  # how late we may notice that the main process ended while others hold its output open
_CHUNK_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20  # the most that a pipe holds without privileges (Linux: fs.pipe-max-size)
_NOTE_BYTES = 48  # the note below with a 20-digit number
_LEAVING_GROUP_S = 0.2  # the longest that a child needs from its start into a session of its own


class CommandLimits(Struct, frozen=True):
    """`output_bytes`: kept output is always shorter than this, counted as UTF-8; at least 100."""

    timeout_s: float
    output_bytes: int = 50_000
    containment: Containment = UNCONTAINED

    def __post_init__(self) -> None:
        if self.output_bytes < 100:
            raise ValueError(f"output_bytes is {self.output_bytes}; the note about left out output needs 100")


class Ending(StrEnum):
    EXITED = "exited"
    TIMED_OUT = "timed_out"
    NOT_STARTED = "not_started"


class CommandOutcome(Struct, frozen=True):
    """How a command ended.

    `exit_code` is the shell's (126 and 127 included), negative for the signal that killed it, and None unless
    EXITED: what a command answers to our SIGTERM says nothing. `output` is stdout and stderr as they came,
    head and tail when there was too much. `error` is None when EXITED.
    """

    ending: Ending
    exit_code: int | None
    output: str
    duration_ms: int
    error: str | None


def project_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for commands of the project: nothing of our own git calls, no prompt."""
    # GIT_DIR and friends would aim the command's git at another repository; GIT_CONFIG_COUNT and
    # GIT_CONFIG_PARAMETERS would hand it our own -c settings.
    clean = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    # A project without .gitignore would get the .pyc files of its test run into the step's commit.
    return clean | {"PYTHONDONTWRITEBYTECODE": "1", "GIT_TERMINAL_PROMPT": "0"}


def run_shell(
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    limits: CommandLimits,
    on_output: Callable[[bytes], None] | None = None,
) -> CommandOutcome:
    """Run `sh -c command` without input, in a session and process group of its own.

    The command is over when the shell ends: what it left in the background is ended, not waited for.
    `on_output` gets every byte as it arrives, also those that the outcome leaves out. An exception of it, or
    of a signal handler meanwhile (KeyboardInterrupt), ends the process group and passes through.
    """
    started = time.monotonic()
    kept = _KeptOutput(limits.output_bytes)

    def take(chunk: bytes) -> None:
        kept.add(chunk)
        if on_output is not None:
            on_output(chunk)

    def outcome(ending: Ending, exit_code: int | None, error: str | None) -> CommandOutcome:
        return CommandOutcome(ending, exit_code, kept.text(), round((time.monotonic() - started) * 1000), error)

    with limits.containment.served():
        for _attempt in range(2):
            began = time.monotonic()
            with _signals_held() as let_signals_in:
                try:
                    argv = limits.containment.wrap(["sh", "-c", command])
                    child = _start(argv, cwd, env, limits.containment.depth)
                except OSError as error:
                    return outcome(Ending.NOT_STARTED, None, f"cannot start: {error.filename}: {error.strerror}")
                except ValueError as error:  # a NUL or a lone surrogate in the command or the environment
                    return outcome(Ending.NOT_STARTED, None, f"cannot start: {error}")
                if not child.run(started + limits.timeout_s, take, let_signals_in):
                    return outcome(Ending.TIMED_OUT, None, f"timed out after {limits.timeout_s:.3g} s")
            exit_code = child.process.returncode
            # A Ctrl-C that meets the child before it has left our process group ends it before it has begun.
            if exit_code != -signal.SIGINT or kept.total or time.monotonic() - began > _LEAVING_GROUP_S:
                break
    return outcome(Ending.EXITED, exit_code, None)


class _KeptOutput(Struct):
    """Head and tail of a byte stream as text, in bounded memory."""

    limit: int
    total: int = 0
    first: bytearray = field(default_factory=bytearray)
    last: bytearray = field(default_factory=bytearray)
    # Decoding comes before cutting: a byte that is not UTF-8 becomes three, and `limit` is about the result.
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    @property
    def _room(self) -> int:
        return self.limit - 1

    @property
    def _side(self) -> int:
        return (self._room - _NOTE_BYTES) // 2

    def add(self, chunk: bytes) -> None:
        self._keep(self.decoder.decode(chunk).encode())

    def _keep(self, piece: bytes) -> None:
        self.total += len(piece)
        free = self._room - len(self.first)
        self.first += piece[:free]
        self.last += piece[free:]
        if len(self.last) > 2 * self._side:
            del self.last[: -self._side]

    def text(self) -> str:
        """Call it once, at the end."""
        self._keep(self.decoder.decode(b"", final=True).encode())
        if self.total <= self._room:
            return self.first.decode()
        # The text is valid, so only a character that the cut went through is ignored.
        head = self.first[: self._side].decode(errors="ignore")
        tail = (self.first + self.last)[-self._side :].decode(errors="ignore")
        left_out = self.total - len(head.encode()) - len(tail.encode())
        return f"{head}\n[… {left_out} bytes left out …]\n{tail}"


@contextmanager
def _signals_held() -> Iterator[Callable[[], None]]:
    """Signals whose handler may raise wait until the function is called, or until the end.

    One that came while `Popen` still waits for its child's `exec` would leave a process that nobody knows. They are
    not masked, as the child would inherit the mask. Threads other than the main one are never interrupted.
    """
    arrived: list[int] = []
    before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def let_in() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        before.clear()
        while arrived:
            signal.raise_signal(arrived.pop(0))

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield let_in
    finally:
        let_in()


def _start(argv: list[str], cwd: Path, env: Mapping[str, str], depth: int) -> _Child:
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = cast("IO[bytes]", process.stdout)
    os.set_blocking(output.fileno(), False)
    return _Child(process, output, depth)


class _Child(Struct, frozen=True):
    """The leader of a process group, and the pipe that the whole group writes to."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    depth: int

    def run(self, deadline: float, take: Callable[[bytes], None], begun: Callable[[], None]) -> bool:
        """Whether the leader ended in time. In any case, also when interrupted, the whole group is ended.

        `begun` is called as soon as that holds.
        """
        last_words: Callable[[bytes], None] = _discard
        try:
            begun()
            in_time = self._follow(deadline, take)
            if not in_time:
                last_words = take
        finally:
            with self.output:
                self._end_group(last_words)
        return in_time

    def _follow(self, deadline: float, take: Callable[[bytes], None]) -> bool:
        """Pass output on until the leader ends (True) or the deadline is over (False)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            while self.process.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                chunk = self._read() if selector.select(min(left, _POLL_S)) else None
                if chunk:
                    take(chunk)
                elif chunk is not None:
                    return self._wait(deadline - time.monotonic())
        self._drain(take)
        return True

    def _read(self) -> bytes | None:
        """What can be read now. None: nothing there now; empty: every writer has closed the pipe."""
        try:
            return os.read(self.output.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return None

    def _drain(self, take: Callable[[bytes], None]) -> None:
        """Pass on what the pipe holds now; bounded, as a background process may refill it forever."""
        passed = 0
        while passed < _PIPE_BYTES and (chunk := self._read()):
            take(chunk)
            passed += len(chunk)

    def _wait(self, timeout_s: float) -> bool:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end_group(self, take: Callable[[bytes], None]) -> None:
        """SIGTERM, a grace and SIGKILL for whoever is left, and reap. An interrupt cuts the grace short."""
        group = self.process.pid
        try:
            if self._terminate(group):
                deadline = time.monotonic() + _GRACE_S
                self._follow(deadline, take)  # a full pipe must not keep it from ending; it may have ended already
                _await_group(group, deadline)
        finally:
            if _signal_group(group, signal.SIGKILL):
                # Bounded: a leader that became another user's (sudo) or hangs in the kernel cannot be ended.
                self._wait(_GRACE_S)
                _await_group(group, time.monotonic() + _GRACE_S)
            if self.process.poll() is not None:
                _reap_adopted(group)

    def _terminate(self, group: int) -> bool:
        """SIGTERM, to the program itself where it is confined: its namespace would end at once, and it with it."""
        inside = program_below(group, self.depth) if self.depth and self.process.poll() is None else None
        if inside is None:
            return _signal_group(group, signal.SIGTERM)
        with suppress(ProcessLookupError):
            os.kill(inside, signal.SIGTERM)
        return True


def _discard(_chunk: bytes) -> None:
    pass


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Whether there was anyone in the group whom we may signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _await_group(group: int, deadline: float) -> None:
    while _members(group) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _members(group: int) -> list[psutil.Process]:
    """Living processes of a group. A zombie is nobody: a container's PID 1 may never reap it."""
    import psutil  # noqa: PLC0415  20 ms, needed only when something outlives its shell

    found = []
    for pid in psutil.pids():
        with suppress(OSError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group and lives(process := psutil.Process(pid)):
                found.append(process)
    return found


def _reap_adopted(group: int) -> None:
    """Orphans of the group become our children where we are PID 1 of a container or a subreaper."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
