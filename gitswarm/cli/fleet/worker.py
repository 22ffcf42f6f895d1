"""What a worker does for a run: it starts `fleet-exec` as a process, and waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

from msgspec import Struct

from gitswarm import __version__
from gitswarm.cli.run_execution import in_background

FOLDER = "SWARM_FLEET_DIR"
"""Environment variable of a worker: where its clones are."""

_POLL_S = 0.1
_ASK_S = 0.5
"""How often the scheduler is asked whether the fleet stops."""
_GRACE_S = 15.0
ENDS_WITHIN_S = 30.0
"""A worker, behind a signal; idle or not, it needs a second or two."""
_SAID_BYTES = 2_000


class Order(Struct, frozen=True):
    """`here`: the repository to execute in, and the folder of its logs; None: a clone of `hub`, in the worker's own.
    `fleet`: the one whose stop counts."""

    run_id: str
    version: str
    fleet: str
    hub: str
    here: tuple[str, str] | None = None


class Answer(Struct, frozen=True):
    """`code`: of the process. `said`: its last words. `version`: of the worker, where it is another one."""

    code: int
    said: str = ""
    version: str | None = None


def version_here() -> str:
    return __version__


def execute(order: Order) -> Answer:
    """Executes a run. It is called on a worker, in a thread that lives as long as the process that it starts."""
    if order.version != version_here():
        return Answer(1, version=version_here())
    words = ["fleet-exec", order.run_id, "--parent", str(os.getpid()), "--hub", order.hub]
    if order.here is not None:
        folder, log = Path(order.here[0]), Path(order.here[1])
    else:
        folder = worker_folder()
        words += ["--dir", str(folder)]
        log = folder / "logs"
    log.mkdir(parents=True, exist_ok=True)
    file = log / f"{order.run_id}.log"
    begun = file.stat().st_size if file.exists() else 0
    process = in_background(words, folder, os.environ, file)  # Ctrl-C is the fleet's to pass on
    try:
        _attend(process, order.fleet)
    finally:
        if process.poll() is None:
            _end(process)
    with file.open("rb") as written:
        written.seek(max(begun, file.stat().st_size - _SAID_BYTES))
        lines = written.read().decode(errors="replace").splitlines()
    said = [line for line in lines if line.startswith("git-swarm: ")] or lines[-1:]
    last = said[-1].removeprefix("git-swarm: ") if said else f"exit code {process.returncode}, without a word"
    return Answer(process.returncode, last)


def dask_setup(_worker: object) -> None:
    """Dask calls it as its worker starts. Whatever Dask waits for behind a signal, it ends in bounded time; and with
    this process every `fleet-exec` that it started is told to."""
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if callable(before):  # Dask's: what it does otherwise ends the process
            signal.signal(number, partial(_ends_soon, before))


def _ends_soon(before: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None) -> None:
    timer = threading.Timer(ENDS_WITHIN_S, os._exit, [1])
    timer.daemon = True
    timer.start()
    before(number, frame)


def worker_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(os.environ.get(FOLDER) or Path(state, "git-swarm", "fleet"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def stop_requests(fleet: str) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Whether the fleet is to stop behind the steps, and whether now, as the scheduler says it."""
    from distributed import Event  # noqa: PLC0415 - an extra, and 0.8 s

    return Event(f"{fleet}/stop").is_set, Event(f"{fleet}/now").is_set


def _attend(process: subprocess.Popen[bytes], fleet: str) -> None:
    stops, stops_now = stop_requests(fleet)
    was_interrupted, asked_at = False, time.monotonic()
    while process.poll() is None:
        time.sleep(_POLL_S)
        if time.monotonic() - asked_at < _ASK_S:
            continue
        asked_at = time.monotonic()
        with suppress(OSError, TimeoutError):  # the scheduler is gone: the worker ends soon, and the process with it
            if stops_now():
                return
            if not was_interrupted and stops():
                was_interrupted = True
                process.send_signal(signal.SIGINT)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Now, and in good order if it can."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
