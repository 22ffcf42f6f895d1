"""YAML (and JSON, its subset) into pydantic models; every problem names file, line and key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import yaml
from msgspec import Struct, field
from pydantic import BaseModel, ValidationError
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its stub does not re-export it
from yaml.resolver import Resolver

from gitswarm.errors import SpecError
from gitswarm.records.lazy_re import lazy_re

_MOST_VALUES = 50_000
_STRING, _SEQUENCE, _MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_PLAIN_KEYS = (_STRING, *(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float")))
_HALF_LETTER = lazy_re("[\ud800-\udfff]")

Location = tuple[int | str, ...]
ModelT = TypeVar("ModelT", bound=BaseModel)

_EXPECTED = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "not a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "no number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "neither true nor false"),
    "string_type": "no text",
}
"""By pydantic's name of an error."""

_SAID = {
    "greater_than": "has to be more than {gt:g}, not {given}",
    "greater_than_equal": "has to be at least {ge:g}, not {given}",
    "less_than": "has to be less than {lt:g}, not {given}",
    "less_than_equal": "has to be at most {le:g}, not {given}",
    "too_short": "needs at least {min_length}, has {actual_length}",
    "string_too_short": "is empty",
    "union_tag_not_found": "the key {discriminator} is missing",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type", "mapping_type"), "expected `key: value`"),
}
_LISTS = ("tuple_type", "list_type", "set_type", "frozen_set_type")
_CHOICES = {"literal_error": "expected", "enum": "expected", "union_tag_invalid": "expected_tags"}
"""Where an error has the words that are allowed."""

_LISTED = 12
"""Names that are shown of those that are known."""


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """libyaml scans and parses, Python composes: libyaml's own composer crashes on what is nested too deeply."""

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)


class YamlSource(Struct, frozen=True):
    """A parsed document: its plain data, and the line (from 1) of every key and item."""

    name: str
    data: Any
    lines: Mapping[Location, int]

    def line_of(self, location: Location) -> int:
        """Line of the nearest enclosing thing that has one."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def problem(self, location: Location, what: str) -> str:
        return f"{self.name}:{self.line_of(location)}: {what}"


@lru_cache(maxsize=512)  # a run asks for the bundled files at its start and, as they were frozen, again
def parse_yaml(name: str, text: str) -> YamlSource:
    """The document of a text. Its data is shared: nobody may change it.

    :raises SpecError: the text is not YAML, or a key stands twice in one mapping.
    """
    try:
        loader = _Loader(text)
        node = _root(loader, text)
        if node is None:
            return YamlSource(name, None, {})
        reader = _Reader(name, loader)
        return YamlSource(name, reader.value(node, (), ()), reader.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _not_yaml(name, mark.line + 1 if mark else 1, str(error.problem or error)) from error
    except yaml.reader.ReaderError as error:
        raise _not_yaml(name, text.count("\n", 0, error.position) + 1, str(error.reason)) from error
    except UnicodeEncodeError as error:
        raise _not_yaml(name, text.count("\n", 0, error.start) + 1, "half a character (a lone surrogate)") from error
    except RecursionError as error:
        raise _not_yaml(name, 1, "nested too deeply") from error


def _root(loader: _Loader, text: str) -> yaml.Node | None:
    """The document; Python's scanner says more exactly than libyaml what is wrong with it, and where."""
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError:
        yaml.SafeLoader(text).get_single_node()
        raise


def _not_yaml(name: str, line: int, what: str) -> SpecError:
    return SpecError([f"{name}:{line}: not valid YAML: {' '.join(what.split())}"])


class _Reader(Struct):
    """Makes a document's plain data, notes the line of every key and item, and finds what YAML allows but a file of
    ours may not have."""

    name: str
    loader: SafeConstructor
    lines: dict[Location, int] = field(default_factory=dict)
    visited: int = 0

    def value(self, node: yaml.Node, location: Location, around: tuple[int, ...]) -> Any:
        line = node.start_mark.line + 1
        self.visited += 1
        if self.visited > _MOST_VALUES:
            raise _not_yaml(self.name, line, f"more than {_MOST_VALUES:,} values, aliases counted each time")
        self.lines.setdefault(location, line)
        if id(node) in around:
            raise _not_yaml(self.name, line, "a value that contains itself")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, line)
        inside = (*around, id(node))
        if isinstance(node, yaml.SequenceNode):
            items = [self.value(item, (*location, index), inside) for index, item in enumerate(node.value)]
            return items if node.tag == _SEQUENCE else self.loader.construct_object(node, deep=True)
        values = [self._entry(key, value, location, inside) for key, value in node.value]
        # Merged keys, sets and unhashable keys are for the library.
        if node.tag != _MAPPING or any(key.tag not in _PLAIN_KEYS for key, _value in node.value):
            return self.loader.construct_object(node, deep=True)
        return {
            self._scalar(key, key.start_mark.line + 1): value
            for (key, _value), value in zip(node.value, values, strict=True)
        }

    def _entry(self, key_node: yaml.Node, value_node: yaml.Node, location: Location, around: tuple[int, ...]) -> Any:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node)
        here = (*location, key)
        line = key_node.start_mark.line + 1
        if here in self.lines:
            raise SpecError([f"{self.name}:{line}: the key '{key}' is here twice"])
        self.lines[here] = line
        return self.value(value_node, here, around)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        if not node.value.isascii() and _HALF_LETTER.search(node.value):
            raise _not_yaml(self.name, line, "half a character (a lone surrogate) cannot be stored")
        if node.tag == _STRING:
            return node.value
        try:
            return self.loader.construct_object(node)
        except ValueError as error:
            raise _not_yaml(self.name, line, str(error)) from error


