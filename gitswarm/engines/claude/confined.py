"""A session inside of a sandbox: what it needs to see, and a state folder of its own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines import ask_owner
from gitswarm.engines.claude.order import SessionOrder

_CREDENTIALS = ".credentials.json"
_LOGIN = "claudeAiOauth"
_USERS = ("settings.json", "CLAUDE.md")


def confined_order(order: SessionOrder, containment: Containment) -> SessionOrder:
    """The same session, confined. Its state goes with the session's folder; none of the user's ever reads it."""
    state = order.folder / "state"
    state.mkdir(mode=0o700)
    users = Path(order.env.get("CLAUDE_CONFIG_DIR") or Path(order.env.get("HOME", "/nowhere")) / ".claude")
    _bring_login(users, state)
    for name in _USERS if "user" in order.settings.setting_sources else ():
        with suppress(FileNotFoundError):
            shutil.copyfile(users / name, state / name)
    program = order.program.resolve()
    needed = (order.folder, order.program, program.parent, Path(ask_owner.__file__))
    env = {**order.env, **containment.environment, "CLAUDE_CONFIG_DIR": str(state)}
    return replace(order, env=env, containment=containment.opened(read=needed, write=(state,)))


def _bring_login(users: Path, state: Path) -> None:
    """Without what renews it: a session that did would leave the user's own with a token that is not valid any more,
    and an agent with one that is for months."""
    try:
        said = json.loads((users / _CREDENTIALS).read_bytes())
    except (OSError, ValueError):
        return
    login = said.get(_LOGIN) if isinstance(said, Mapping) else None
    if isinstance(login, Mapping):
        kept = {name: value for name, value in login.items() if name != "refreshToken"}
        with os.fdopen(os.open(state / _CREDENTIALS, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump({_LOGIN: kept}, file)
