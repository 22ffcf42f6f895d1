"""YAML (and JSON, its subset) into records; every problem names file, line and key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, TypeVar

import yaml
from msgspec import Struct, field
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # its stub does not re-export it
from yaml.resolver import Resolver

from gitswarm.errors import SpecError
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.mistakes import Location, Mistake, MistakesError
from gitswarm.records.record import Record

_MOST_VALUES = 50_000
_STRING, _SEQUENCE, _MAPPING, _NULL = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map", "null"))
_TIMESTAMP, *_OTHERS = (f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "binary", "set", "omap", "pairs"))
_NOT_IN_JSON = (_TIMESTAMP, *_OTHERS)
_MOST = 2**64
"""Beyond it a whole number does not fit into what is stored."""
_PLAIN_KEYS = (_STRING, *(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float")))
_HALF_LETTER = lazy_re("[\ud800-\udfff]")

_BYTES = frozenset(map(chr, range(0xDC80, 0xDD00)))
"""What `surrogateescape` makes of bytes that are no UTF-8."""

RecordT = TypeVar("RecordT", bound=Record)


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """libyaml scans and parses, Python composes: libyaml's own composer crashes on what is nested too deeply.

    Only what JSON has too: a date is a text, and other tags are refused.
    """

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in forms if tag != _TIMESTAMP]
        for first, forms in Resolver.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {
        tag: construct for tag, construct in SafeConstructor.yaml_constructors.items() if tag not in _NOT_IN_JSON
    }

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
        if text[error.start] in _BYTES:
            raise SpecError([_not_utf8(name, error)]) from error
        line = text.count("\n", 0, error.start) + 1
        raise _not_yaml(name, line, "half a character (a lone surrogate)") from error
    except RecursionError as error:
        raise _not_yaml(name, 1, "nested too deeply") from error


def utf8_problem(name: str, text: str) -> str | None:
    """
    :param text: as `surrogateescape` reads a file.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return _not_utf8(name, error)
    return None


def _not_utf8(name: str, error: UnicodeEncodeError) -> str:
    line = error.object.count("\n", 0, error.start) + 1
    return f"{name}:{line}: not UTF-8 text (iconv -f latin1 -t utf-8 {name}, if it is Latin-1)"


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
        entries = [self._entry(key, value, location, inside) for key, value in node.value]
        # Merged keys, sets and unhashable keys are for the library.
        if node.tag != _MAPPING or any(key.tag not in _PLAIN_KEYS for key, _value in node.value):
            return self.loader.construct_object(node, deep=True)
        return dict(entries)

    def _entry(
        self, key_node: yaml.Node, value_node: yaml.Node, location: Location, around: tuple[int, ...]
    ) -> tuple[str, Any]:
        """A key is the text that stands there: YAML 1.1 reads `on` and `no` as truth values."""
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node)
        here = (*location, key)
        line = key_node.start_mark.line + 1
        if key_node.tag == _NULL:
            raise SpecError([f"{self.name}:{line}: a key is null: it needs a name, or quotes"])
        if here in self.lines:
            raise SpecError([f"{self.name}:{line}: the key '{key}' is here twice"])
        self.lines[here] = line
        self._whole(key, line)
        return key, self.value(value_node, here, around)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        self._whole(node.value, line)
        if node.tag == _STRING:
            return node.value
        try:
            value = self.loader.construct_object(node)
        except ValueError as error:
            raise _not_yaml(self.name, line, str(error).partition(";")[0]) from error
        if isinstance(value, int) and abs(value) >= _MOST:
            raise _not_yaml(self.name, line, "a number with too many digits")
        if isinstance(value, float) and not isfinite(value):
            raise _not_yaml(self.name, line, f"'{node.value}' is no number that can be stored")
        return value

    def _whole(self, text: str, line: int) -> None:
        if not text.isascii() and _HALF_LETTER.search(text):
            raise _not_yaml(self.name, line, "half a character (a lone surrogate) cannot be stored")


def validate(source: YamlSource, model: type[RecordT]) -> RecordT:
    """
    :raises SpecError: with one line per problem, each with file, line, key and the nearest known name.
    """
    if not isinstance(source.data, dict):
        keys = ", ".join(model.__struct_encode_fields__)
        raise SpecError([f"{source.name}:1: expected a mapping with {keys}"])
    try:
        return model.from_plain(source.data)
    except MistakesError as error:
        found = sorted(error.mistakes, key=lambda each: source.line_of(each.location))
        raise SpecError([_problem(source, each) for each in found]) from error


def _problem(source: YamlSource, mistake: Mistake) -> str:
    key = ".".join(map(str, mistake.location))
    match mistake.key:
        case "unknown":
            return source.problem(mistake.location, f"unknown key '{key}'{mistake.what.removeprefix('unknown key')}")
        case "missing":
            return source.problem(mistake.location, f"'{key}' is missing")
        case None:
            return source.problem(mistake.location, mistake.text)
