"""Conditions of branches and sidequests: CEL over receipt, envelope, evidence, run and history."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from gitswarm.records.json_value import JsonValue
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.routing import ConditionTrace

NAMES = ("receipt", "envelope", "evidence", "run", "history")

Context = Mapping[str, JsonValue]

_POSITION = lazy_re(r"ERROR: <input>:(\d+):(\d+): (.*)")
_BOUND = lazy_re(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_CHAIN = lazy_re(r"(?<![\w.])[A-Za-z_]\w*(?: *\. *[A-Za-z_]\w*)*")
_MACHINERY = lazy_re(r"[@_!?\W]")
_TYPES = frozenset(
    {"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type", "duration", "timestamp"}
)
_FUNCTIONS = frozenset(
    {"size", "contains", "startsWith", "endsWith", "matches", "has", "min", "max", "type", "dyn"}
    | {"int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp"}
    | {"getFullYear", "getMonth", "getDayOfMonth", "getHours", "getMinutes", "getSeconds"}
)


MOST_LOOPS = 4
"""`all`, `exists`, `map` and `filter` in one expression: nested ones multiply, and nothing can stop them."""


class CompiledCondition(Protocol):
    def execute(self, context: dict[str, Any]) -> Any: ...
    def variables(self) -> list[str]: ...
    def functions(self) -> list[str]: ...


def condition_problem(expression: str, names: Sequence[str] = NAMES) -> str | None:
    """Why an expression can never work, with its column; None when it can.

    :param names: that it may ask.
    """
    loops = len(_BOUND.findall(expression))
    if loops > MOST_LOOPS:
        return f"{loops} of all, exists, map and filter: at most {MOST_LOOPS} in one expression"
    try:
        program = _compile(expression)
    except ValueError as error:
        match = _POSITION.search(str(error))
        return f"column {match[2]}: {match[3]}" if match else str(error).splitlines()[0]
    unknown = [name for name in program.variables() if name not in {*names, *_TYPES, *bound_names(expression)}]
    if unknown:
        return f"unknown name '{unknown[0]}' (known: {', '.join(names)})"
    strange = [f for f in program.functions() if not _MACHINERY.search(f) and f not in _FUNCTIONS]
    return f"unknown function '{strange[0]}'" if strange else None


def bound_names(expression: str) -> set[str]:
    """What `all`, `exists`, `map` and `filter` call the elements that they go through."""
    return set(_BOUND.findall(expression))


def evaluate(expression: str, target: str, context: Context) -> ConditionTrace:
    """What the expression says. Only `true` counts as true: null, numbers and errors do not."""
    try:
        value = _compile(expression).execute(_used(expression, context))
    except (LookupError, ArithmeticError, RuntimeError, ValueError, TypeError) as error:
        message = f"no field {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
        return ConditionTrace(expression=expression, target=target, error=message)
    plain = value if isinstance(value, bool | int | float | str) or value is None else str(value)
    return ConditionTrace(expression=expression, target=target, value=plain)


def _used(expression: str, context: Context) -> dict[str, JsonValue]:
    """The part of the context that the expression can reach: what is handed over is converted, value by value."""
    used: dict[str, JsonValue] = {}
    for chain in _chains(expression):
        if chain[0] in context:
            _carry_over(chain, context, used)
    return used


def _carry_over(chain: tuple[str, ...], source: Mapping[str, JsonValue], target: dict[str, JsonValue]) -> None:
    """Puts the value at the end of the chain, or as far as it leads through mappings, where it is in the source."""
    name, rest = chain[0], chain[1:]
    value = source[name]
    if not rest or not isinstance(value, dict):
        target[name] = value
        return
    inner = target.setdefault(name, {})
    if inner is value or not isinstance(inner, dict):
        return  # all of it is there already
    if rest[0] in value:
        _carry_over(rest, value, inner)


@cache
def _chains(expression: str) -> tuple[tuple[str, ...], ...]:
    """Every `name.field.field` in an expression, the shortest first, so that a longer one adds nothing to it."""
    found = (tuple(match[0].replace(" ", "").split(".")) for match in _CHAIN.finditer(expression))
    return tuple(sorted(dict.fromkeys(found), key=len))


@cache
def _compile(expression: str) -> CompiledCondition:
    return _compiler()(expression)


@cache
def _compiler() -> Callable[[str], CompiledCondition]:
    """The library's Rust extension without its package, which would import a whole CLI (137 ms against 20)."""
    package = importlib.util.find_spec("cel")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder) / f"cel{suffix}"
            spec = importlib.util.spec_from_file_location("cel.cel", path) if path.exists() else None
            if spec and spec.loader:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return cast("Callable[[str], CompiledCondition]", module.compile)
    import cel  # noqa: PLC0415

    return cast("Callable[[str], CompiledCondition]", cel.compile)
