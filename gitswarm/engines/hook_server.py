"""The owner's side of hooks: the unix socket where the hook of an agent's CLI (hook_client.py) asks, and the policy's
decision, which comes in bounded time and is a no where there is none.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from gitswarm.engines import hook_client
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Decide, Deny, Rewrite, Verdict

_QUESTION_BYTES = 64 << 20
_PATIENCE_S = 30.0
_CHUNK = 1 << 16
_SHORT = "/tmp"  # noqa: S108 - a folder of our own is made there; TMPDIR may be as deep as the repository


class AnswersHooks(Protocol):
    def answer(self, question: Question) -> Answer:
        """Answers one question of a hook. Never raises; called from several threads at once."""


@contextmanager
def serve_hooks(folder: Path, hooks: AnswersHooks) -> Iterator[Path]:
    """Answers questions at a socket in `folder` while the block lasts; one thread for each, as tools may run side by
    side."""
    path = folder / "gate"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        _bind(server, path)
        server.listen(64)
        thread = threading.Thread(target=_accept, args=(server, hooks), daemon=True)
        thread.start()
        try:
            yield path
        finally:
            with suppress(OSError):  # wakes the thread that waits for callers
                server.shutdown(socket.SHUT_RDWR)
            path.unlink(missing_ok=True)


def _bind(server: socket.socket, path: Path) -> None:
    """Binds a socket by a short path to its folder: its address has room for about 100 characters."""
    with tempfile.TemporaryDirectory(prefix="swarm-", dir=_SHORT) as short:
        link = Path(short) / "to"
        link.symlink_to(path.parent.absolute())
        server.bind(str(link / path.name))


def _accept(server: socket.socket, hooks: AnswersHooks) -> None:
    while True:
        try:
            caller, _address = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(caller, hooks), daemon=True).start()


def _answer(caller: socket.socket, hooks: AnswersHooks) -> None:
    """One question and its answer; a caller that hangs or goes away gets none, which is a no."""
    with caller, suppress(OSError, ValueError, TypeError, RecursionError):
        caller.settimeout(_PATIENCE_S)
        question = json.loads(_all_of(caller))
        answer = hooks.answer(question if isinstance(question, dict) else {})
        caller.sendall(json.dumps(answer).encode() + b"\n")


def _all_of(caller: socket.socket) -> bytes:
    """
    :raises ValueError: it is too much.
    """
    raw = bytearray()
    while chunk := caller.recv(_CHUNK):
        raw += chunk
        if len(raw) > _QUESTION_BYTES:
            raise ValueError("the question is too long")
    return bytes(raw)


HOOK_S = 60
"""When the CLI gives its hook up; longer than everything in it, so that the hook itself can say no."""
DECISION_S = 20.0
"""For one decision; they take milliseconds."""

Question = Mapping[str, JsonValue]
Answer = dict[str, JsonValue]


def hook_command(socket: Path, depth: int) -> str:
    """The shell line by which an agent's CLI asks at `socket`.

    :param depth: of the containment that it runs in.
    """
    # From inside of a sandbox we have no number: 0 is whoever listens outside.
    owner = os.getpid() if depth == 0 else 0
    return shlex.join((sys.executable, "-I", "-S", hook_client.__file__, str(socket), str(owner)))


def hook_call(question: Question) -> tuple[str, Mapping[str, JsonValue]] | Deny:
    """The tool and the input that a hook asks about."""
    tool, given = question.get("tool_name"), question.get("tool_input")
    if isinstance(tool, str) and isinstance(given, dict):
        return tool, given
    return undecided("a question without a tool")


def pre_tool_use_answer(verdict: Verdict) -> Answer:
    """The answer to a hook of the kind PreToolUse."""
    answer: Answer = {"hookEventName": "PreToolUse"}
    match verdict:
        case Allow():
            answer |= {"permissionDecision": "allow"}
        case Rewrite():
            answer |= {"permissionDecision": "allow", "updatedInput": dict(verdict.input)}
        case Deny():
            answer |= {"permissionDecision": "deny", "permissionDecisionReason": verdict.message}
    return {"hookSpecificOutput": answer}


def judged(decide: Decide, tool: str, given: Mapping[str, JsonValue], timeout_s: float = DECISION_S) -> Verdict:
    """The policy's verdict, asked in a thread of its own: a policy that hangs must not take the session with it.
    Never raises."""
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


def undecided(why: str) -> Deny:
    return Deny("policy", f"the policy could not decide ({why})", "continue without this call")


def _checked(verdict: object) -> Verdict:
    return verdict if isinstance(verdict, Allow | Deny | Rewrite) else undecided(f"it says {verdict!r:.80}")
