"""Starts `git`. Every call gets its directories explicitly and runs nothing that a repository configures."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from gitswarm.errors import GitFailedError, SwarmError, UsageError, is_storage_fault, storage_error

_LOCK = re.compile(r"'([^'\n]+\.lock)'")


def refusal(what: str, message: str) -> SwarmError:
    """The error for a call that failed: a lock that lies there, storage that takes nothing, or git's own words.

    :param what: what was to be done, the beginning of a sentence.
    :param message: what git or libgit2 said about it.
    """
    found = _LOCK.search(message)
    lock = Path(found[1]) if found else None
    if lock is not None and lock.exists():
        # Only git knows whose lock a shared one is: we never delete it.
        return GitFailedError(
            f"{what}: {lock} is in the way, {_age(lock)} old",
            hint=f"rm {shlex.quote(str(lock))}   (if no git command is running)",
        )
    if is_storage_fault(message):
        return storage_error(f"{what}: {message}")
    return GitFailedError(f"{what}: {message}", hint="git swarm resume   (when that is fixed)")


def _age(path: Path) -> str:
    seconds = max(0, int(time.time() - path.lstat().st_mtime))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


# An agent can leave hooks, a monitor or a replaced `.git` pointer behind that would run when *we* call git.
# With submodule.recurse we would also work in repositories that an agent configured.
_NEUTRAL = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "submodule.recurse=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    # What `git log` answers us: the check of a signature would stand in front of it, and start a program.
    *("-c", "log.showSignature=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
    # By which git finds the trailers of a message.
    *("-c", "core.commentChar=#"),
    *("-c", "trailer.separators=:"),
)
_SPARSE = ("-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=true")
_FLUSHED = ("-c", "core.fsync=committed,loose-object", "-c", "core.fsyncMethod=batch")
_LOCK_WAIT_S = 10.0
_LOCKED = (b".lock': File exists", b"Unable to create")
# A `git prune-packed` took the empty folder away between its making and the object in it.
_PRUNED = b"unable to create temporary file: No such file or directory"


TRACE = "GIT_SWARM_TRACE"
"""Absolute path of a file to which each git process appends what it was asked and how long it took (git's trace2)."""


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without `GIT_*`, in the C locale, with no way to ask a person anything.

    Objects are what their ids say: `git replace` would have people review other code than lands.

    :raises UsageError: the trace has no absolute path: git would ignore it, or mix it into its answers.
    """
    clean = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    if trace := env.get(TRACE):
        if not trace.startswith("/"):
            raise UsageError(f"{TRACE}={trace}: an absolute path is needed", hint=f'{TRACE}="$PWD/trace" git swarm …')
        clean["GIT_TRACE2"] = trace
    return clean | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "GIT_NO_REPLACE_OBJECTS": "1"}


class Git(Struct, frozen=True):
    """How to call git for one checkout. `work_tree` None: the repository only; `durable`: objects are flushed;
    `before`: is called before each start; `sparse`: the checkout has only what its patterns name, whatever is
    configured."""

    env: Mapping[str, str]
    git_dir: Path | None = None
    work_tree: Path | None = None
    durable: bool = False
    before: Callable[[], None] = lambda: None
    sparse: bool = False

    def argv(self, *arguments: str) -> list[str]:
        folders = [f"--git-dir={self.git_dir}"] if self.git_dir else []
        folders += [f"--work-tree={self.work_tree}"] if self.work_tree else []
        flush = _FLUSHED if self.durable else ()
        return ["git", *_NEUTRAL, *flush, *(_SPARSE if self.sparse else ()), *folders, *arguments]

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """The finished process, whatever its exit code.

        :raises SwarmError: git is not installed.
        """
        self.before()
        try:
            return subprocess.run(
                self.argv(*arguments),
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                check=False,
                cwd=cwd or self.work_tree or self.git_dir,
                env={**self.env, **(extra_env or {})},
            )
        except FileNotFoundError as error:
            raise _not_installed(error) from error

    def output(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Standard output of a call that must succeed: see `succeed`."""
        return self.succeed(*arguments, stdin=stdin, cwd=cwd, extra_env=extra_env).stdout

    def succeed(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        cwd: Path | None = None,
        extra_env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """A call that must succeed. A lock that somebody else holds is waited for.

        :raises GitFailedError: git ended non-zero; the message is git's own.
        :raises StorageError: because there is no room, or it may not write.
        """
        deadline = time.monotonic() + _LOCK_WAIT_S
        pause = 0.01
        while True:
            done = self.run(*arguments, stdin=stdin, cwd=cwd, extra_env=extra_env)
            if done.returncode == 0:
                return done
            passing = all(sign in done.stderr for sign in _LOCKED) or _PRUNED in done.stderr
            if not passing or time.monotonic() > deadline:
                raise _failure(arguments, done.stderr)
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    def open_pipe(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A call that answers line by line until its input ends.

        :raises SwarmError: git is not installed.
        """
        self.before()
        try:
            return subprocess.Popen(
                self.argv(*arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.work_tree or self.git_dir,
                env=dict(self.env),
            )
        except FileNotFoundError as error:
            raise _not_installed(error) from error


def _not_installed(error: FileNotFoundError) -> SwarmError:
    return SwarmError(
        f"cannot start git: {error.filename} is missing",
        hint="install git 2.38 or newer and see that it is on PATH",
    )


def _failure(arguments: tuple[str, ...], stderr: bytes) -> SwarmError:
    message = stderr.decode(errors="replace").strip() or "no message"
    words = [word for before, word in zip(("", *arguments), arguments, strict=False) if before != "-c"]
    verb = next((word for word in words if not word.startswith("-")), "git")
    return refusal(f"git {verb} failed", message)


class RunningGit:
    """A call of git that continues while we do something else; safe only where doing it twice is."""

    def __init__(self, git: Git, *arguments: str, stdin: bytes = b"") -> None:
        self._git = git
        self._arguments = arguments
        self._stdin = stdin
        git.before()
        with ExitStack() as stack:
            given = stack.enter_context(_as_file(stdin)) if stdin else subprocess.DEVNULL
            self._process = subprocess.Popen(
                git.argv(*arguments),
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=git.work_tree or git.git_dir,
                env=dict(git.env),
            )

    def wait(self) -> None:
        """Returns when it is done; a call that failed is made once more, with its error.

        :raises GitFailedError: as `Git.output`.
        """
        if self._process.wait() != 0:
            self._git.output(*self._arguments, stdin=self._stdin)


@contextmanager
def _as_file(content: bytes) -> Iterator[IO[bytes]]:
    """An input that nobody has to feed, unlike a pipe."""
    import tempfile  # noqa: PLC0415 - with its five modules; what only reads makes no files

    with tempfile.TemporaryFile() as given:
        given.write(content)
        given.seek(0)
        yield given
