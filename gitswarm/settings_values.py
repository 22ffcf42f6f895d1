"""Keys of configuration one by one: what each is and where that comes from, and another value for it: in git's
configuration, or in the team's file, of which everything else, comments and layout too, stays as it is: a library
that reads and writes the whole ties a comment to what is above it, and drops both together."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.adapter import VARIABLE
from gitswarm.engines.registry import BrokenEngineError, adapter_of, known_names
from gitswarm.errors import NotFoundError, SpecError
from gitswarm.records.text import did_you_mean, nearest
from gitswarm.settings import CONFIG_FILE, KEY_NAME, Config, config_with, load_config
from gitswarm.settings_personal import (
    ADDED_UP,
    EntryError,
    UnknownKeyError,
    is_laid_over,
    key_path,
    known_keys,
    parsed_value,
)
from gitswarm.specs.yaml_source import parse_yaml

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue

Path = tuple[str, ...]

_MISSING = object()
_NAME_IN_GIT = re.compile(r"[a-z][a-z0-9-]*")


class Setting(Struct, frozen=True):
    """A key with the value that a run started now would have. `origin`: `default`, `team` (`.swarm/config.yaml`),
    `git config`, `team and git config` or `environment`."""

    key: str
    value: JsonValue
    origin: str


def _whole() -> type[Config]:
    """The configuration with a section for each engine that there is."""
    return config_with(known_names())


def find_key(key: str) -> Path:
    """The path of a key as a person writes it: `engines.claude.mode`, `swarm.worktreeDir`, `engines.flows.gate`.

    :raises NotFoundError: there is no such key.
    """
    try:
        path = key_path(_whole(), key.removeprefix("swarm."))
    except UnknownKeyError as error:
        whole = nearest(key, [".".join(each) for each in known_keys(_whole())])
        near = f" (did you mean '{whole}'?)" if whole else did_you_mean(error.part, error.known)
        raise NotFoundError(f"there is no key '{key}'{near}", hint="git swarm config") from error
    below = [".".join(each) for each in known_keys(_whole()) if each != path and each[: len(path)] == path]
    if below:
        raise NotFoundError(f"'{key}' is a section: {', '.join(below)}", hint="git swarm config")
    return path


def settings(
    team: str | None, personal: Mapping[str, str], env: Mapping[str, str], only: Path | None = None
) -> list[Setting]:
    """Every key, or one.

    :param team: text of `.swarm/config.yaml`.
    :param personal: entries of git's configuration below `swarm.`.
    :param only: path of a key, or of an entry of one that is a mapping.
    :raises SpecError: the configuration is wrong.
    :raises NotFoundError: there is no such entry.
    """
    model = _whole()
    ours, teams = (load_config(team, each, model).to_plain() for each in (personal, {}))
    written = parse_yaml(CONFIG_FILE, team).data if team else {}
    if isinstance(_at(written, ("context",)), str):
        written = {**written, "context": {"profile": written["context"]}}
    found = []
    for path in known_keys(model) if only is None else [only]:
        key, value = ".".join(path), _at(ours, path)
        if (by_env := _from_environment(path, env)) is not None:
            found.append(Setting(key, by_env, "environment"))
        elif value is _MISSING:
            raise NotFoundError(f"{key} is not set", hint=f"git swarm config {key} VALUE")
        else:
            is_teams = _at(written, path) is not _MISSING
            is_own = value != _at(teams, path) or (bool(_names(path, personal)) and not is_teams)
            found.append(Setting(key, value, _origin(path, is_teams=is_teams, is_own=is_own)))
    return found


def _origin(path: Path, *, is_teams: bool, is_own: bool) -> str:
    if is_own:
        is_both = is_teams and (path in ADDED_UP or is_laid_over(path))
        return "team and git config" if is_both else "git config"
    return "team" if is_teams else "default"


def _from_environment(path: Path, env: Mapping[str, str]) -> str | None:
    with contextlib.suppress(BrokenEngineError):
        match path:
            case ("engines", name, "mode"):
                return adapter_of(name).mode_from_env(env)
            case ("engines", name, "cli"):
                return adapter_of(name).program_from_env(env)
    return None


def _at(found: Any, path: Sequence[str]) -> Any:
    """`_MISSING`: a mapping has no such entry."""
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return _MISSING
        found = found[part]
    return found


def without_secrets(found: Setting) -> Setting:
    """Keys of a provider that a person wrote into git's configuration are shown to nobody."""
    path = tuple(found.key.split("."))
    if not is_laid_over(path[:3]):
        return found
    if path[3:] or not isinstance(found.value, dict):
        return replace(found, value=_masked(path[-1], found.value))
    return replace(found, value={name: _masked(name, value) for name, value in found.value.items()})


def _masked(name: str, value: JsonValue) -> JsonValue:
    return "***" if KEY_NAME.search(name) and not VARIABLE.search(str(value)) else value


class PersonalChange(Struct, frozen=True):
    """What is to be done in git's configuration: entries that go, and one that comes."""

    removed: tuple[str, ...]
    name: str = ""
    value: str = ""


