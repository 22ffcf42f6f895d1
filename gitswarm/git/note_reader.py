"""Notes as they are read, whoever wrote them."""

from __future__ import annotations

from gitswarm.git.object_reader import ObjectReader
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
