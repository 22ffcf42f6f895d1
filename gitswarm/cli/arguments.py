"""The arguments and options of commands as their signatures declare them, and the plain command lines that are read
without a parser library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import get_args, get_type_hints

from msgspec import Struct, field

Value = str | bool | list[str] | None


class Argument(Struct, frozen=True, kw_only=True):
    """Annotation of a positional parameter. `is_rest`: it takes everything behind `--`, whatever that looks like."""

    help: str
    metavar: str | None = None
    is_rest: bool = False


class Option:
    """Annotation of an option. Without names it is `--` and the parameter's name; a flag may have `--x/--no-x`.
    `min`: the least number."""

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - what everybody calls it
        metavar: str | None = None,
        min: int | None = None,  # noqa: A002
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.min = min


class Parameter(Struct, frozen=True):
    """A parameter of a command. `type` is the annotated one; a flag takes no value."""

    name: str
    type: object
    marker: Argument | Option
    is_required: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What an option is called on the command line."""
        given = self.marker.names if isinstance(self.marker, Option) else ()
        return tuple(name for each in given for name in each.split("/")) or (f"--{self.name.replace('_', '-')}",)

    @property
    def is_flag(self) -> bool:
        return self.type in (bool, bool | None)

    @property
    def is_text(self) -> bool:
        return self.type is str or self.type == str | None

    @property
    def is_rest(self) -> bool:
        return isinstance(self.marker, Argument) and self.marker.is_rest

    @property
    def takes_all(self) -> bool:
        """Whether it takes every argument that is left."""
        return self.type == list[str] or self.type == list[str] | None


def parameters(function: Callable[..., None]) -> Iterator[Parameter]:
    """What the signature of a command declares, in order."""
    hints = get_type_hints(function, include_extras=True)
    for name, declared in inspect.signature(function).parameters.items():
        annotated, marker = get_args(hints[name])
        yield Parameter(name, annotated, marker, declared.default is inspect.Parameter.empty)


def plain_values(function: Callable[..., None], line: Sequence[str]) -> dict[str, Value] | None:
    """What to call a command with; what is not given is left to its defaults.

    None: the line has something that needs a parser library, be it help or a mistake.
    """
    declared = list(parameters(function))
    reading = _Reading({name: each for each in declared if isinstance(each.marker, Option) for name in each.names})
    rest = next((each for each in declared if each.is_rest), None)
    if rest is not None and "--" in line[:-1]:
        behind = line.index("--")
        reading.values[rest.name], line = list(line[behind + 1 :]), line[:behind]
        declared.remove(rest)
    if not reading.take(line):
        return None
    return reading.with_arguments([each for each in declared if isinstance(each.marker, Argument)])


class _Reading(Struct):
    options: dict[str, Parameter]
    values: dict[str, Value] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)

    def take(self, line: Sequence[str]) -> bool:
        """Sorts a line into options and arguments; False: it is not plain."""
        words = iter(line)
        for word in words:
            if not word.startswith("-"):
                self.arguments.append(word)
                continue
            name, has_value, value = word.partition("=")
            option = self.options.get(name)
            if option is None or (has_value and not name.startswith("--")):
                return False
            if option.is_flag and not has_value:
                self.values[option.name] = not name.startswith("--no-")
                continue
            given = value if has_value else next(words, "-")
            if not option.is_text or given.startswith("-"):
                return False
            self.values[option.name] = given
        return True

    def with_arguments(self, declared: Sequence[Parameter]) -> dict[str, Value] | None:
        """The values, those of the positional parameters among them; None: too few, too many, or not plain."""
        left = list(self.arguments)
        for parameter in declared:
            if not left:
                if parameter.is_required:
                    return None
            elif parameter.takes_all:
                self.values[parameter.name], left = left, []
            elif parameter.is_text:
                self.values[parameter.name] = left.pop(0)
            else:
                return None
        return None if left else self.values
