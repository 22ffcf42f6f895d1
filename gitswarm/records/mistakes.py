"""What people and agents wrote, as records: short forms are written out, and every mistake is found at once.

What fits as it stands was read without this module. A type may have a short form, `Annotated[T, short_form(…)]`: a
function gets the value as it was written, and returns the long form.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
import msgspec.inspect as kinds
from msgspec import Struct

from gitswarm.records.text import END, did_you_mean, nearest

R = TypeVar("R", bound=Struct)

Location = tuple[int | str, ...]
"""Keys and indexes from the top."""

_List = kinds.VarTupleType | kinds.ListType


_MOST_CHARS = 500
_SHOWN = 5


class Mistake(Struct, frozen=True):
    """`key`: it is about a key that nobody knows, or one that is missing."""

    location: Location
    what: str
    key: Literal["unknown", "missing"] | None = None

    @property
    def text(self) -> str:
        """It can be stored, and is no longer than a few lines, whatever was written."""
        location = ".".join(map(str, self.location))
        whole = f"{location}: {self.what}" if location else self.what
        cut = whole if len(whole) <= _MOST_CHARS else f"{whole[:_MOST_CHARS]}…"
        return cut.encode(errors="replace").decode()


class MistakesError(ValueError):
    """What was read is no such record."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "; ".join(each.text for each in self.mistakes[:_SHOWN])


def parsed_json(content: bytes | str) -> object:
    """
    :raises MistakesError: it is no JSON that can be stored again.
    """
    try:
        value: object = json.loads(content, parse_constant=_refuse_constant)
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise MistakesError([Mistake((), _HALF)]) from error
    except RecursionError as error:
        raise MistakesError([Mistake((), "it is no JSON: nested too deeply")]) from error
    except ValueError as error:
        what = str(error).partition(";")[0]  # behind it, how a program would allow numbers without end
        raise MistakesError([Mistake((), f"it is no JSON: {what}")]) from error
    return value


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no number that JSON has")


_HALF = "half a character (a lone surrogate) cannot be stored"


def converted(model: type[R], value: object) -> R:
    """
    :raises MistakesError: with every mistake.
    """
    conversion = _Conversion()
    try:
        made: Any = conversion.value(_kind_of(model), value, ())
        msgspec.json.encode(None if conversion.mistakes else made)
    except UnicodeEncodeError as error:
        raise MistakesError([Mistake((), _HALF)]) from error
    if conversion.mistakes:
        raise MistakesError(conversion.mistakes)
    found: R = made
    return found


@cache
def _kind_of(model: type[Struct]) -> kinds.Type:
    return kinds.type_info(model)


_WRONG = object()
"""In the place of a value in which a mistake was found."""


