"""What Claude Code keeps of the user's: the login, of which a confined session gets a part, and conversations.

`claude auth status` says less (a login counts, however old it is), and writes into the folder that it is asked about.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from gitswarm.engines.claude.messages import Usage
from gitswarm.records.record import timestamp

if TYPE_CHECKING:
    from gitswarm.engines.claude.provider import ClaudeProfile

_CREDENTIALS = ".credentials.json"
_LOGIN = "claudeAiOauth"
_RENEWS = "refreshToken"
_STATE = ".claude.json"
_KEY = "primaryApiKey"
_HELPER = "apiKeyHelper"
_VARIABLES = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
"""As Claude Code takes them, the first one first; each comes before what is in a file."""
_NONE = "no login found: export ANTHROPIC_API_KEY=…, or log in with `claude`"


def config_folder(env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps what is the user's."""
    return Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/nowhere") / ".claude")


def _state_file(env: Mapping[str, str]) -> Path:
    """Where Claude Code keeps, among much else, the key of a console login."""
    folder = config_folder(env)
    return (folder if env.get("CLAUDE_CONFIG_DIR") else folder.parent) / _STATE


def bring_login(env: Mapping[str, str], state: Path) -> None:
    """A login without what renews it: a session that did would leave the user's own with a token that is not valid
    any more, and an agent with one that is for months. The key of a console login is what ANTHROPIC_API_KEY would be.

    :param env: of a session that is not confined.
    """
    login = _mapping(_read(config_folder(env) / _CREDENTIALS).get(_LOGIN))
    key = _read(_state_file(env)).get(_KEY)
    if login:
        _write(state / _CREDENTIALS, {_LOGIN: {name: value for name, value in login.items() if name != _RENEWS}})
    elif key:
        _write(state / _STATE, {_KEY: key})


def _write(path: Path, content: Mapping[str, object]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)


def login_words(profile: ClaudeProfile, env: Mapping[str, str], now: datetime) -> str:
    """What sessions would use, never its value; "": not known.

    :param env: the caller's.
    """
    env = profile.environment(env)
    elsewhere = profile.elsewhere(env)
    given = elsewhere or next((name for name in _VARIABLES if env.get(name)), None)
    if given is not None:
        return given
    folder = config_folder(env)
    settings = folder / "settings.json"
    settings_read = _read(settings)
    in_settings = next(
        (
            name
            for name in (*_VARIABLES, _HELPER)
            if {**_mapping(settings_read.get("env")), **settings_read}.get(name)
        ),
        "",
    )
    reads = "user" in profile.settings.setting_sources
    if in_settings and reads:
        return f"{in_settings} in {settings}"
    login = _mapping(_read(folder / _CREDENTIALS).get(_LOGIN))
    if login.get("accessToken"):
        return f"the login in {folder}{_age(login, now)}"
    if _read(_state_file(env)).get(_KEY):
        return f"the key in {_state_file(env)}"
    if in_settings:
        return f"no login found: {in_settings} in {settings} needs engines.claude.setting_sources: [user]"
    return "" if sys.platform == "darwin" else _NONE  # there it is in the keychain, which asks


def _age(login: Mapping[str, object], now: datetime) -> str:
    """How long it is valid, where that is said."""
    expires = login.get("expiresAt")
    try:
        until = datetime.fromtimestamp(expires / 1000, UTC) if isinstance(expires, int | float) else None
    except (OverflowError, ValueError, OSError):  # no second of the calendar
        until = None
    if until is None:
        return ""
    if until > now:
        return f", valid until {timestamp(until)}"
    # A confined session does not get what renews it.
    how = "start `claude` once, which renews it" if login.get(_RENEWS) else "log in with `claude`"
    return f", which expired at {timestamp(until)}: {how}"


def _read(path: Path) -> Mapping[str, object]:
    """What is in a file of Claude Code's; nothing where it cannot be read."""
    try:
        return _mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


_PROJECTS = "projects"
_USAGE = "usage.json"
_MOST_BYTES = 16 << 20
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class StoredSession(Struct, frozen=True):
    """`id`: by which it is resumed. `usage`: what its processes used so far, as Claude Code adds it up."""

    id: str
    usage: Usage


def keep_session(config: Path, session: StoredSession, kept: Path) -> None:
    """
    :param config: where Claude Code keeps what is the user's; of a confined session its agent can write there.
    :param kept: a folder that is not there yet; nothing is made where nothing is remembered, or too much.
    """
    if _SESSION.fullmatch(session.id) is None:
        return
    files = [path for path in _own_files(config / _PROJECTS) if path.parts[1].removesuffix(".jsonl") == session.id]
    if sum((config / _PROJECTS / path).lstat().st_size for path in files) > _MOST_BYTES:
        return
    for path in files:
        place = kept / _PROJECTS / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(config / _PROJECTS / path, place, follow_symlinks=False)
    if files:
        (kept / _USAGE).write_bytes(msgspec.json.encode(session.usage))


def _own_files(folder: Path) -> Iterator[Path]:
    """Regular files in the folders of a folder. A link may lead to what its maker cannot read, and is none."""
    for above, folders, names in os.walk(folder) if not folder.is_symlink() else ():
        folders[:] = [name for name in folders if not Path(above, name).is_symlink()]
        for path in (Path(above, name) for name in names):
            if stat.S_ISREG(path.lstat().st_mode) and path.parent != folder:
                yield path.relative_to(folder)


def restore_session(kept: Path, config: Path) -> StoredSession:
    """Writes a kept conversation where Claude Code looks for it.

    Its id there is new: what comes in the conversation now is not in the kept one, nor in the user's own.

    :raises ValueError: somebody took it away.
    """
    (found,) = (kept / _PROJECTS).glob("*/*.jsonl")
    old, new = found.stem, str(uuid.uuid4())
    for path in _own_files(kept / _PROJECTS):
        place = config / _PROJECTS / path.as_posix().replace(old, new)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_bytes((kept / _PROJECTS / path).read_bytes().replace(old.encode(), new.encode()))
    return StoredSession(new, msgspec.json.decode((kept / _USAGE).read_bytes(), type=Usage))
