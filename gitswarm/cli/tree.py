"""The command line for a parser library: help of commands, conversions, and what is wrong with a line. The only place
for typer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

from gitswarm.cli.arguments import Option, Parameter, parameters
from gitswarm.cli.help_pages import EXAMPLES
from gitswarm.cli.registry import Group
from gitswarm.cli.usage import NAME

_HELP = {"help_option_names": ["-h", "--help"]}
_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def call(function: Callable[..., None], name: str, line: Sequence[str]) -> NoReturn:
    """Calls a command with what a line says, or shows its help, or what is wrong.

    :param name: what people call it: `git swarm log`.
    :raises SystemExit: always.
    """
    app = _app("")
    app.command(context_settings=_HELP, epilog=_examples(name))(_Declared(function))
    app(list(line), prog_name=name)
    raise SystemExit(0)


def choose(group: Group, name: str, line: Sequence[str], call_entry: Callable[[str, list[str]], int]) -> NoReturn:
    """Finds the entry of a group that a line names, or says what is wrong.

    :raises SystemExit: always.
    """
    app = _app(group.help)
    for entry_name, entry in group.entries.items():
        stub = _stub(entry_name, call_entry)
        app.command(entry_name, help=entry.help, context_settings=_ANYTHING)(stub)
    # Of a single command typer would make no group.
    app.callback()(lambda: None)
    app(list(line), prog_name=name)
    raise SystemExit(0)


def _examples(name: str) -> str:
    """Below the options, line by line."""
    lines = EXAMPLES.get(name.removeprefix(f"{NAME} "), ())
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""


def _app(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        no_args_is_help=bool(text),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_HELP,
    )


def _stub(name: str, call_entry: Callable[[str, list[str]], int]) -> Callable[[typer.Context], None]:
    def entry(context: typer.Context) -> None:
        raise SystemExit(call_entry(name, context.args))

    return entry


class _Declared:
    """A command with its parameters as typer wants them declared."""

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        declared = inspect.signature(function).parameters
        self.__signature__ = inspect.Signature(
            [declared[each.name].replace(annotation=_annotation(each)) for each in parameters(function)]
        )

    def __call__(self, **values: object) -> None:
        self._function(**values)


def _annotation(parameter: Parameter) -> object:
    marker = parameter.marker
    if isinstance(marker, Option):
        option = typer.Option(*marker.names, help=marker.help, metavar=marker.metavar, min=marker.min)
        return Annotated[parameter.type, option]
    return Annotated[parameter.type, typer.Argument(help=marker.help, metavar=marker.metavar)]
