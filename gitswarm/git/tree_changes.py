"""Differences between trees, and between a tree and a small index file: by libgit2, without attributes, drivers or
hooks of any checkout, and without a process of git."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from gitswarm.git.libgit2 import pygit2
from gitswarm.git.packing import Packing
from gitswarm.records.envelope import ChangeKind
from gitswarm.records.evidence import ChangedFile, DiffSummary

_CHANGES: dict[str, ChangeKind] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type_changed",
}
_RENAME_LIMIT = 400  # similarity is O(n²) in the files that came and went


class Diffs:
    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository

    def between(self, old_tree: str, new_tree: str) -> list[ChangedFile]:
        """What turns one tree into the other, in path order, renames found when there are not too many.

        Line counts are also None for a file that became a link or the like, and for blobs that are not here.
        """
        if old_tree == new_tree:
            return []
        old, new = self._tree(old_tree), self._tree(new_tree)
        diff = self._diff(old, new)
        if len(diff) <= _RENAME_LIMIT:
            try:
                diff.find_similar()
            except pygit2.GitError:
                diff = self._diff(old, new)  # a partial clone lacks what would be compared: no renames then
        found = [self._delta(diff, index, delta) for index, delta in enumerate(diff.deltas)]
        return sorted(found, key=lambda item: item.path)

    def summary(self, old_tree: str, new_tree: str) -> DiffSummary:
        """The difference of two trees that have the same `.swarm/runs`."""
        return DiffSummary.of(tuple(self.between(old_tree, new_tree)))

    def _diff(self, old: pygit2.Tree, new: pygit2.Tree) -> pygit2.Diff:
        return old.diff_to_tree(new, flags=pygit2.enums.DiffOption.INCLUDE_TYPECHANGE, context_lines=0)

    def _tree(self, tree_id: str) -> pygit2.Tree:
        tree = self._repository[tree_id]
        if not isinstance(tree, pygit2.Tree):
            raise KeyError(tree_id)
        return tree

    def _delta(self, diff: pygit2.Diff, index: int, delta: pygit2.DiffDelta) -> ChangedFile:
        letter = delta.status_char()
        old_path = _text(delta.old_file.raw_path) if letter in ("R", "C") else None
        path = _text(delta.old_file.raw_path if letter == "D" else delta.new_file.raw_path)
        insertions, deletions = (None, None) if letter == "T" else self._line_counts(diff, index)
        return ChangedFile(
            path=path,
            change=_CHANGES.get(letter, "modified"),
            old_path=old_path,
            insertions=insertions,
            deletions=deletions,
        )

    def _line_counts(self, diff: pygit2.Diff, index: int) -> tuple[int | None, int | None]:
        try:
            patch = diff[index]
        except (KeyError, pygit2.GitError):
            return None, None  # a partial clone may lack the old blob
        if patch is None or patch.delta.is_binary:
            return None, None
        _context, insertions, deletions = patch.line_stats
        return insertions, deletions


def _text(raw: bytes) -> str:
    """A path as text that can be stored as JSON; a name that is not UTF-8 loses what it cannot show."""
    return raw.decode(errors="replace")


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
