"""Keys of configuration one by one: what each is and where that comes from, and another value for it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.adapter import VARIABLE
from gitswarm.engines.registry import BrokenEngineError, adapter_of, known_names
from gitswarm.errors import NotFoundError, SpecError
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
from gitswarm.specs.yaml_entry import with_entry, without_entry
from gitswarm.specs.yaml_source import did_you_mean, nearest, parse_yaml

if TYPE_CHECKING:
    from pydantic import JsonValue

Path = tuple[str, ...]

_MISSING = object()
_NAME_IN_GIT = re.compile(r"[a-z][a-z0-9-]*")


class Setting(Struct, frozen=True):
    """A key with the value that a run started now would have. `origin`: `default`, `team` (`.swarm/config.yaml`),
    `git config`, `team and git config` or `environment`."""

    key: str
    value: JsonValue
    origin: str

    def to_json(self) -> dict[str, JsonValue]:
        return {"key": self.key, "value": self.value, "origin": self.origin}


def _whole() -> type[Config]:
    """With a section for each engine that there is."""
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
    if path in _sections():
        below = ", ".join(".".join(each) for each in known_keys(_whole()) if each[: len(path)] == path)
        raise NotFoundError(f"'{key}' is a section: {below}", hint="git swarm config")
    return path


def _sections() -> set[Path]:
    return {each[:length] for each in known_keys(_whole()) for length in range(1, len(each))}


def settings(team: str | None, personal: Mapping[str, str], env: Mapping[str, str]) -> list[Setting]:
    """Every key.

    :param team: text of `.swarm/config.yaml`.
    :param personal: entries of git's configuration below `swarm.`.
    :raises SpecError: the configuration is wrong.
    """
    return [setting(path, team, personal, env) for path in known_keys(_whole())]


def setting(path: Path, team: str | None, personal: Mapping[str, str], env: Mapping[str, str]) -> Setting:
    """
    :param path: of a key, or of an entry of one that is a mapping.
    :raises NotFoundError: there is no such entry.
    """
    key = ".".join(path)
    value = _configured(team, personal, path)
    by_env = _from_environment(path, env)
    if by_env is not None:
        return Setting(key, by_env, "environment")
    written = _is_written(team, path)
    if value is _MISSING:
        raise NotFoundError(f"{key} is not set", hint=f"git swarm config {key} VALUE")
    if value != _configured(team, {}, path) or (_names(path, personal) and not written):
        both = written and (path in ADDED_UP or is_laid_over(path))
        return Setting(key, value, "team and git config" if both else "git config")
    return Setting(key, value, "team" if written else "default")


def _from_environment(path: Path, env: Mapping[str, str]) -> str | None:
    with contextlib.suppress(BrokenEngineError):
        match path:
            case ("engines", name, "mode"):
                return adapter_of(name).mode_from_env(env)
            case ("engines", name, "cli"):
                return adapter_of(name).program_from_env(env)
    return None


def _configured(team: str | None, personal: Mapping[str, str], path: Path) -> Any:
    return _at(load_config(team, personal, _whole()).model_dump(mode="json", by_alias=True), path)


def _at(found: Any, path: Path) -> Any:
    """`_MISSING`: a mapping has no such entry."""
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return _MISSING
        found = found[part]
    return found


def _is_written(team: str | None, path: Path) -> bool:
    written = parse_yaml(CONFIG_FILE, team).data if team else None
    in_short = path == ("context", "profile") and isinstance(_at(written, path[:1]), str)
    return in_short or _at(written, path) is not _MISSING


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
    old = _names(path, personal)
    if path in known_keys(_whole()) or _NAME_IN_GIT.fullmatch(path[-1]):
        name = _name_in_git(path)
        others = {each: value for each, value in personal.items() if each not in old}
        return PersonalChange(
            tuple(each for each in old if each != _lower(name)), name, _fitting(name, text, team, others)
        )
    # Names with capitals or underscores are no names for git: the whole mapping is one value.
    whole = path[:-1]
    name = _name_in_git(whole)
    merged = {**(parsed_value(key, personal.get(_lower(name), "{}")) or {}), path[-1]: given}
    others = {each: value for each, value in personal.items() if each != _lower(name)}
    return PersonalChange((), name, _fitting(name, json.dumps(merged), team, others))


def unset_personal(path: Path, personal: Mapping[str, str]) -> PersonalChange:
    """
    :raises NotFoundError: it is not set.
    """
    names = _names(path, personal)
    if names:
        return PersonalChange(tuple(names))
    name = _name_in_git(path[:-1]) if path not in known_keys(_whole()) else ""
    merged = parsed_value(name, personal.get(_lower(name), "{}")) if name else None
    if not isinstance(merged, dict) or path[-1] not in merged:
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
    """As git lists it: the last part without capitals."""
    head, _dot, last = name.rpartition(".")
    return f"{head}.{last.lower()}"


def _names(path: Path, personal: Mapping[str, str]) -> list[str]:
    """Entries of git's configuration that are about a key, or something in it."""
    found = []
    for name in personal:
        try:
            own = key_path(_whole(), name.partition(".")[2])
        except UnknownKeyError:
            continue
        if own[: len(path)] == path:
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
