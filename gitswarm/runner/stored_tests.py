"""The project's Python tests as trees of a run have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from sys import intern

from msgspec import Struct, field

from gitswarm.evidence.declarations import TextChange, is_test_file
from gitswarm.git.object_reader import DIRECTORY
from gitswarm.git.objects import EXECUTABLE, FILE, Objects

_MOST_CHARS = 3_000_000
_OURS = ".swarm"
_WORD = re.compile(r"\w+")


class StoredTests(Struct):
    """The project's Python tests by tree. Only folders and files that changed since the tree before are read."""

    objects: Objects
    _folders: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    """By path: its tree, and (path, blob id) of the test files below it."""
    _words: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """By blob id: characters, and the words in them."""

    def naming(self, names: frozenset[str], tree: str) -> Iterator[str]:
        """Texts in which one of the names stands, among the first three million characters in the order of paths."""
        left, before, self._words = _MOST_CHARS, self._words, {}
        for _path, blob_id in self._below(tree, ""):
            chars, words = self._words[blob_id] = before.get(blob_id) or _read(self._text(blob_id))
            left -= chars
            if left < 0:
                return
            if not names.isdisjoint(words):
                yield self._text(blob_id)

    def beside(self, changes: Iterable[TextChange], tree: str) -> Iterator[tuple[str, str]]:
        """Paths and texts of what lies in folders of changed files and did not change, as far as `naming`."""
        changed = {path for each in changes for path in (each.path, each.old_path) if path}
        folders, left = {path.rpartition("/")[0] for path in changed}, _MOST_CHARS
        for path, blob_id in self._below(tree, ""):
            if path.rpartition("/")[0] in folders and path not in changed:
                text = self._text(blob_id)
                left -= len(text)
                if left < 0:
                    return
                yield path, text

    def _text(self, blob_id: str) -> str:
        return self.objects.read_blob(blob_id).decode(errors="replace")

    def _below(self, tree: str, folder: str) -> tuple[tuple[str, str], ...]:
        known, found = self._folders.get(folder, ("", ()))
        if known != tree:
            found = tuple(self._listed(tree, folder))
            self._folders[folder] = (tree, found)
        return found

    def _listed(self, tree: str, folder: str) -> Iterator[tuple[str, str]]:
        for name, (object_id, mode) in self.objects.entries(tree).items():
            path = f"{folder}{name}"
            if mode == DIRECTORY and path != _OURS:
                yield from self._below(object_id, f"{path}/")
            elif mode in (FILE, EXECUTABLE) and name.endswith(".py") and is_test_file(path):
                yield path, object_id


def _read(text: str) -> tuple[int, frozenset[str]]:
    return len(text), frozenset(map(intern, _WORD.findall(text)))
