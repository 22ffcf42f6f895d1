"""The command line as a whole: which command is meant, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module

from gitswarm.cli.arguments import plain_values
from gitswarm.cli.console import INTERRUPTED, complain
from gitswarm.cli.help_pages import HELP, NAME, help_text, unknown
from gitswarm.cli.registry import ROOT, Command, Group
from gitswarm.cli.terminal import paged, wished
from gitswarm.errors import RunInterruptedError

USAGE = 2


def run(arguments: list[str], imported: Callable[[], object] = lambda: None) -> int:
    """Executes a command line; the exit code of the contract (design section 8).

    :param imported: called when the command's module is there.
    """
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
        from gitswarm.cli.failures import fail

        return fail(error, arguments)


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
    with wished(color), paged() if found.is_long and not follows else nullcontext():
        function = command_function(found)
        imported()
        values = plain_values(function, rest)
        if values is None:
            from gitswarm.cli.tree import call

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
            from gitswarm.errors import UsageError

            raise UsageError(f"--color {color}: always, never or auto", hint="--color=always")
    return color, [*rest, *line[own:]]


def command_function(command: Command) -> Callable[..., None]:
    """Imports what a command needs."""
    module, _colon, name = command.where.partition(":")
    function: Callable[..., None] = getattr(import_module(f".{module}", "gitswarm.cli"), name)
    return function
