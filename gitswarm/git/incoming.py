"""Objects that git wrote beside the object store, to be looked at before they are part of it (as `git receive-pack`
does with what is pushed)."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gitswarm.git.process import Git

PREFIX = "tmp_objdir-swarm-"
"""`git prune` sweeps folders that begin so far like this, and so do we."""

_ATTEMPTS = 20

_PIECE = 16_000_000


class Incoming:
    """A folder for objects and for an index that names them. Whatever is left of an earlier one goes at the start.

    Killed at any moment it leaves nothing but that folder, and objects in the store that nobody names.
    """

    def __init__(self, store: Path, name: str, *, durable: bool) -> None:
        """
        :param store: the folder of the repository's objects.
        :param name: tells apart who works at the same time: of one worktree, one at a time.
        """
        self._store = store
        self._durable = durable
        self._folder = store / f"{PREFIX}{name}"
        self.index = self._folder / "index"

    def __enter__(self) -> Self:
        self.empty()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._folder.rmdir()  # what was accepted left nothing behind
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)

    def empty(self) -> None:
        """Throws the objects and the index away."""
        try:
            self._folder.mkdir()
        except FileExistsError:
            shutil.rmtree(self._folder)
            self._folder.mkdir()

    @property
    def env(self) -> Mapping[str, str]:
        """Has git write objects and the index here, and read from the store what is not here."""
        return {
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OBJECT_DIRECTORY": str(self._folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(self._store)),
        }

    def pieces(self, git: Git, blob_id: str) -> Iterator[bytes] | None:
        """Content of a blob that is here, in pieces; None: it is not."""
        loose = self._folder / blob_id[:2] / blob_id[2:]
        if loose.exists():
            return _inflated(loose)
        # A file above core.bigFileThreshold comes in a pack.
        if (self._folder / "pack").is_dir() and self._has(git, blob_id):
            return self._streamed(git, blob_id)
        return None

    def accept(self) -> None:
        """Makes the objects part of the store."""
        for fan in sorted(self._folder.iterdir()):
            if fan.is_dir() and fan.name != "info":
                # An index of a pack comes last: what it names is there then.
                for path in sorted(fan.iterdir(), key=lambda path: path.suffix == ".idx"):
                    _move(path, self._store / fan.name)
                if self._durable:
                    _flush(self._store / fan.name)
                fan.rmdir()

    def _has(self, git: Git, blob_id: str) -> bool:
        only_here = {**self.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        return git.run("cat-file", "-e", blob_id, extra_env=only_here).returncode == 0

    def _streamed(self, git: Git, blob_id: str) -> Iterator[bytes]:
        argv, env = git.argv("cat-file", "blob", blob_id), {**git.env, **self.env}
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            while process.stdout is not None and (piece := process.stdout.read(_PIECE)):
                yield piece


def _quoted(path: str) -> str:
    """A path in a list that colons separate."""
    if ":" not in path and not path.startswith('"'):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _inflated(path: Path) -> Iterator[bytes]:
    """Content of a loose blob, without its header."""
    inflate = zlib.decompressobj()
    piece = inflate.decompress(path.read_bytes(), _PIECE)
    yield piece[piece.index(b"\0") + 1 :]
    while inflate.unconsumed_tail:
        yield inflate.decompress(inflate.unconsumed_tail, _PIECE)


def _move(path: Path, folder: Path) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            path.rename(folder / path.name)
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
            folder.mkdir(exist_ok=True)  # a git that prunes takes an empty folder away again
        else:
            return


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
