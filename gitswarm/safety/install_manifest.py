"""Files that git-swarm changes outside of its own folders, as values: what was there, what is there now."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from gitswarm.errors import SwarmError
from gitswarm.records.base import Record

EXECUTABLE = 0o755
PLAIN = 0o644
_LINK = 0o120000


class FileState(Record):
    """Bytes (base64) and permissions of a file, or the target of a symbolic link."""

    content: str
    mode: int

    @classmethod
    def of(cls, content: bytes, mode: int = PLAIN) -> FileState:
        return cls(content=base64.b64encode(content).decode(), mode=mode)

    @classmethod
    def link(cls, target: str) -> FileState:
        return cls.of(os.fsencode(target), _LINK)

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.content)


class Entry(Record):
    """One line of a git configuration file."""

    key: str
    value: str


class Change(Record):
    """What becomes of one file; None: there is none. `added` and `removed`: which entries, in a configuration file.

    `place`: the absolute path, percent-encoded, as it need not be text.
    """

    place: str
    before: FileState | None
    after: FileState | None
    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(unquote_to_bytes(self.place)))

    @property
    def is_configuration(self) -> bool:
        return bool(self.added or self.removed)


class InstallManifest(Record):
    """`<common dir>/swarm/init.json`: everything that `init` changed, oldest first."""

    changes: tuple[Change, ...] = ()


def change(path: Path, after: FileState | None) -> Change:
    """The change that makes `path` what `after` says."""
    return Change(place=quote(os.fsencode(path)), before=state_of(path), after=after)


def effective(changes: Iterable[Change]) -> list[Change]:
    """Those that change anything."""
    return [one for one in changes if one.before != one.after]


def state_of(path: Path) -> FileState | None:
    """What lies there; None: nothing, or a folder."""
    if path.is_symlink():
        return FileState.link(str(path.readlink()))
    if not path.is_file():
        return None
    return FileState.of(path.read_bytes(), path.stat().st_mode & 0o7777)


def put(path: Path, state: FileState | None) -> None:
    """Makes `path` so, at once, under the lock that git itself takes for a file.

    :raises SwarmError: somebody else is writing to it.
    """
    if state is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f"{path.name}.lock")
    try:
        if state.is_link:
            staged.symlink_to(os.fsdecode(state.bytes))
        else:
            with staged.open("xb") as file:
                file.write(state.bytes)
            staged.chmod(state.mode)
    except FileExistsError as error:
        raise SwarmError(
            f"{staged} exists: another process writes to {path.name}, or one was killed doing so",
            hint=f"rm {staged}   (when no git runs), and the same command again",
        ) from error
    staged.replace(path)