class _Conversion:
    """`mistakes`: found so far."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def value(self, kind: kinds.Type, given: Any, location: Location) -> Any:
        """`_WRONG` where there is a mistake in it."""
        read = _READERS.get(type(kind))
        return read(self, kind, given, location) if read is not None else self.other(kind, given, location)

    def wrong(self, location: Location, what: str) -> Any:
        self.mistakes.append(Mistake(location, what))
        return _WRONG

    def anything(self, _kind: kinds.AnyType, given: Any, _location: Location) -> Any:
        return given

    def switch(self, _kind: kinds.BoolType, given: Any, location: Location) -> Any:
        is_one = isinstance(given, bool)
        return given if is_one else self.wrong(location, f"'{_shown(given)}' is neither true nor false")

    def of_short(self, kind: kinds.Metadata, given: Any, location: Location) -> Any:
        extra = kind.extra or {}
        if "otherwise" in extra and isinstance(given, str) and not _has_form(kind.type, given):
            near = did_you_mean(given, extra["known"]) if "known" in extra else ""
            return self.wrong(location, extra["otherwise"].format(given=given) + near)
        write_out = extra.get("short")
        try:
            whole = write_out(given) if write_out else given
        except ValueError as error:
            return self.wrong(location, str(error))
        return self.value(kind.type, whole, location)

    def record(self, kind: kinds.StructType, given: Any, location: Location) -> Any:
        if isinstance(given, kind.cls):
            return given
        if not isinstance(given, Mapping):
            return self.wrong(location, "expected `key: value`")
        known = {each.encode_name: each for each in kind.fields}
        before = len(self.mistakes)
        meant = self.unknown(kind, given, location)
        fields: dict[str, Any] = {}
        for name, about in known.items():
            if name in given:
                fields[about.name] = self.value(about.type, given[name], (*location, name))
            elif about.required and name not in meant:
                self.mistakes.append(Mistake((*location, name), "is missing", "missing"))
        if len(self.mistakes) > before:
            return _WRONG
        try:
            return kind.cls(**fields)
        except MistakesError as error:
            self.mistakes += [Mistake((*location, *each.location), each.what, each.key) for each in error.mistakes]
        except ValueError as error:
            self.mistakes.append(Mistake(location, str(error)))
        return _WRONG

    def unknown(self, kind: kinds.StructType, given: Mapping[Any, Any], location: Location) -> set[str | None]:
        """Keys that were probably meant by those that nobody knows."""
        words = [*([kind.tag_field] if kind.tag_field else []), *(each.encode_name for each in kind.fields)]
        wrong = [name for name in given if name not in words] if kind.forbid_unknown_fields else []
        for name in wrong:
            inside = [each.encode_name for each in kind.fields if name in _words_of(each.type)]
            below = f" (did you mean '{inside[0]}.{name}'?)" if len(inside) == 1 else ""
            where = below or did_you_mean(str(name), words)
            what = f"unknown key{where}"
            self.mistakes.append(Mistake((*location, name), what, "unknown"))
        return {nearest(str(name), words) for name in wrong}

    def one_of(self, kind: kinds.UnionType, given: Any, location: Location) -> Any:
        if given is None and any(isinstance(each, kinds.NoneType) for each in kind.types):
            return None
        fitting = [each for each in kind.types if not isinstance(each, kinds.NoneType)]
        records = [each for each in fitting if isinstance(each, kinds.StructType) and each.tag_field]
        if records and len(records) == len(fitting):
            return self.tagged(records, given, location)
        if isinstance(given, Mapping):
            fitting.sort(key=lambda each: not isinstance(each, kinds.StructType | kinds.DictType))
        elif isinstance(given, list | tuple):
            fitting.sort(key=lambda each: not isinstance(each, _List))
        else:
            fitting.sort(key=lambda each: isinstance(each, kinds.StructType | kinds.DictType | _List))
        first: list[Mistake] | None = None
        for each in fitting:
            attempt = _Conversion()
            made = attempt.value(each, given, location)
            if not attempt.mistakes:
                return made
            first = first if first is not None else attempt.mistakes
        self.mistakes += first or []
        return _WRONG

    def tagged(self, records: list[kinds.StructType], given: Any, location: Location) -> Any:
        key = str(records[0].tag_field)
        if not isinstance(given, Mapping):
            return self.wrong(location, "expected `key: value`")
        if key not in given:
            return self.wrong(location, f"the key '{key}' is missing")
        by_tag = {str(each.tag): each for each in records}
        found = by_tag.get(str(given[key]))
        if found is None:
            return self.wrong(location, f"unknown kind '{given[key]}'{did_you_mean(str(given[key]), list(by_tag))}")
        return self.record(found, given, location)

    def items(self, kind: kinds.VarTupleType | kinds.ListType, given: Any, location: Location) -> Any:
        if not isinstance(given, list | tuple):
            is_item = isinstance(given, str | int | float) and not isinstance(given, bool)
            return self.wrong(location, f"expected a list: [{given}]" if is_item else "expected a list")
        items = [self.value(kind.item_type, each, (*location, index)) for index, each in enumerate(given)]
        return self.sized(kind, items if isinstance(kind, kinds.ListType) else tuple(items), location)

    def sized(self, kind: kinds.VarTupleType | kinds.ListType | kinds.DictType, made: Any, location: Location) -> Any:
        least, most = kind.min_length, kind.max_length
        if least is not None and len(made) < least:
            return self.wrong(location, f"needs at least {least}, has {len(made)}")
        if most is not None and len(made) > most:
            return self.wrong(location, f"has {len(made)}, at most {most} may be there")
        return made

    def mapping(self, kind: kinds.DictType, given: Any, location: Location) -> Any:
        if not isinstance(given, Mapping):
            return self.wrong(location, "expected `key: value`")
        made = {
            self.value(kind.key_type, name, (*location, name)): self.value(kind.value_type, each, (*location, name))
            for name, each in given.items()
        }
        return self.sized(kind, made, location)

    def word(self, kind: kinds.LiteralType | kinds.EnumType, given: Any, location: Location) -> Any:
        words = [each.value for each in kind.cls] if isinstance(kind, kinds.EnumType) else list(kind.values)
        if given in words and type(given) in map(type, words):
            return kind.cls(given) if isinstance(kind, kinds.EnumType) else given
        return self.wrong(
            location, f"'{_shown(given)}' is not an allowed value{did_you_mean(str(given), list(map(str, words)))}"
        )

    def number(self, kind: kinds.IntType | kinds.FloatType, given: Any, location: Location) -> Any:
        wanted = int if isinstance(kind, kinds.IntType) else float
        if isinstance(given, bool):
            return self.wrong(location, f"'{str(given).lower()}' is not a number")
        try:
            number = msgspec.convert(given, wanted, strict=False)
        except msgspec.ValidationError:
            what = "not a whole number" if wanted is int else "no number"
            return self.wrong(location, f"'{_shown(given)}' is {what}")
        for limit, fits, words in (
            (kind.gt, operator.gt, "more than"),
            (kind.ge, operator.ge, "at least"),
            (kind.lt, operator.lt, "less than"),
            (kind.le, operator.le, "at most"),
        ):
            if limit is not None and not fits(number, limit):
                return self.wrong(location, f"has to be {words} {limit:,}, not {given}")
        return number

    def text(self, kind: kinds.StrType, given: Any, location: Location) -> Any:
        if not isinstance(given, str):
            is_scalar = isinstance(given, bool | int | float)
            return self.wrong(location, f"expected a text: '{_shown(given)}'" if is_scalar else "expected a text")
        if kind.min_length is not None and len(given) < kind.min_length:
            return self.wrong(location, "is empty")
        if kind.max_length is not None and len(given) > kind.max_length:
            return self.wrong(location, f"has {len(given):,} characters, at most {kind.max_length:,} may be there")
        if kind.pattern is not None and not _has_form(kind, given):
            return self.wrong(location, f"'{given}' is not of the form {kind.pattern.replace(END, '$')}")
        return given

    def other(self, kind: kinds.Type, given: Any, location: Location) -> Any:
        """A named tuple, or None."""
        if isinstance(kind, kinds.NoneType):
            return given if given is None else self.wrong(location, f"'{_shown(given)}' is not null")
        wanted: Any = getattr(kind, "cls", object)
        try:
            return msgspec.convert(given, wanted)
        except msgspec.ValidationError as error:
            return self.wrong(location, str(error).partition(" - at `")[0])


_READERS: Mapping[type[kinds.Type], Callable[[_Conversion, Any, Any, Location], Any]] = {
    kinds.Metadata: _Conversion.of_short,
    kinds.AnyType: _Conversion.anything,
    kinds.StructType: _Conversion.record,
    kinds.UnionType: _Conversion.one_of,
    kinds.VarTupleType: _Conversion.items,
    kinds.ListType: _Conversion.items,
    kinds.DictType: _Conversion.mapping,
    kinds.LiteralType: _Conversion.word,
    kinds.EnumType: _Conversion.word,
    kinds.IntType: _Conversion.number,
    kinds.FloatType: _Conversion.number,
    kinds.BoolType: _Conversion.switch,
    kinds.StrType: _Conversion.text,
}


def _words_of(kind: kinds.Type) -> set[str | None]:
    """The keys that a record may have, or any of those that a value may be."""
    match kind:
        case kinds.Metadata():
            return _words_of(kind.type)
        case kinds.UnionType():
            return {word for each in kind.types for word in _words_of(each)}
        case kinds.StructType():
            return {kind.tag_field, *(each.encode_name for each in kind.fields)} - {None}
    return set()


def _has_form(kind: kinds.Type, given: str) -> bool:
    pattern = kind.pattern if isinstance(kind, kinds.StrType) else None
    return pattern is None or re.search(pattern, given) is not None


def _shown(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, default=str, ensure_ascii=False)
