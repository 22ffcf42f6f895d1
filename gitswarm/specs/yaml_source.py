"""YAML (and JSON, its subset) into pydantic models; every problem names file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gitswarm.errors import SpecError

Location = tuple[int | str, ...]
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class YamlSource:
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


def parse_yaml(name: str, text: str) -> YamlSource:
    """
    :raises SpecError: the text is not YAML, or a key stands twice in one mapping.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return YamlSource(name, None, {})
        lines: dict[Location, int] = {}
        _note_lines(name, node, (), lines)
        return YamlSource(name, loader.construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise SpecError([f"{name}:{line}: not valid YAML: {error.problem or error}"]) from error
    except yaml.YAMLError as error:
        raise SpecError([f"{name}:1: not valid YAML: {error}"]) from error
    finally:
        loader.dispose()


def _note_lines(name: str, node: yaml.Node, location: Location, lines: dict[Location, int]) -> None:
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode) and any("\ud800" <= letter <= "\udfff" for letter in node.value):
        raise SpecError([f"{name}:{node.start_mark.line + 1}: half a character (a lone surrogate) cannot be stored"])
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node)
            here = (*location, key)
            line = key_node.start_mark.line + 1
            if here in lines:
                raise SpecError([f"{name}:{line}: the key '{key}' stands here a second time"])
            lines[here] = line
            _note_lines(name, value_node, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(name, item, (*location, index), lines)


def validate(source: YamlSource, model: type[ModelT]) -> ModelT:
    """
    :raises SpecError: with one line per problem, each with file, line, key and the nearest known name.
    """
    if not isinstance(source.data, dict):
        raise SpecError([f"{source.name}:1: expected a mapping with {_known_keys(model)}"])
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        raise SpecError([_describe(source, model, item) for item in error.errors()]) from error


def _describe(source: YamlSource, model: type[BaseModel], item: Any) -> str:
    location: Location = tuple(item["loc"])
    key = ".".join(str(part) for part in location)
    if item["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        return source.problem(location, f"unknown key '{key}'{did_you_mean(str(location[-1]), known)}")
    if item["type"] == "missing":
        return source.problem(location, f"'{key}' is missing")
    message = str(item["msg"]).removeprefix("Value error, ")
    return source.problem(location, f"{key}: {message}" if key else message)


def did_you_mean(word: str, known: list[str]) -> str:
    """` (did you mean 'x'?)` for the nearest of `known`, else the list itself."""
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f" (did you mean '{near[0]}'?)"
    return f" (known: {', '.join(sorted(known))})" if known else ""


def _known_keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)


def _fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """Keys that are allowed at `location`: follows field annotations down to the nested model."""
    current: type[BaseModel] | None = model
    for part in location:
        if current is None:
            return []
        if isinstance(part, str) and part in current.model_fields:
            current = _model_in(current.model_fields[part].annotation)
    return [field.alias or name for name, field in current.model_fields.items()] if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `tuple[Model, ...]`, `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found:
            return found
    return None