def set_personal(path: Path, text: str, team: str | None, personal: Mapping[str, str]) -> PersonalChange:
    """
    :raises SpecError: the value is not one for this key, or it would loosen what the team wrote; or another entry is
        wrong.
    """
    key = ".".join(path)
    given = parsed_value(key, text)
    name, old = _name_in_git(path), _names(path, personal)
    if path not in known_keys(_whole()) and not _NAME_IN_GIT.fullmatch(path[-1]):
        # Names with capitals or underscores are no names for git: the whole mapping is one value.
        name = _name_in_git(path[:-1])
        text, old = json.dumps({**_mapping(key, name, personal), path[-1]: given}), [_lower(name)]
    others = {each: value for each, value in personal.items() if each not in old}
    removed = tuple(each for each in old if each != _lower(name))
    return PersonalChange(removed, name, _fitting(name, text, team, others))


def unset_personal(path: Path, personal: Mapping[str, str]) -> PersonalChange:
    """
    :raises NotFoundError: it is not set.
    """
    names = _names(path, personal)
    if names:
        return PersonalChange(tuple(names))
    name = _name_in_git(path[:-1]) if path not in known_keys(_whole()) else ""
    merged = _mapping(name, name, personal)
    if path[-1] not in merged:
        raise NotFoundError(f"git config does not set {'.'.join(path)}", hint=f"git swarm config {'.'.join(path)}")
    del merged[path[-1]]
    return PersonalChange((), name, json.dumps(merged)) if merged else PersonalChange((name,))


def _fitting(name: str, text: str, team: str | None, others: Mapping[str, str]) -> str:
    """The text as it is to be stored: quoted where YAML takes a text for something else.

    :param others: the entries that stay; all are read with it, as the next command will.
    :raises SpecError: it does not fit.
    """
    try:
        load_config(team, {**others, name: text})
    except EntryError as error:
        if error.name != name:
            raise
        quoted = json.dumps(text)
        try:
            load_config(team, {**others, name: quoted})
        except SpecError:
            what = f"{error.key}: {error.what}"
            raise SpecError([what], hint="git swarm config   (keys and their values)") from error
        return quoted
    return text


def _name_in_git(path: Path) -> str:
    first, *rest = path[-1].split("_")
    return ".".join(("swarm", *path[:-1], first + "".join(word.capitalize() for word in rest)))


def _lower(name: str) -> str:
    """The name as git lists it: its last part without capitals."""
    head, _dot, last = name.rpartition(".")
    return f"{head}.{last.lower()}"


def _mapping(key: str, name: str, personal: Mapping[str, str]) -> dict[str, Any]:
    """What an entry that is a whole mapping holds.

    :param key: as an error calls it.
    """
    found = parsed_value(key, personal.get(_lower(name), "{}"))
    return found if isinstance(found, dict) else {}


def _names(path: Path, personal: Mapping[str, str]) -> list[str]:
    """Entries of git's configuration that are about a key, or something in it."""
    found = []
    for name in personal:
        with contextlib.suppress(UnknownKeyError):
            if key_path(_whole(), name.partition(".")[2])[: len(path)] == path:
                found.append(name)
    return found


def with_team_value(text: str | None, path: Path, value: str | None) -> str:
    """The text of `.swarm/config.yaml` with another value for a key; comments, order and layout stay.

    :param value: YAML; None: the key goes.
    :raises SpecError: the text would not be valid.
    :raises NotFoundError: the key that is to go is not there.
    """
    old = text or ""
    written = parse_yaml(CONFIG_FILE, old).data or {}
    if isinstance(written.get("context"), str) and path[0] == "context":
        old = with_entry(old, ("context",), {"profile": written["context"]})
    if value is None:
        return _valid(without_entry(old, path))
    key = ".".join(path)
    try:
        given = parsed_value(key, value)
    except SpecError as error:
        raise SpecError(error.problems, hint=f"git swarm config --team --unset {key}") from error
    there = _at(written, path)
    if text is not None and any(type(each) is type(there) and each == there for each in (given, value)):
        return _valid(text)
    try:
        return _valid(with_entry(old, path, given))
    except SpecError:
        # `echo a: b` is a mapping to YAML, and a command to people.
        if given != value:
            with contextlib.suppress(SpecError):
                return _valid(with_entry(old, path, value))
        raise


def _valid(text: str) -> str:
    try:
        load_config(text, {})
    except SpecError as error:
        raise SpecError(error.problems, hint="git swarm config   (nothing was written)") from error
    return text


_Entry = tuple[yaml.Node, yaml.Node]


def with_entry(text: str, path: Sequence[str], value: Any) -> str:
    """
    :param text: a valid document: a mapping, or nothing but comments.
    :param path: of keys; mappings that are missing come with it.
    :raises SpecError: the text is written in a way that cannot be changed like that.
    """
    wanted = _copied((yaml.safe_load(text) or {}), path)
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
    wanted = _copied((yaml.safe_load(text) or {}), path)
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
    """A value on one line of YAML."""
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


def _copied(data: Any, path: Sequence[str]) -> Any:
    """A copy with mappings of its own along a path; what is no mapping there makes way for one."""
    if not path or not isinstance(data, dict):
        return {} if path else data
    return {**data, path[0]: _copied(data[path[0]], path[1:])} if path[0] in data else dict(data)


def _checked(new: str, wanted: Any) -> str:
    with contextlib.suppress(yaml.YAMLError):
        if (yaml.safe_load(new) or {}) == wanted:
            return new
    raise SpecError(["this file is written in a way that cannot be edited automatically"], hint="edit it by hand")
