"""Values that can be stored, whatever the model or the CLI made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace
from pydantic import JsonValue

_MOST_LEVELS = 50
_TOO_DEEP = f"[… nested more than {_MOST_LEVELS} levels deep …]"


Said = TypeVar("Said", bound=Struct)


def encodable(message: Said) -> Said:
    """`said` with U+FFFD for each half of a character (JavaScript cuts strings there, and JSON passes them on), and
    with a note for what is nested too deeply."""
    found: dict[str, Any] = {
        field.name: _whole(getattr(message, field.name), _MOST_LEVELS) for field in fields(message)
    }
    return replace(message, **found)


def encodable_input(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The same of the input of a tool call."""
    whole: Any = _whole(given, _MOST_LEVELS)
    return dict(whole)


def as_input(value: object) -> Mapping[str, JsonValue]:
    """The input of a tool call as a model gave it; what is not an object stands under `input`."""
    found: Any = value if isinstance(value, dict) else {"input": value}
    return dict(found)


def _whole(value: object, levels: int) -> object:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not isinstance(value, Mapping | list | tuple):
        return value
    if levels == 0:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {_whole(name, levels): _whole(item, levels - 1) for name, item in value.items()}
    return type(value)(_whole(item, levels - 1) for item in value)