def validate(source: YamlSource, model: type[ModelT]) -> ModelT:
    """
    :raises SpecError: with one line per problem, each with file, line, key and the nearest known name.
    """
    if not isinstance(source.data, dict):
        raise SpecError([f"{source.name}:1: expected a mapping with {', '.join(model.model_fields)}"])
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        found = [_Problem.of(source, model, item) for item in error.errors()]
        raise SpecError([problem.text(source) for problem in _essential(found)]) from error


class _Problem(Struct, frozen=True):
    """One complaint of pydantic at its place in the file; `known` are the keys that may stand there."""

    kind: str
    location: Location
    message: str
    known: tuple[str, ...]

    @classmethod
    def of(cls, source: YamlSource, model: type[BaseModel], item: Any) -> _Problem:
        raw: Location = tuple(item["loc"])
        message = plain_message(item)
        known = tuple(_fields_at(model, raw[:-1])) if item["type"] == "extra_forbidden" else ()
        return cls(item["type"], _in_file(source, raw, missing=item["type"] == "missing"), message, known)

    def text(self, source: YamlSource) -> str:
        key = ".".join(str(part) for part in self.location)
        if self.kind == "extra_forbidden":
            near = did_you_mean(str(self.location[-1]), list(self.known))
            return source.problem(self.location, f"unknown key '{key}'{near}")
        if self.kind == "missing":
            return source.problem(self.location, f"'{key}' is missing")
        return source.problem(self.location, f"{key}: {self.message}" if key else self.message)


def _essential(found: list[_Problem]) -> list[_Problem]:
    """Without what only follows from another problem: a list that seems empty because its items are wrong, the
    other form that a value might have had, a key that is missing because it is misspelt."""
    misspelt = {
        (*problem.location[:-1], near)
        for problem in found
        if problem.kind == "extra_forbidden"
        for near in difflib.get_close_matches(str(problem.location[-1]), problem.known, n=1)
    }
    return [
        problem
        for problem in found
        if not (problem.kind == "missing" and problem.location in misspelt)
        and not any(
            len(other.location) > len(problem.location)
            and other.location[: len(problem.location)] == problem.location
            for other in found
        )
    ]


def _in_file(source: YamlSource, raw: Location, *, missing: bool) -> Location:
    """A pydantic location without the names of union members, which are in no file."""
    kept: list[int | str] = []
    here: Any = source.data
    for index, part in enumerate(raw):
        in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if in_list or (isinstance(here, dict) and part in here):
            here = here[part]
            kept.append(part)
        elif missing and index == len(raw) - 1:
            kept.append(part)
    return tuple(kept)


def plain_message(item: Any) -> str:
    """What is wrong by one of pydantic's errors, in the words of YAML."""
    kind, given, context = item["type"], item["input"], item.get("ctx", {})
    if kind in _LISTS:
        is_item = isinstance(given, str | int | float) and not isinstance(given, bool)
        return f"expected a list: [{given}]" if is_item else "expected a list"
    if kind in _CHOICES:
        word = str(context.get("tag", given))
        near = did_you_mean(word, re.findall(r"'([^']*)'", str(context[_CHOICES[kind]])))
        return f"'{word}' is not an allowed value{near}" if "tag" not in context else f"unknown kind '{word}'{near}"
    if kind in _EXPECTED:
        shown = json.dumps(given, default=str, ensure_ascii=False)
        if kind == "string_type":
            return f"expected a text: '{shown}'" if isinstance(given, bool | int | float) else "expected a text"
        return f"'{given if isinstance(given, str) else shown}' is {_EXPECTED[kind]}"
    if kind in _SAID:
        return _SAID[kind].format(**context, given=given)
    return str(item["msg"]).removeprefix("Value error, ")


def nearest(word: str, known: list[str]) -> str | None:
    """The one of `known` that was probably meant."""
    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def did_you_mean(word: str, known: list[str]) -> str:
    """` (did you mean 'x'?)` for the nearest of `known`, else the list itself."""
    near = nearest(word, known)
    if near is not None:
        return f" (did you mean '{near}'?)"
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f" (known: {', '.join(sorted(known)[:_LISTED])}{more})" if known else ""


def _fields_at(model: type[BaseModel], raw: Location) -> list[str]:
    """Keys that may stand at a pydantic location, which names the member of a union that it is about."""
    candidates: list[type[BaseModel]] = [model]
    for part in raw:
        below = [
            inner
            for candidate in candidates
            if isinstance(part, str) and part in candidate.model_fields
            for inner in _models_in(candidate.model_fields[part].annotation)
        ]
        named = [candidate for candidate in candidates if part in _names_of(candidate)]
        candidates = below or named or candidates
    return [field.alias or name for candidate in candidates for name, field in candidate.model_fields.items()]


def _names_of(model: type[BaseModel]) -> tuple[Any, ...]:
    """What pydantic may call a union member in a location: its class, or the value of its `kind`."""
    kind = model.model_fields.get("kind")
    return (model.__name__, *(getattr(kind.annotation, "__args__", ()) if kind else ()))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models inside `Model`, `Model | None`, `tuple[Model, ...]`, `dict[str, Model]`, a union of models."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in getattr(annotation, "__args__", ()) for found in _models_in(inner)]
