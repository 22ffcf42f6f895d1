"""Small index files, read and written by libgit2: a process of git costs more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from gitswarm.git.libgit2 import pygit2
from gitswarm.git.packing import Packing

_UNREADABLE_EXTENSIONS = (b"link", b"sdir")  # of a split and of a sparse index; as part of a path they do no harm
_NO_INDEX = (pygit2.GitError, KeyError, OSError, ValueError)
"""What libgit2 cannot do is left to git, which also says what is missing."""


class IndexChange(Struct, frozen=True):
    """A path at which an index differs from a tree; the ids are those of blobs or commits, None: nothing there."""

    path: str
    old_mode: int
    old_id: str | None
    new_mode: int
    new_id: str | None


def _loaded(index: Path) -> pygit2.Index:
    # Asked first: an Index whose constructor fails complains on stderr when it is collected (pygit2 1.21).
    content = index.read_bytes()
    if any(extension in content for extension in _UNREADABLE_EXTENSIONS):
        raise ValueError(f"{index} is split or sparse")
    return pygit2.Index(str(index))


def _index_change(delta: pygit2.DiffDelta) -> IndexChange:
    letter = delta.status_char()
    side = delta.old_file if letter == "D" else delta.new_file
    return IndexChange(
        path=os.fsdecode(side.raw_path),
        old_mode=int(delta.old_file.mode),
        old_id=str(delta.old_file.id) if letter != "A" else None,
        new_mode=int(delta.new_file.mode),
        new_id=str(delta.new_file.id) if letter != "D" else None,
    )


class Indexes:
    def __init__(self, repository: pygit2.Repository, packing: Packing) -> None:
        """
        :param packing: holds what is new.
        """
        self._repository: Any = repository
        self._packing = packing
        self._parsed: tuple[object, pygit2.Index] | None = None

    def tree(self, index: Path) -> str | None:
        """The tree that a small index file describes; None when libgit2 cannot read it (split, sparse, conflicts)."""
        try:
            return str(self._index(index).write_tree(self._repository))
        except _NO_INDEX:
            return None

    def _index(self, path: Path) -> pygit2.Index:
        """Parsed once, as long as it is the same file."""
        found = path.stat()
        key = (path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._parsed is None or self._parsed[0] != key:
            self._parsed = key, _loaded(path)
        return self._parsed[1]

    def changes(self, tree_id: str, index: Path) -> list[IndexChange] | None:
        """Where a small index differs from a tree; None when libgit2 cannot read it."""
        try:
            diff = self._repository[tree_id].diff_to_index(self._index(index))
        except _NO_INDEX:
            return None
        return [_index_change(delta) for delta in diff.deltas]

    def align(self, tree_id: str, index: Path, target: Path) -> bool:
        """Writes a small index that is equal to a tree to `target`; it knows what `index` knows about files that are
        the same, as after `git read-tree --reset`. False: libgit2 cannot, and `target` is nothing."""
        try:
            target.unlink(missing_ok=True)  # a link that somebody put there is not followed
            with target.open("xb") as copy:
                copy.write(index.read_bytes())
            made = _loaded(target)
            made.read_tree(self._repository[tree_id])
            made.write_tree(self._repository)  # it knows the ids of its folders then
            self._packing.flush()
            made.write()
            # By its time git tells which files may have changed since they were staged.
            found = index.stat()
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        except _NO_INDEX:
            target.unlink(missing_ok=True)
            return False
        return True
