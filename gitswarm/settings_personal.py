"""A person's configuration, `git config swarm.*`: its keys, and how its values go over the team's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, get_args, get_origin

from msgspec.structs import fields

from gitswarm.errors import SpecError
from gitswarm.records.mistakes import Location, MistakesError
from gitswarm.records.record import Record
from gitswarm.records.run_spec import BudgetRules
from gitswarm.records.safety import NetworkRule, SandboxRule, plain_switch
from gitswarm.records.text import did_you_mean
from gitswarm.specs.yaml_source import parse_yaml

TEAM_FILE = ".swarm/config.yaml"

_SHORT_KEYS = {"worktreedir": ("worktree", "dir"), "context": ("context", "profile")}
"""`git config swarm.worktreeDir` reads better than `swarm.worktree.dir`; both work."""


ADDED_UP = (("policy", "deny"), ("policy", "protected_paths"))
_TEAM_ONLY = (("secrets", "allow_paths"), ("review", "remote"), ("policy", "env"))
_STRICTER = (("deploy", "require_signature"),)
_SMALLER = tuple(("budget", name) for name in BudgetRules.__struct_fields__)
_ORDERED = {("policy", "sandbox"): get_args(SandboxRule), ("policy", "network"): get_args(NetworkRule)}
"""Values from loose to strict: a person's never loosens what the team wrote."""
_FORGE = ("review", "forge")
_HOSTS = ("policy", "allow_hosts")
"""A person's, where the team wrote none."""


class EntryError(SpecError):
    """An entry of git's configuration is wrong. `name`: git's name of it; `key`: ours, "" where we have none."""

    def __init__(self, name: str, key: str, what: str, *, hint: str = "") -> None:
        problem = f"git config: {key}: {what}" if key else f"git config: {what}"
        unset = f"git swarm config --unset {key}" if key else f"git config --unset-all {name}"
        super().__init__([problem], hint=hint or unset)
        self.name = name
        self.key = key
        self.what = what


class UnknownKeyError(Exception):
    """No key of configuration; `known` could stand in the place of `part`."""

    def __init__(self, part: str, known: list[str]) -> None:
        super().__init__(part)
        self.part = part
        self.known = known


def parsed_value(key: str, text: str) -> Any:
    """
    :raises SpecError: it is no YAML, empty, or has a NUL byte.
    """
    try:
        value = parse_yaml("", text).data
    except SpecError as error:
        said = error.message.partition(": ")[2].removeprefix("not valid YAML: ")
        raise SpecError([f"{key}: not a value: {said}"], hint=f"git swarm config {key} VALUE") from error
    if value == "" or not text.strip():
        raise SpecError([f"{key}: the value is empty"], hint=f"git swarm config --unset {key}")
    if next(has_nul(value), None) is not None:
        raise SpecError([f"{key}: a NUL byte"], hint=f"git swarm config {key} VALUE")
    return value


def has_nul(value: object, place: Location = ()) -> Iterator[Location]:
    """Where there are texts that no command, path or variable can hold."""
    if isinstance(value, str):
        yield from (place,) if "\0" in value else ()
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from has_nul(each, (*place, key))


def entry_value(model: type[Record], name: str, text: str) -> Any:
    """
    :raises EntryError: there is no such key, or this is no value.
    """
    key = ".".join(_entry_path(model, name))
    try:
        return parsed_value(key, text)
    except SpecError as error:
        raise EntryError(name, key, error.message.removeprefix(f"{key}: ")) from error


def entry_of(model: type[Record], location: tuple[int | str, ...], names: Iterable[str]) -> tuple[str, str]:
    """Name and key of the entry that sets a location of the configuration; the last, if none is about it."""
    paths = {name: _entry_path(model, name) for name in names}
    name = next((each for each, path in paths.items() if location[: len(path)] == path), list(paths)[-1])
    return name, ".".join(paths[name])


def _entry_path(model: type[Record], name: str) -> tuple[str, ...]:
    try:
        return key_path(model, name.partition(".")[2])
    except UnknownKeyError as error:
        near = did_you_mean(error.part, error.known)
        raise EntryError(name, "", f"unknown key '{name}'{near}") from error


def key_path(model: type[Record], key: str) -> tuple[str, ...]:
    """`engines.claude.mode` or `worktreeDir` as a path of config keys.

    git lower-cases the last part, so names are compared without case and underscores.

    :raises UnknownKeyError: there is no such key.
    """
    parts = key.split(".")
    if len(parts) == 1 and parts[0].lower() in _SHORT_KEYS:
        return _SHORT_KEYS[parts[0].lower()]
    path: list[str] = []
    here: type[Record] | None = model
    for part in parts:
        if here is None:
            path.append(part)
            continue
        known = {field.encode_name: field for field in fields(here)}
        match = next((name for name in known if _plain(name) == _plain(part)), None)
        if match is None:
            raise UnknownKeyError(part, list(known))
        path.append(match)
        here = _section(known[match].type)
    return tuple(path)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def known_keys(model: type[Record]) -> list[tuple[str, ...]]:
    """The path of every key, in the order of the models; a mapping counts as one."""
    found: list[tuple[str, ...]] = []
    for field in fields(model):
        section, key = _section(field.type), field.encode_name
        found += [(key,)] if section is None else [(key, *below) for below in known_keys(section)]
    return found


def _section(annotation: object) -> type[Record] | None:
    """What has keys of its own; a short form of it may stand there too."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return inner if isinstance(inner, type) and issubclass(inner, Record) else None


def is_laid_over(path: tuple[str, ...]) -> bool:
    """Whether a person's entries of this key are laid over the team's, name by name: variables of an engine."""
    return len(path) == 3 and (path[0], path[2]) == ("engines", "env")


def put_personal(model: type[Record], merged: dict[str, Any], name: str, value: Any) -> None:
    """What a person configured goes before what the team did; where safety is at stake it only adds to it.

    :raises EntryError: there is no such key, or it is the team's alone.
    """
    path = _entry_path(model, name)
    key = ".".join(path)
    if (
        path in _TEAM_ONLY
        or (path == _HOSTS and _HOSTS[1] in _get(merged, path[:1]))
        or (path == _FORGE and value not in ("none", _get(merged, path[:1]).get(path[1], "none")))
    ):
        hint = f"git swarm config --unset {key}   (the place for it is {TEAM_FILE})"
        raise EntryError(name, key, "this would loosen what the team agreed on", hint=hint)
    if path in ADDED_UP:
        team = merged.get(path[0], {}).get(path[1], [])
        value = [*team, *(value if isinstance(value, list) else [value])]
    if is_laid_over(path) and isinstance(value, dict):
        value = {**_get(merged, path), **value}
    if path in _STRICTER:
        value = value or merged.get(path[0], {}).get(path[1], False)
    if path in _SMALLER:
        try:
            value = BudgetRules.smaller(path[-1], value, _get(merged, path[:1]).get(path[-1]))
        except MistakesError as error:
            raise EntryError(name, key, error.mistakes[0].what) from error
    if path in _ORDERED:
        value = _stricter(_ORDERED[path], plain_switch(value), _get(merged, path[:1]).get(path[1]))
    _put(merged, path, value)


def _stricter(known: tuple[str, ...], said: Any, team: Any) -> Any:
    team = plain_switch(team)
    return team if said in known and team in known and known.index(team) > known.index(said) else said


def _get(merged: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    found: Any = merged
    for key in path:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value
