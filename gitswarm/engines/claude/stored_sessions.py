"""The files in which Claude Code remembers a session: copied, so that a later process goes on with it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from gitswarm.engines.claude.said import Usage

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


def lay_session_out(kept: Path, config: Path) -> StoredSession:
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
