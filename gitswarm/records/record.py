"""The base of all stored records, and how they are written and read."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from types import new_class
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import msgspec
from msgspec import Meta, Struct, StructMeta, field

from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import END

Clock = Callable[[], datetime]
"""Returns the current time, timezone-aware."""

Text = Annotated[str, Meta(min_length=1)]
"""A text that says something."""

SHORT = "x-short"
"""Where a JSON schema says that there is a short form (`records/json_schema.py`)."""

UNSTORED = "x-unstored"
"""The same of a field that is never stored."""

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]


class _RecordMeta(StructMeta):
    """Fields are named wherever a record is made, unless its class says `kw_only=False`."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> _RecordMeta:
        config.setdefault("kw_only", True)
        made: _RecordMeta = super().__new__(cls, name, bases, namespace, **config)
        return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record(Struct, metaclass=_RecordMeta, frozen=True, forbid_unknown_fields=True):
    """A value that is written to or read from git, or by people. A key that it does not know is a mistake."""

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        """The record as plain JSON values; the field order is the class's.

        :param exclude: fields that are left out.
        """
        plain: dict[str, JsonValue] = _with_lists(msgspec.to_builtins(self))
        return {name: value for name, value in plain.items() if name not in exclude} if exclude else plain

    def to_json(self) -> bytes:
        """Pretty UTF-8 JSON with a final newline."""
        return pretty_json(self.to_plain())

    @classmethod
    def from_plain(cls, value: object) -> Self:
        """The record that plain JSON values mean, short forms of people too.

        :raises MistakesError: with every mistake.
        """
        try:
            made = msgspec.convert(value, cls)
            msgspec.json.encode(made)  # half a character, which JSON may hold, could not be stored
        except (msgspec.ValidationError, UnicodeEncodeError):
            from gitswarm.records.mistakes import converted  # noqa: PLC0415 - most is right

            return converted(cls, value)
        return made

    @classmethod
    def from_json(cls, content: bytes | str) -> Self:
        """
        :raises MistakesError: with every mistake.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            from gitswarm.records.mistakes import parsed_json  # noqa: PLC0415 - most is right

            return cls.from_plain(parsed_json(content))


def _with_lists(value: Any) -> Any:
    """Plain values whose tuples are lists, as in JSON."""
    if isinstance(value, dict):
        return {name: _with_lists(each) for name, each in value.items()}
    return [_with_lists(each) for each in value] if isinstance(value, list | tuple) else value


def short_form(write_out: Callable[[Any], Any], schema: dict[str, Any] | None = None, **limits: Any) -> Meta:
    """What people may write in place of a value.

    :param write_out: gets what was written, and returns the long form; raises ValueError where it is neither.
    :param schema: JSON schema of the short form.
    """
    return Meta(extra={"short": write_out}, extra_json_schema={SHORT: schema} if schema else None, **limits)


def form(pattern: str, otherwise: str = "") -> Meta:
    """A text that is of this form as a whole.

    :param otherwise: what is said of one that is not; `{given}` stands for it.
    """
    return Meta(pattern=f"^{pattern}{END}", extra={"otherwise": otherwise} if otherwise else None)


def one_of(words: Sequence[str], otherwise: str) -> Meta:
    """A text that is one of these words; for types, `Literal` does it."""
    return Meta(pattern=f"^({'|'.join(map(re.escape, words))}){END}", extra={"otherwise": otherwise, "known": words})


R = TypeVar("R", bound="Record")


def extended(base: type[R], name: str, added: Mapping[str, tuple[Any, Any]]) -> type[R]:
    """A record class with more fields.

    :param added: by name: type, and default or `msgspec.field`.
    """
    body = {each: default for each, (_kind, default) in added.items()}
    kinds = {each: kind for each, (kind, _default) in added.items()}
    about = {"__annotations__": kinds, "__module__": base.__module__, "__doc__": base.__doc__}
    return new_class(name, (base,), {}, lambda namespace: namespace.update(about | body))


def without_defaults(value: Any) -> Any:
    """A value as plain JSON values; of records without the fields whose value is the default."""
    if isinstance(value, Record):
        config = value.__struct_config__
        return {
            **({config.tag_field: config.tag} if config.tag_field is not None else {}),
            **{
                each.encode_name: without_defaults(getattr(value, each.name))
                for each in msgspec.structs.fields(value)
                if not _is_default(each, getattr(value, each.name))
            },
        }
    if isinstance(value, dict):
        return {name: without_defaults(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_defaults(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def _is_default(about: msgspec.structs.FieldInfo, value: object) -> bool:
    if about.default_factory is not msgspec.NODEFAULT:
        return bool(value == about.default_factory())
    return about.default is not msgspec.NODEFAULT and bool(value == about.default)


def pretty_json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`, the form of every time in the contracts."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable(path: str) -> str:
    """A path as text that can be stored as JSON; a name that is not UTF-8 loses what it cannot show."""
    return os.fsencode(path).decode(errors="replace")


def refuse_twice(ids: Iterable[str]) -> None:
    """
    :raises ValueError: an id stands there more than once.
    """
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ValueError(f"these ids are used more than once: {', '.join(twice)}")
