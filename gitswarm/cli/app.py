"""The command line as a whole, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import traceback
from pathlib import Path

import typer

from gitswarm import __version__
from gitswarm.cli import (
    demo,
    engines,
    flows,
    following,
    init,
    landing,
    policy,
    reading,
    record,
    resume,
    schemas,
    showing,
    start,
    stations,
    transcript,
    undo,
    verify,
)
from gitswarm.cli.console import err
from gitswarm.errors import RunInterruptedError, SpecError, StorageError, SwarmError, storage_error
from gitswarm.records.secrets import SecretRules
from gitswarm.safety.redact.redactor import Redactor

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

BUG = 3
INTERRUPTED = 130

app = typer.Typer(
    name="git swarm",
    help="Let agents carry out a software flow on a shadow branch: one commit per step, with its evidence.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(start.start)
app.command()(resume.resume)
app.command()(resume.skip)
app.command()(undo.rollback)
app.command()(undo.fork)
app.command()(undo.stop)
app.command()(undo.pause)
app.command()(landing.approve)
app.command()(landing.land)
app.command("log")(reading.log)
app.command()(showing.show)
app.command()(transcript.transcript)
app.command()(reading.diff)
app.command()(reading.status)
app.command("list")(reading.list_runs)
app.command()(reading.path)
app.command()(following.events)
app.command()(verify.verify)
app.add_typer(flows.app, name="flows")
app.add_typer(stations.app, name="stations")
app.add_typer(policy.app, name="policy")
app.command()(engines.engines)
app.command()(schemas.schemas)
app.command()(record.record_event)
app.command()(undo.discard)
app.command()(undo.gc)
app.command()(init.init)
app.command()(demo.demo)


def run(arguments: list[str]) -> int:
    """Executes a command line; the exit code of the contract (design section 8)."""
    try:
        app(arguments, prog_name="git swarm")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (RunInterruptedError, KeyboardInterrupt):
        err("git-swarm: interrupted")
        err("hint: git swarm resume")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, `| head` for one. The interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the border: what is not expected is a bug, reported with its log
        return _fail(error, arguments)
    return 0


def _fail(error: Exception, arguments: list[str]) -> int:
    expected = _expected(error)
    if expected is None:
        _report_bug(error, arguments)
        return BUG
    _explain(expected)
    return expected.exit_code


def _expected(error: Exception) -> SwarmError | None:
    """The error for a person; None: it is a bug."""
    if isinstance(error, OSError) and error.errno in _THE_PLACE_S_FAULT:
        said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        culprit = _in_the_way(error)
        if culprit is not None:
            return StorageError(said, hint=f"mv {culprit} {culprit}.old && git swarm resume")
        return storage_error(said)
    return error if isinstance(error, SwarmError) else None


def _in_the_way(error: OSError) -> str | None:
    """The file that lies where a folder is needed, or the other way round."""
    if error.errno not in (errno.ENOTDIR, errno.EISDIR) or not error.filename:
        return None
    path = Path(os.fsdecode(error.filename))
    way = [path, *path.parents] if error.errno == errno.ENOTDIR else [path]
    return next((shlex.quote(str(part)) for part in way if part.is_file() or error.errno == errno.EISDIR), None)


def _explain(error: SwarmError) -> None:
    for line in _discreet(error.message).splitlines() or [""]:
        err(f"git-swarm: {line}")
    hint = error.hint or ("mend that and type the same command again" if isinstance(error, SpecError) else "")
    if hint:
        err(f"hint: {hint}")


def _discreet(text: str) -> str:
    """What a person sees may also go to the log of a run in the background."""
    return Redactor(SecretRules(), os.environ).scrub(text)


def _report_bug(error: Exception, arguments: list[str]) -> None:
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path(os.environ.get("HOME") or "/tmp") / ".local" / "state"  # noqa: S108
    log = home / "git-swarm" / f"crash-{os.getpid()}.log"
    report = [
        f"git-swarm {__version__}, Python {sys.version}, {platform.platform()}",
        f"arguments: {arguments}",
        "".join(traceback.format_exception(error)),
    ]
    whole = _discreet("\n".join(report))
    err(_discreet(f"git-swarm: a bug: {type(error).__name__}: {error}"))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(whole, encoding="utf-8")
    except OSError:
        err(whole)
        return
    err(f"hint: nothing of the run is lost: git swarm resume. Please report it with {log}")
