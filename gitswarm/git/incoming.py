"""Objects that git wrote next to the object store, looked at before they are part of it: whether a value stood in a
tree already, however its lines are broken, indented or quoted there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gitswarm.git.objects import Objects
from gitswarm.git.process import Git

_CODE = (":(top)", ":(exclude,top,glob)[.]swarm/runs/**")
_JOINT = re.compile(r"""["'`]\s*[+\\,]?\s*[bBrRuU]{0,2}["'`]""")
"""Between two literals that are one string."""

_ESCAPE = re.compile(r"\\+[nrt]")
_LABEL = re.compile(r"-----(?:BEGIN|END)[A-Z0-9 ]*-----")
_RUN = re.compile(r"[A-Za-z0-9]+")
_ENOUGH = 16
"""So many letters and digits in a row are no accident."""


class EarlierContent:
    """Trees whose content is not new. Nothing is read before it is asked for."""

    def __init__(self, git: Git, objects: Objects, trees: Sequence[str]) -> None:
        self._git, self._objects, self._trees = git, objects, tuple(dict.fromkeys(trees))

    def held(self, values: Collection[str]) -> set[str]:
        """The values that stand in a file of the trees, or in the name of one."""
        left = {value: _letters(value) for value in values}
        found: set[str] = set()
        for text in self._texts({needle for value in values for needle in _needles(value)}):
            letters = _letters(text)
            found |= {
                value for value, own in left.items() if value in text or (len(own) >= _ENOUGH and own in letters)
            }
            left = {value: own for value, own in left.items() if value not in found}
            if not left:
                break
        return found

    def _texts(self, needles: Collection[str]) -> Iterator[str]:
        """The files that may hold something; git looks for them, in parallel."""
        listed = "\n".join(sorted(needles)).encode("utf-8", "surrogateescape")
        if not needles or not self._trees:
            return
        grep = ("grep", "--no-color", "-l", "-z", "-a", "-F", "--full-name", "-f", "-", *self._trees, "--", *_CODE)
        for name in self._git.run(*grep, stdin=listed).stdout.split(b"\0"):
            tree, _colon, path = os.fsdecode(name).partition(":")
            content = self._objects.file(tree, path) if path else None
            if content is not None:
                yield content.decode("utf-8", errors="replace")
        for tree in self._trees:
            yield os.fsdecode(self._git.output("ls-tree", "-r", "-z", "--name-only", tree))


def _needles(value: str) -> list[str]:
    """Pieces of a value that no break of a line divides, in at least one of its files."""
    runs = sorted(_RUN.findall(_LABEL.sub(" ", _ESCAPE.sub(" ", value))), key=len, reverse=True)
    if not runs or len(runs[0]) < 4:
        return [value] if "\n" not in value else []
    ends = (piece for run in runs[:4] for piece in (run[:12], run[-12:]))
    return [*dict.fromkeys(piece for piece in ends if len(piece) >= min(4, len(runs[0])))]


def _letters(text: str) -> str:
    """Letters and digits alone: what stays of a key when it is moved, wrapped anew or put into a string."""
    return "".join(_RUN.findall(_JOINT.sub("", _ESCAPE.sub("\n", _LABEL.sub("\n", text)))))


PREFIX = "swarm-objdir-"
"""Not `tmp_…`: a `git prune --expire=now` beside a run would take such a folder away."""

_PIECE = 16_000_000


class Incoming:
    """A folder for objects and for an index that names them. Whatever is left of an earlier one goes at the start.

    Killed at any moment it leaves nothing but that folder, and a pack in the store that nobody names.
    """

    def __init__(self, store: Path, name: str) -> None:
        """
        :param store: the folder of the repository's objects.
        :param name: tells apart who works at the same time: of one worktree, one at a time.
        """
        self._store = store
        self._folder = store / f"{PREFIX}{name}"
        self.index = self._folder / "index"

    def __enter__(self) -> Self:
        self.empty()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def accept(self, objects: Objects) -> None:
        """Makes the objects part of the store; there before `objects.flush()` returns.

        Never as loose ones: a `git prune` that began before something named them would take them away.
        """
        for fan in sorted(self._folder.iterdir()):
            if fan.is_dir() and fan.name != "info":
                for path in fan.glob("*.pack" if fan.name == "pack" else "*"):
                    objects.take_in(path)

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
