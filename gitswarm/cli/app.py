"""The command line as a whole: which command is meant, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

from gitswarm import __version__
from gitswarm.cli.arguments import plain_values
from gitswarm.cli.command_table import ROOT, Command, Group
from gitswarm.cli.console import INTERRUPTED, advise, complain, err
from gitswarm.cli.help_pages import HELP, NAME, help_text, unknown
from gitswarm.cli.terminal import git_says, paged, with_color
from gitswarm.errors import AGAIN, RunInterruptedError, SpecError, StorageError, SwarmError, UsageError, storage_error

USAGE, BUG = 2, 3

_PLACE_ERRORS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG),
)
"""What the system refuses because of where it is asked, not because of what we ask."""


def run(arguments: list[str], imported: Callable[[], object] = lambda: None) -> int:
    """Executes a command line; the exit code of the contract (design section 8).

    :param imported: called when the command's module is there.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")  # it cannot show our marks
    try:
        return _choose(ROOT, NAME, arguments, imported)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except RunInterruptedError:
        complain("interrupted", "git swarm resume")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, `| head` for one. The interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the border: what is not expected is a bug, reported with its log
        return _fail(error, arguments)


def _choose(group: Group, name: str, line: list[str], imported: Callable[[], object]) -> int:
    """Calls the entry of a group that a line begins with."""
    if line[:1] in HELP or not line:
        (sys.stdout if line else sys.stderr).write(help_text(group, name))
        return 0 if line else USAGE
    if line[0] in group.entries:
        return _call(group, name, line, imported)
    complain(*unknown(group, name, line[0]))
    return USAGE


def _call(group: Group, name: str, line: list[str], imported: Callable[[], object]) -> int:
    found, whole = group.entries[line[0]], f"{name} {line[0]}"
    if isinstance(found, Group):
        return _choose(found, whole, line[1:], imported)
    color, rest = _color_of(found, line[1:])
    follows = any(word in ("-f", "--follow") for word in rest)
    with with_color(color), paged() if found.is_long and not follows else nullcontext():
        function = command_function(found)
        imported()
        values = plain_values(function, rest)
        if values is None:
            from gitswarm.cli.typer_parser import call

            call(function, whole, rest)
        function(**values)
    return 0


def _color_of(command: Command, line: list[str]) -> tuple[str, list[str]]:
    """What `--color` says, as in git, and the line without it.

    :raises UsageError: it is no such word.
    """
    color, rest, takes_value = "auto", list[str](), False
    own = line.index("--") if "--" in line else len(line)
    for word in line[:own]:
        name, equals, when = word.partition("=")
        if takes_value or name not in ("--color", "--no-color") or (equals and name == "--no-color"):
            rest.append(word)
            takes_value = not takes_value and f"{word}=" in command.options.split()
            continue
        color = "never" if name == "--no-color" else when or "always"
        if color not in ("always", "never", "auto"):
            raise UsageError(f"--color {color}: always, never or auto", hint="--color=always")
    return color, [*rest, *line[own:]]


def command_function(command: Command) -> Callable[..., None]:
    """Imports what a command needs."""
    module, _colon, name = command.where.partition(":")
    function: Callable[..., None] = getattr(import_module(f".{module}", "gitswarm.cli"), name)
    return function


_MOST_PROBLEMS = 40
"""Lines about one file that a person wrote: with more, the first is out of sight."""


def _in_sight(problems: list[str]) -> Iterator[str]:
    """The first ones of each file, and how many more it has."""
    counts: dict[str, int] = {}
    for problem in problems:
        file = problem.partition(":")[0]
        counts[file] = counts.get(file, 0) + 1
        if counts[file] <= _MOST_PROBLEMS:
            yield problem
    yield from (
        f"{file}: and {count - _MOST_PROBLEMS} more" for file, count in counts.items() if count > _MOST_PROBLEMS
    )


def _fail(error: Exception, arguments: list[str]) -> int:
    """Explains an error, without secrets; the exit code."""
    expected = _expected(error)
    if expected is None:
        _report_bug(error, arguments)
        return BUG
    usual = "fix that, then run the same command again" if isinstance(expected, SpecError) else ""
    hint = expected.hint
    if AGAIN in hint:
        import shlex

        continues = next(iter(getattr(error, "__notes__", ())), None)
        hint = hint.replace(AGAIN, continues or shlex.join(["git", "swarm", *arguments]))
    message = "\n".join(_in_sight(expected.problems)) if isinstance(expected, SpecError) else expected.message
    complain(_discreet(message), hint or usual)
    return expected.exit_code


def _expected(error: Exception) -> SwarmError | None:
    """The error for a person; None: it is a bug."""
    if isinstance(error, OSError) and error.errno in _PLACE_ERRORS:
        message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        culprit = _in_the_way(error)
        if culprit is not None:
            return StorageError(message, hint=f"mv {culprit} {culprit}.old && {AGAIN}")
        return storage_error(message)
    return error if isinstance(error, SwarmError) else None


def _in_the_way(error: OSError) -> str | None:
    """The file that lies where a folder is needed, or the other way round."""
    if error.errno not in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST) or not error.filename:
        return None
    import shlex

    path = Path(os.fsdecode(error.filename))
    parts = [path, *path.parents] if error.errno == errno.ENOTDIR else [path]
    return next((shlex.quote(str(part)) for part in parts if part.is_file() or error.errno == errno.EISDIR), None)


def _discreet(text: str) -> str:
    """What a person sees may also go to the log of a run in the background."""
    from gitswarm.records.safety import SecretRules
    from gitswarm.safety.redact.redactor import Redactor

    return Redactor(SecretRules(), os.environ).scrub(text)


def _report_bug(error: Exception, arguments: list[str]) -> None:
    import platform
    import traceback

    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path(os.environ.get("HOME") or "/tmp") / ".local" / "state"  # noqa: S108
    log = home / "git-swarm" / f"crash-{os.getpid()}.log"
    report = [
        f"git-swarm {__version__}, {git_says('--version') or 'no git'}, Python {sys.version}, {platform.platform()}",
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
