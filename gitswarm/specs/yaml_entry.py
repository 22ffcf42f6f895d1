"""Another value for one key in a YAML text. Everything else, comments and layout too, stays as it is: a library that
reads and writes the whole ties a comment to what is above it, and drops both together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import yaml

from gitswarm.errors import NotFoundError, SpecError

_Entry = tuple[yaml.Node, yaml.Node]


def with_entry(text: str, path: Sequence[str], value: Any) -> str:
    """
    :param text: a valid document: a mapping, or nothing but comments.
    :param path: of keys; mappings that are missing come with it.
    :raises SpecError: the text is written in a way that cannot be changed like that.
    """
    wanted = _copied(_data(text), path)
    here = wanted
    for part in path[:-1]:
        here = here.setdefault(part, {})
    here[path[-1]] = value
    mapping, found, rest = _deepest(text, path)
    if mapping is None:
        new = text + ("\n" if text and not text.endswith("\n") else "") + f"{_lines(path, value, 0)}\n"
    elif not rest or not isinstance(mapping, yaml.MappingNode):
        new = _replaced(text, found, _at(wanted, path[: len(path) - len(rest)]))
    else:
        new = _inserted(text, mapping, rest, value)
    return _checked(new, wanted)


def without_entry(text: str, path: Sequence[str]) -> str:
    """Mappings that get empty go with it.

    :raises NotFoundError: the key is not there.
    :raises SpecError: as `with_entry`.
    """
    _mapping, _found, rest = _deepest(text, path)
    if rest or not path:
        raise NotFoundError(f"'{'.'.join(path)}' is not set there", hint="git swarm config")
    wanted = _copied(_data(text), path)
    around = [wanted]
    for part in path[:-1]:
        around.append(around[-1][part])
    del around[-1][path[-1]]
    gone = len(path)
    while gone > 1 and not around[gone - 1]:
        gone -= 1
        del around[gone - 1][path[gone - 1]]
    mapping, found, _rest = _deepest(text, path[:gone])
    if mapping is None or found is None:
        return text
    if _is_flow(mapping):
        start, end = mapping.start_mark.index, mapping.end_mark.index
        return _checked(text[:start] + _flow(around[gone - 1]) + text[end:], wanted)
    start = text.rfind("\n", 0, found[0].start_mark.index) + 1
    end = text.find("\n", _content_end(text, found))
    return _checked(text[:start] + ("" if end < 0 else text[end + 1 :]), wanted)


def _deepest(text: str, path: Sequence[str]) -> tuple[yaml.Node | None, _Entry | None, list[str]]:
    """How far a path leads: the mapping that it ends in, its entry there, and what is missing of the path. Where an
    entry has no mapping below it, that value stands for the mapping."""
    mapping: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    found: _Entry | None = None
    for index, part in enumerate(path):
        here = found[1] if found is not None else mapping
        if not isinstance(here, yaml.MappingNode):
            return here, found, list(path[index:])
        mapping = here
        entry = next((pair for pair in here.value if pair[0].value == part), None)
        if entry is None:
            return here, found, list(path[index:])
        found = entry
    return mapping, found, []


def _replaced(text: str, entry: _Entry | None, value: Any) -> str:
    assert entry is not None  # noqa: S101 - a document is a mapping
    colon = text.index(":", entry[0].end_mark.index)
    end = max(_content_end(text, entry), colon + 1)
    return f"{text[: colon + 1]} {_flow(value)}{text[end:]}"


def _inserted(text: str, mapping: yaml.MappingNode, path: Sequence[str], value: Any) -> str:
    if _is_flow(mapping):
        nested = value
        for part in reversed(path[1:]):
            nested = {part: nested}
        before = text[: mapping.end_mark.index - 1].rstrip()
        comma = ", " if mapping.value and not before.endswith(",") else ""
        return f"{before}{comma}{_flow({path[0]: nested})[1:-1]}{text[mapping.end_mark.index - 1 :]}"
    end = text.find("\n", _content_end(text, mapping.value[-1]))
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{_lines(path, value, mapping.start_mark.column)}{text[end:]}"


def _lines(path: Sequence[str], value: Any, indent: int) -> str:
    """Nested keys, a line each."""
    lines = [f"{' ' * (indent + 2 * depth)}{_flow(part)}:" for depth, part in enumerate(path)]
    return "\n".join(lines) + f" {_flow(value)}"


def _flow(value: Any) -> str:
    """On one line."""
    return yaml.safe_dump([value], default_flow_style=True, width=sys.maxsize, allow_unicode=True).strip()[1:-1]


def _is_flow(node: yaml.Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _content_end(text: str, entry: _Entry) -> int:
    """Where the value of an entry ends, without the comments below it."""
    key, value = entry
    if isinstance(value, yaml.CollectionNode) and not _is_flow(value) and value.value:
        last = value.value[-1]
        return _content_end(text, last if isinstance(last, tuple) else (last, last))
    end = value.end_mark.index
    return max(len(text[:end].rstrip()), key.end_mark.index)


def _data(text: str) -> Any:
    return yaml.safe_load(text) or {}


def _copied(data: Any, path: Sequence[str]) -> Any:
    """With mappings of its own along a path; what is no mapping there makes way for one."""
    if not path or not isinstance(data, dict):
        return {} if path else data
    return {**data, path[0]: _copied(data[path[0]], path[1:])} if path[0] in data else dict(data)


def _at(data: Any, path: Sequence[str]) -> Any:
    for part in path:
        data = data[part]
    return data


def _checked(new: str, wanted: Any) -> str:
    try:
        same = _data(new) == wanted
    except yaml.YAMLError:
        same = False
    if not same:
        raise SpecError(["this file is written in a way that cannot be edited automatically"], hint="edit it by hand")
    return new
