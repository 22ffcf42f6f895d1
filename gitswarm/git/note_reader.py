"""Notes as they are read, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.git.object_reader import DIRECTORY, ObjectReader
from gitswarm.git.ref_files import RefReader


class NoteReader:
    """One notes ref with a fan-out of two hex digits, or without."""

    def __init__(self, objects: ObjectReader, refs: RefReader, ref: str) -> None:
        self._read_objects = objects
        self._read_refs = refs
        self.ref = ref

    @property
    def tip(self) -> str | None:
        return self._read_refs.read(self.ref)

    def read(self, commit_id: str) -> bytes | None:
        """The note on a commit, or None."""
        tip = self.tip
        if tip is None:
            return None
        tree = self._read_objects.commit(tip).tree
        found = self._read_objects.file(tree, f"{commit_id[:2]}/{commit_id[2:]}")
        return found if found is not None else self._read_objects.file(tree, commit_id)

    def by_commit(self) -> dict[str, bytes]:
        """All notes, in no order that means anything."""
        tip = self.tip
        if tip is None:
            return {}
        places = dict(self._places(self._read_objects.commit(tip).tree))
        found = self._read_objects.files_of(list(places.values()))
        return {commit: content for commit, content in zip(places, found, strict=True) if content is not None}

    def _places(self, tree: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """Of each note: its commit, the tree that it is in, and its name there."""
        for name, (entry, mode) in self._read_objects.entries(tree).items():
            if mode == DIRECTORY:
                yield from ((name + rest, (entry, rest)) for rest in self._read_objects.entries(entry))
            else:
                yield name, (tree, name)
