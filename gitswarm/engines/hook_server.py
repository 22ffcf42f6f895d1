"""A unix socket at which a program's hook asks the owner of its session before each tool call (`ask_owner.py`)."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import JsonValue

from gitswarm.containment import Containment
from gitswarm.engines import ask_owner
from gitswarm.records.policy import Allow, Decide, Deny, Rewrite, Verdict

Question = Mapping[str, JsonValue]
Answer = dict[str, JsonValue]
Answers = Callable[[Question], Answer]
"""Called from other threads than the session's, by several at once; never raises."""

_QUESTION_BYTES = 64 << 20
_PATIENCE_S = 30.0
_CHUNK = 1 << 16
_SHORT = "/tmp"  # noqa: S108 - a folder of our own is made there; TMPDIR may be as deep as the repository


@contextmanager
def serve_hook(folder: Path, answer: Answers) -> Iterator[Path]:
    """Answers questions at a socket in `folder` while the block lasts; one thread for each, as tools may run side by
    side."""
    path = folder / "gate"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        _bind(door, path)
        door.listen(64)
        thread = threading.Thread(target=_attend, args=(door, answer), daemon=True)
        thread.start()
        try:
            yield path
        finally:
            with suppress(OSError):  # wakes the thread that waits for callers
                door.shutdown(socket.SHUT_RDWR)
            path.unlink(missing_ok=True)


def hook_words(path: Path, containment: Containment) -> tuple[str, ...]:
    """The command line of a hook that asks at this socket: its standard input is the question, its standard output
    the answer. Exit code 2 and a reason on standard error: there is none, which is a no."""
    # From inside of a sandbox we have no number: 0 is whoever listens outside.
    owner = os.getpid() if containment.depth == 0 else 0
    return sys.executable, "-I", "-S", ask_owner.__file__, str(path), str(owner)


def judged(decide: Decide, tool: str, given: Question, timeout_s: float) -> Verdict:
    """What the policy says. In a thread of its own: one that hangs must not take the session with it. Never raises;
    what cannot be decided is denied."""
    decided: Future[Verdict] = Future()

    def work() -> None:
        try:
            decided.set_result(_checked(decide(tool, given)))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in a policy is a no
            decided.set_result(undecided(f"{type(error).__name__}: {error}"))

    threading.Thread(target=work, daemon=True).start()
    try:
        return decided.result(timeout_s)
    except TimeoutError:
        return undecided(f"no decision within {timeout_s:g} s")


def _checked(verdict: object) -> Verdict:
    return verdict if isinstance(verdict, Allow | Deny | Rewrite) else undecided(f"it says {verdict!r:.80}")


def undecided(why: str) -> Deny:
    return Deny("policy", f"the policy could not decide ({why})", "continue without this call")


def _bind(door: socket.socket, path: Path) -> None:
    """By a short way to its folder: the address of a socket has room for about 100 characters."""
    with tempfile.TemporaryDirectory(prefix="swarm-", dir=_SHORT) as short:
        way = Path(short) / "to"
        way.symlink_to(path.parent.absolute())
        door.bind(str(way / path.name))


def _attend(door: socket.socket, answer: Answers) -> None:
    while True:
        try:
            caller, _address = door.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(caller, answer), daemon=True).start()


def _answer(caller: socket.socket, answer: Answers) -> None:
    """One question and its answer; a caller that hangs or goes away gets none, which is a no."""
    with caller, suppress(OSError, ValueError, TypeError, RecursionError):
        caller.settimeout(_PATIENCE_S)
        question = json.loads(_all_of(caller))
        said = answer(question if isinstance(question, dict) else {})
        caller.sendall(json.dumps(said).encode() + b"\n")


def _all_of(caller: socket.socket) -> bytes:
    """
    :raises ValueError: it is too much.
    """
    asked = bytearray()
    while chunk := caller.recv(_CHUNK):
        asked += chunk
        if len(asked) > _QUESTION_BYTES:
            raise ValueError("the question is too long")
    return bytes(asked)
