"""A fault seam that costs the product nothing: it is put around the product's primitives from outside.

    python -m tests.faults count start tale        executes, then names every point on stdout, one per line
    python -m tests.faults 17 start tale           kills itself with SIGKILL at point 17
    python -m tests.faults 17s start tale          stops itself there with SIGSTOP; SIGCONT lets it go on
    python -m tests.faults none resume             executes, without any point
    python -m tests.faults serve                   forks one of the above per order on stdin: imports cost
                                                   more than a short run

A point lies before and after every call through which something durable happens; where a file is written in
place there is one more, "torn", with the file open and still empty. The same command line on the same
repository has the same points in the same order.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import pygit2

from gitswarm.git.as_user import UsersGit
from gitswarm.git.objects import Objects
from gitswarm.git.process import Git, RunningGit
from gitswarm.git.refs import Refs
from gitswarm.git.tree_changes import Indexes
from gitswarm.ledger.journal import Inbox, Journal
from gitswarm.worktree.run_folder import RunFolder

COUNT = "count"
NONE = "none"
STOP = "s"
SERVE = "serve"
_USERS = frozenset({"commit-tree", "commit", "push"})
_WRITING = frozenset({"add", "write-tree", "update-index", "read-tree", "clean", "worktree"})

Describe = Callable[..., str | None]
"""Names a call from its arguments; None: the call changes nothing durable and is not a point."""


class Seam:
    """Counts points; at the chosen one the process is gone, or stops."""

    def __init__(self, chosen: int | None, sent: signal.Signals) -> None:
        self._chosen = chosen
        self._signal = sent
        self.names: list[str] = []

    def reach(self, name: str, spoil: Callable[[], object] | None = None) -> None:
        """One point. `spoil` leaves behind what a kill at this very moment would."""
        self.names.append(name)
        if len(self.names) != self._chosen:
            return
        if spoil is not None and self._signal == signal.SIGKILL:
            spoil()
        os.write(sys.stderr.fileno(), f"faults: {self._signal.name} at {numbered(self._chosen, name)}\n".encode())
        os.kill(os.getpid(), self._signal)

    def wrap(self, owner: Any, name: str, describe: Describe) -> None:
        """Puts a point before and after every call of `owner.name`; a call of itself inside it is no point."""
        original = getattr(owner, name)
        running = False

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal running
            about = None if running else describe(*args, **kwargs)
            if about is None:
                return original(*args, **kwargs)
            self.reach(f"before {about}")
            running = True
            try:
                result = original(*args, **kwargs)
            finally:
                running = False
            self.reach(f"after {about}")
            return result

        setattr(owner, name, wrapped)

    def wrap_file_call(self, owner: Any, name: str, *, torn: int | None = None) -> None:
        """The same for a call on files, when it comes from the product itself.

        :param torn: which argument is the file that the call fills in place.
        """
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            module = str(caller.f_globals.get("__name__"))
            if not module.startswith("gitswarm."):
                return original(*args, **kwargs)
            about = f"{name} in {module.removeprefix('gitswarm.')}.{caller.f_code.co_name}"
            self.reach(f"before {about}")
            if torn is not None:
                self.reach(f"torn {about}", functools.partial(Path(args[torn]).write_bytes, b""))
            result = original(*args, **kwargs)
            self.reach(f"after {about}")
            return result

        setattr(owner, name, wrapped)


def numbered(number: int, name: str) -> str:
    return f"{number} {name}"


def install(seam: Seam) -> None:
    """Everything durable that the product does goes through one of these."""
    seam.wrap(Journal, "__init__", lambda *_a: "Journal")
    seam.wrap(Journal, "_write", lambda *_a: "Journal._write")
    seam.wrap(Journal, "delete", lambda *_a: "Journal.delete")
    for name in ("write_blob", "write_commit", "with_files", "with_subtree"):
        seam.wrap(Objects, name, functools.partial(_named, f"Objects.{name}"))
    for name in ("tree", "align"):
        seam.wrap(Indexes, name, functools.partial(_named, f"Indexes.{name}"))
    seam.wrap(Refs, "swap", _swap)
    seam.wrap(pygit2.transaction.ReferenceTransaction, "set_target", lambda *_a, **_k: "moving a locked ref")
    seam.wrap(Inbox, "delete", lambda *_a: "Inbox.delete")
    seam.wrap(Git, "succeed", _git)
    seam.wrap(Git, "run", _merge)
    seam.wrap(RunningGit, "__init__", lambda _self, *a, **o: _git(*a, **o))
    seam.wrap(UsersGit, "run", _users)
    seam.wrap(RunningGit, "wait", lambda *_a: "RunningGit.wait")
    seam.wrap(RunFolder, "write", lambda *_a: "RunFolder.write")
    for name in ("unlink", "replace", "touch"):
        seam.wrap_file_call(pathlib.Path, name)
    for name in ("write_text", "write_bytes"):
        seam.wrap_file_call(pathlib.Path, name, torn=0)
    for name in ("copy2", "copyfile"):
        seam.wrap_file_call(shutil, name, torn=1)
    seam.wrap_file_call(shutil, "move")
    seam.wrap_file_call(os, "replace")


def _named(name: str, *_args: object) -> str:
    return name


def _swap(_refs: Refs, name: str, _old: str | None, new: str | None, **_why: str) -> str:
    """A ref by its role: no run id, no number."""
    parts = name.split("/")
    role = "branch" if name.startswith("refs/heads/") else parts[4 if "notes" in name else min(3, len(parts) - 1)]
    return f"Refs.swap {role}{' away' if new is None else ''}"


def _merge(_git: Git, *arguments: str, **_options: object) -> str | None:
    return "git merge" if "merge" in arguments else None


def _users(_git: UsersGit, *arguments: str, **_options: object) -> str | None:
    verb = next((word for word in arguments if word in _USERS), None)
    return f"the user's git {verb}" if verb else None


def _git(_git: Git, *arguments: str, **_options: object) -> str | None:
    verb = next((word for word in arguments if word in _WRITING), None)
    return f"git {verb}" if verb else None


def execute(point: str, command_line: list[str]) -> int:
    """Plays one command line of the product; its exit code, unless a point ends it."""
    digits = point.removesuffix(STOP)
    seam = Seam(int(digits) if digits.isdigit() else None, signal.SIGSTOP if point != digits else signal.SIGKILL)
    if point != NONE:
        install(seam)
    from gitswarm.cli.app import run  # noqa: PLC0415 - the seam lies under it

    if point != COUNT:
        return run(command_line)
    with contextlib.redirect_stdout(sys.stderr):
        code = run(command_line)
    for number, name in enumerate(seam.names, start=1):
        sys.stdout.write(f"{numbered(number, name)}\n")
    return code


def serve() -> None:
    """Orders are JSON lines on stdin; each is answered by the exit code, negative for a signal."""
    import psutil  # noqa: F401, PLC0415 - imported once here, instead of once per order

    from gitswarm.cli import app, landing, start, steer  # noqa: F401, PLC0415 - as above

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _carry_out(json.loads(line))
        _pid, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _carry_out(order: Mapping[str, Any]) -> NoReturn:
    """Becomes the process that the order asks for, as if it had been started that way."""
    code = 1
    try:
        for number, (name, flags) in enumerate(
            ((os.devnull, os.O_RDONLY), (order["out"], os.O_WRONLY), (order["err"], os.O_WRONLY))
        ):
            os.dup2(os.open(name, flags | os.O_CREAT, 0o644), number)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        time.tzset()
        # libgit2 looked for the user's configuration when it was imported.
        pygit2.settings.search_path[pygit2.enums.ConfigLevel.GLOBAL] = order["env"]["HOME"]
        code = execute(order["point"], order["arguments"])
    except Exception:  # noqa: BLE001 - nothing above us but the server, which must not go on as a second one
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class Server:
    """The client of `serve`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults", SERVE],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def execute(
        self, point: int | str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """A process of its own that plays the command line."""
        out, err = self._folder / "out", self._folder / "err"
        for path in (out, err):
            path.write_bytes(b"")
        order = {
            "point": str(point),
            "arguments": list(arguments),
            "cwd": str(cwd),
            "env": dict(env),
            "out": str(out),
            "err": str(err),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        said = (path.read_text(encoding="utf-8") for path in (out, err))
        return subprocess.CompletedProcess(list(arguments), code, *said)


def main(arguments: list[str]) -> None:
    if arguments == [SERVE]:
        serve()
    else:
        sys.exit(execute(arguments[0], arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
