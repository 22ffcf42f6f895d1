"""The base of all stored records, and how they are read."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

NO_PLUGINS = ModuleType("pydantic.plugin._loader")
"""What pydantic asks for its plugins. It would read the entry points of all installed distributions for them, a
twentieth of a command, and what is valid is no matter of what else is installed."""
NO_PLUGINS.__dict__["get_plugins"] = tuple
sys.modules.setdefault(NO_PLUGINS.__name__, NO_PLUGINS)

Clock = Callable[[], datetime]
"""Returns the current time, timezone-aware."""


R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """A frozen value that is written to or read from git."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def to_json(self) -> bytes:
        """Pretty UTF-8 JSON with a final newline; the field order is the class's."""
        return pretty_json(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        return cls.model_validate_json(content)


class WrittenSection(Record):
    """Keys that people write. `true` is not a number, though pydantic takes it for 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        kinds = _types_in(cls.model_fields[info.field_name or ""].annotation)
        if isinstance(value, bool) and kinds & {int, float} and bool not in kinds:
            raise ValueError(f"'{str(value).lower()}' is not a number")
        return value


def _types_in(annotation: object) -> set[object]:
    """The members of a union, without what is annotated to them."""
    inner = get_args(annotation)
    return set().union(*map(_types_in, inner)) if inner else {annotation}


def pretty_json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`, the form of every time in the contracts."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable(path: str) -> str:
    """A path as text that can be stored as JSON; a name that is not UTF-8 loses what it cannot show."""
    return os.fsencode(path).decode(errors="replace")


def unique_ids(field: str, name: str = "id") -> Any:
    """A validator: each entry of a field has a name of its own."""

    def check(record: R) -> R:
        refuse_twice(getattr(each, name) for each in getattr(record, field))
        return record

    return model_validator(mode="after")(check)


def refuse_twice(ids: Iterable[str]) -> None:
    """
    :raises ValueError: an id stands there more than once.
    """
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ValueError(f"these ids are used more than once: {', '.join(twice)}")
