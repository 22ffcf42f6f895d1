"""Objects that have a file of their own, read without git: what a run has stored since the last `git gc`."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from gitswarm.git.object_reader import DIRECTORY, GITLINK
from gitswarm.git.ref_files import is_id

_CHUNK = 65_536


class LooseObjects:
    """What is not here may be packed, or lie in another store: git knows."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fspath(folder)
        self._children: dict[tuple[str, str], tuple[str, int] | None] = {}

    def read(self, object_id: str) -> tuple[bytes, bytes] | None:
        """Kind and content; None: it is not here, or damaged."""
        if not is_id(object_id):
            return None
        try:
            packed = _content(f"{self._folder}/{object_id[:2]}/{object_id[2:]}")
            stream = zlib.decompressobj()
            kind, _blank, rest = stream.decompress(packed).partition(b" ")
        except (OSError, zlib.error):
            return None
        size, _nul, content = rest.partition(b"\0")
        is_whole = stream.eof and not stream.unused_data and size == b"%d" % len(content)
        return (kind, content) if is_whole else None

    def child(self, tree_id: str, name: str) -> tuple[str, int] | None:
        """Id and mode of an entry of a tree; None: it has no such entry.

        :raises LookupError: the tree is not here.
        """
        key = (tree_id, name)
        if key not in self._children:
            found = self.read(tree_id)
            if found is None or found[0] != b"tree":
                raise LookupError(tree_id)
            self._children[key] = _entry(found[1], os.fsencode(name))
        return self._children[key]

    def reached(self, tree_id: str, path: str) -> tuple[str, str] | None:
        """As far as a path leads here: the object there, and what is left of the path below it; "": it is what the
        path names. None: there is nothing of that name, or a submodule.
        """
        names = path.split("/")
        at, mode = tree_id, DIRECTORY
        for number, name in enumerate(names):
            if mode != DIRECTORY:
                return None
            try:
                found = self.child(at, name)
            except LookupError:
                return at, "/".join(names[number:])
            if found is None:
                return None
            at, mode = found
        return (at, "") if mode != GITLINK else None


def _content(path: str) -> bytes:
    """Of a file: half the time of `open`, for files of a few hundred bytes."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(number, _CHUNK)
        if len(content) < _CHUNK:
            return content
        chunks = [content]
        while chunks[-1]:
            chunks.append(os.read(number, _CHUNK))
        return b"".join(chunks)
    finally:
        os.close(number)


def _entry(tree: bytes, name: bytes) -> tuple[str, int] | None:
    """Id and mode. The bytes that are sought may also be a part of an id or of another name: entries are counted
    off up to them."""
    sought = b" " + name + b"\0"
    start, at = 0, tree.find(sought)
    while at >= 0:
        end = tree.index(b"\0", start)
        if end < at:
            start = end + 21
        elif start < at and end == at + len(sought) - 1 and b" " not in tree[start:at]:
            return tree[end + 1 : end + 21].hex(), int(tree[start:at], 8)
        else:
            at = tree.find(sought, at + 1)
    return None
