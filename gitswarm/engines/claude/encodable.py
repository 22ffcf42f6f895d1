"""Text that can be stored: JavaScript cuts strings between the halves of a character, and JSON passes them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gitswarm.engines.claude.said import Said


def encodable(said: Said) -> Said:
    """`said` with U+FFFD for each half of a character."""
    found: dict[str, Any] = {field.name: _whole(getattr(said, field.name)) for field in fields(said)}
    return replace(said, **found)


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_whole(name): _whole(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_whole(item) for item in value)
    return value
