"""What a command that failed tells a person, without secrets."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import subprocess
import sys
import traceback
from pathlib import Path

from gitswarm import __version__
from gitswarm.cli.console import advise, complain, err
from gitswarm.errors import SpecError, StorageError, SwarmError, storage_error
from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact.redactor import Redactor

BUG = 3

_THE_PLACE_S_FAULT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENAMETOOLONG,
    }
)
"""What the system refuses because of where it is asked, not because of what we ask."""


def fail(error: Exception, arguments: list[str]) -> int:
    """Explains an error; the exit code."""
    expected = _expected(error)
    if expected is None:
        _report_bug(error, arguments)
        return BUG
    _explain(expected)
    return expected.exit_code


def _expected(error: Exception) -> SwarmError | None:
    """The error for a person; None: it is a bug."""
    if isinstance(error, OSError) and error.errno in _THE_PLACE_S_FAULT:
        message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        culprit = _in_the_way(error)
        if culprit is not None:
            return StorageError(message, hint=f"mv {culprit} {culprit}.old && git swarm resume")
        return storage_error(message)
    return error if isinstance(error, SwarmError) else None


def _in_the_way(error: OSError) -> str | None:
    """The file that lies where a folder is needed, or the other way round."""
    if error.errno not in (errno.ENOTDIR, errno.EISDIR) or not error.filename:
        return None
    path = Path(os.fsdecode(error.filename))
    way = [path, *path.parents] if error.errno == errno.ENOTDIR else [path]
    return next((shlex.quote(str(part)) for part in way if part.is_file() or error.errno == errno.EISDIR), None)


def _explain(error: SwarmError) -> None:
    usual = "fix that, then run the same command again" if isinstance(error, SpecError) else ""
    complain(_discreet(error.message), error.hint or usual)


def _discreet(text: str) -> str:
    """What a person sees may also go to the log of a run in the background."""
    return Redactor(SecretRules(), os.environ).scrub(text)


def _report_bug(error: Exception, arguments: list[str]) -> None:
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path(os.environ.get("HOME") or "/tmp") / ".local" / "state"  # noqa: S108
    log = home / "git-swarm" / f"crash-{os.getpid()}.log"
    report = [
        f"git-swarm {__version__}, {_git_version()}, Python {sys.version}, {platform.platform()}",
        f"arguments: {arguments}",
        "".join(traceback.format_exception(error)),
    ]
    whole = _discreet("\n".join(report))
    complain(_discreet(f"a bug: {type(error).__name__}: {error}"))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(whole, encoding="utf-8")
    except OSError:
        err(whole)
        return
    advise(f"git swarm resume   (nothing of the run is lost; please report the bug with {log})")


def _git_version() -> str:
    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.SubprocessError) as error:
        return f"git: {error}"
    return done.stdout.strip()
