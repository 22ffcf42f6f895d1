"""Command lines that are not plain, by typer: help of commands, conversions, and what is wrong with a line. The only
place for typer."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

from gitswarm.cli.arguments import Option, Parameter, parameters
from gitswarm.cli.help_pages import EXAMPLES, NAME
from gitswarm.errors import UsageError

_HELP = {"help_option_names": ["-h", "--help"]}
_NEGATIVE = re.compile(r"-\d+([.]\d+)?")
_EXTRA = re.compile(r"got unexpected extra argument(?:\(s\))? \((\S+)\)")
_PARSER_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""The base of the errors about a line."""


def call(function: Callable[..., None], name: str, line: Sequence[str]) -> NoReturn:
    """Calls a command with what a line says, or shows its help, or what is wrong.

    :param name: what people call it: `git swarm log`.
    :raises SystemExit: the command was called, or its help shown.
    :raises UsageError: the line is wrong.
    """
    app = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=_HELP
    )
    app.command(context_settings=_HELP, epilog=_examples(name))(_declared(function))
    try:
        code = app(list(line), prog_name=name, standalone_mode=False)
    except typer.Abort:
        raise SystemExit(1) from None
    except _PARSER_ERROR as error:
        message, hint = _refusal(error, name, line)
        hint = _as_option(function, name, line, message) or hint
        raise UsageError(message, hint=hint) from error
    raise SystemExit(code if isinstance(code, int) else 0)


def _refusal(error: Exception, name: str, line: Sequence[str]) -> tuple[str, str]:
    """What is wrong with a line, and what to type, for one of the parser library's errors."""
    message = error.format_message().rstrip(".").replace("Value error, ", "")  # type: ignore[attr-defined]
    if message.startswith("Invalid value") and "integer" in message:
        message = f"{message.partition(': ')[0]}: not a whole number"
    number = next((at for at, word in enumerate(line) if _NEGATIVE.fullmatch(word)), None)
    if message.startswith("No such option: -") and number is not None:
        return f"'{line[number]}' looks like an option", shlex.join(
            [*name.split(), *line[:number], "--", *line[number:]]
        )
    if message.startswith("Missing argument"):
        message = f"Missing argument{message.removeprefix('Missing argument').upper()}"  # in help and usage it is so
    examples = EXAMPLES.get(name.removeprefix(f"{NAME} "), ())
    is_missing = message.startswith("Missing") and examples
    return f"{message[:1].lower()}{message[1:]}", examples[0] if is_missing else f"{name} -h"


def _as_option(function: Callable[..., None], name: str, line: Sequence[str], message: str) -> str:
    """What to type for a run that was given as one more argument; "": it was something else."""
    found = _EXTRA.fullmatch(message)
    takes_run = any("--run" in each.names for each in parameters(function) if isinstance(each.marker, Option))
    if found is None or not takes_run or "--run" in line or line.count(found[1]) != 1:
        return ""
    others = [word for word in line if word != found[1]]
    return shlex.join([*name.split(), *others, "--run", found[1]])


def _examples(name: str) -> str:
    """Below the options, line by line."""
    lines = EXAMPLES.get(name.removeprefix(f"{NAME} "), ())
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""


def _declared(function: Callable[..., None]) -> Callable[..., None]:
    """A command with its parameters as typer wants them declared."""
    command = functools.partial(function)
    functools.update_wrapper(command, function)
    given = inspect.signature(function).parameters
    annotated = [given[each.name].replace(annotation=_annotation(each)) for each in parameters(function)]
    command.__signature__ = inspect.Signature(annotated)  # type: ignore[attr-defined]
    return command


def _annotation(parameter: Parameter) -> object:
    marker = parameter.marker
    if isinstance(marker, Option):
        option = typer.Option(*marker.names, help=marker.help, metavar=marker.metavar, min=marker.min)
        return Annotated[parameter.type, option]
    return Annotated[parameter.type, typer.Argument(help=marker.help, metavar=marker.metavar)]
