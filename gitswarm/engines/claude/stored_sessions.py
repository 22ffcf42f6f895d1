"""The files in which Claude Code remembers a session: copied, so that a later process goes on with it."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path

import msgspec
from msgspec import Struct

from gitswarm.engines.claude.said import Usage

_PROJECTS = "projects"
_USAGE = "usage.json"
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class StoredSession(Struct, frozen=True):
    """`id`: by which it is resumed. `usage`: what its processes used so far, as Claude Code adds it up."""

    id: str
    usage: Usage


def keep_session(config: Path, session: StoredSession, kept: Path) -> None:
    """
    :param config: where Claude Code keeps what is the user's.
    :param kept: a folder that is not there yet; nothing is made where nothing is remembered.
    """
    if _SESSION.fullmatch(session.id) is None:
        return
    for found in (config / _PROJECTS).glob(f"*/{session.id}*"):
        place = kept / _PROJECTS / found.parent.name / found.name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if found.is_dir():  # what its subagents said, and outputs that were too long
            shutil.copytree(found, place, symlinks=True)
        else:
            shutil.copyfile(found, place)
    if kept.is_dir():
        (kept / _USAGE).write_bytes(msgspec.json.encode(session.usage))


def lay_session_out(kept: Path, config: Path) -> StoredSession:
    """Writes a kept conversation where Claude Code looks for it.

    Its id there is new: what comes in the conversation now is not in the kept one, nor in the user's own.

    :raises ValueError: somebody took it away.
    """
    (found,) = (kept / _PROJECTS).glob("*/*.jsonl")
    old, new = found.stem, str(uuid.uuid4())
    for path in sorted((kept / _PROJECTS).rglob("*")):
        name = path.relative_to(kept).as_posix().replace(old, new)
        if path.is_file() and not path.is_symlink():
            (config / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (config / name).write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    return StoredSession(new, msgspec.json.decode((kept / _USAGE).read_bytes(), type=Usage))
