"""JSON as a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    JsonValue = dict[str, "JsonValue"] | list["JsonValue"] | str | bool | int | float | None
else:
    JsonValue = Any  # msgspec takes no type that names itself
