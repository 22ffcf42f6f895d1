"""RUN_BASE on disk: only the kernel and declared outputs may change it; anything else is put back and reported."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from gitswarm.git.object_reader import hash_object
from gitswarm.git.objects import Objects
from gitswarm.untrusted import remove_tree


class FolderChanges(Struct, frozen=True):
    """What a step did in RUN_BASE. Paths are relative to the worktree."""

    declared: Mapping[str, bytes]
    tampered: tuple[str, ...]


_Print = tuple[int, int, int]
"""Inode, size and ctime of a file; equal prints mean that nobody touched it."""


class RunFolder(Struct):
    """RUN_BASE of one worktree. Remembers files it has seen in order, so that a check costs a stat per file."""

    worktree: Path
    base: str
    objects: Objects
    _known: dict[str, _Print] = field(default_factory=dict)
    _listed: tuple[str | None, dict[str, str]] = field(default=(None, {}))
    """A tree of RUN_BASE, and the blobs in it by path."""

    def examine(self, tree: str, declared: frozenset[str]) -> FolderChanges:
        """Compares the folder with the commit's `tree`; puts back what was not `declared` to be written."""
        self._clear_way(f"{self.base}/any")
        stored = self._stored(tree)
        outputs: dict[str, bytes] = {}
        tampered: list[str] = []
        seen: set[str] = set()
        for path, entry in self._files():
            seen.add(path)
            if path in declared and entry.is_file(follow_symlinks=False):
                content = Path(entry.path).read_bytes()
                if path not in stored or self.objects.read_blob(stored[path]) != content:
                    outputs[path] = content
            elif not self._is_as_stored(path, entry, stored.get(path)):
                tampered.append(path)
        tampered.extend(path for path in stored if path not in seen)
        for path in tampered:
            self._put_back(path, stored.get(path))
        return FolderChanges(outputs, tuple(sorted(tampered)))

    def peek(self, tree: str, declared: frozenset[str]) -> dict[str, bytes]:
        """Content of those `declared` files that differ from the commit's `tree`; touches nothing.

        For a folder that others are writing in at this moment.
        """
        stored = self._stored(tree)
        found: dict[str, bytes] = {}
        for path in declared:
            place = self.worktree / path
            inside = (place.parent, *place.parent.parents)
            if not place.is_file() or any(
                part.is_symlink() for part in (place, *inside) if self.worktree in part.parents
            ):
                continue
            content = place.read_bytes()
            blob_id = stored.get(path)
            if blob_id is None or self.objects.read_blob(blob_id) != content:
                found[path] = content
        return found

    def paths(self) -> frozenset[str]:
        """Paths of the files in RUN_BASE, as they were last compared with a tree."""
        return frozenset(self._listed[1])

    def committed(self, tree: str, files: Mapping[str, str | None]) -> None:
        """Learns that a new commit with this `tree` differs from the last one only in `files`: path → blob id."""
        merged = {**self._listed[1], **files}
        present = {path: blob_id for path, blob_id in merged.items() if blob_id is not None}
        self._listed = (self.objects.entry(tree, self.base), present)

    def remove(self, paths: Iterable[str]) -> None:
        """The kernel's own files that are not kept any longer."""
        for path in paths:
            self._known.pop(path, None)
            (self.worktree / path).unlink(missing_ok=True)

    def write(self, files: Mapping[str, bytes]) -> None:
        """The kernel's own files. A link or folder in the way is removed, never followed."""
        for path, content in files.items():
            target = self.worktree / path
            if self._clear_way(path):
                self._clear_place(target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            self._known[path] = _print(os.lstat(target))

    def _stored(self, tree: str) -> Mapping[str, str]:
        folder = self.objects.entry(tree, self.base)
        if folder is None or folder != self._listed[0]:
            self._listed = (folder, dict(self.objects.files(tree, self.base)))
        return self._listed[1]

    def _files(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        pending = [self.base]
        while pending:
            folder = pending.pop()
            try:
                entries = list(os.scandir(f"{self.worktree}/{folder}"))
            except OSError:
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    yield path, entry

    def _is_as_stored(self, path: str, entry: os.DirEntry[str], blob_id: str | None) -> bool:
        if blob_id is None or not entry.is_file(follow_symlinks=False):
            return False
        now = _print(entry.stat(follow_symlinks=False))
        if self._known.get(path) == now:
            return True
        if hash_object("blob", Path(entry.path).read_bytes()) != blob_id:
            return False
        self._known[path] = now
        return True

    def _put_back(self, path: str, blob_id: str | None) -> None:
        if blob_id is not None:
            self.write({path: self.objects.read_blob(blob_id)})
        else:
            (self.worktree / path).unlink(missing_ok=True)

    def _clear_way(self, path: str) -> bool:
        """Removes what is not a folder on the way to `path`, and says whether the way is there; links are never
        followed."""
        current = os.fspath(self.worktree)
        for part in path.split("/")[:-1]:
            current = f"{current}/{part}"
            try:
                if not stat.S_ISDIR(os.lstat(current).st_mode):
                    Path(current).unlink()
                    return False
            except FileNotFoundError:
                return False
        return True

    def _clear_place(self, target: Path) -> None:
        """Removes what is not a regular file where one is to be written."""
        try:
            mode = target.lstat().st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            remove_tree(target)
        elif not stat.S_ISREG(mode):
            target.unlink()


def _print(found: os.stat_result) -> _Print:
    return found.st_ino, found.st_size, found.st_ctime_ns
