"""Notes that we write ourselves: libgit2 never fans a notes tree out, so big runs would crawl."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from gitswarm.git.object_reader import NewCommit, Person
from gitswarm.git.objects import Objects
from gitswarm.git.reader import NoteReader
from gitswarm.git.refs import Refs

Prepared = tuple[str | None, str] | None
"""Where the ref of some notes stands, and where it goes; None: it stays."""

_ID = re.compile(r"[0-9a-f]{40}")


class Notes(NoteReader):
    """Notes that are written too. A single writer: the run's owner."""

    def __init__(self, objects: Objects, refs: Refs, ref: str) -> None:
        super().__init__(objects, refs, ref)
        self._objects = objects
        self._refs = refs

    def blob_of(self, commit_id: str) -> str | None:
        """Id of the note on a commit, or None."""
        tip = self.tip
        if tip is None:
            return None
        tree = self._objects.commit(tip).tree
        path = f"{commit_id[:2]}/{commit_id[2:]}"
        return self._objects.entry(tree, path) or self._objects.entry(tree, commit_id)

    def blobs(self) -> dict[str, str]:
        """Ids of the commits that have a note here, each with the id of its note."""
        tip = self.tip
        return self._blobs_at(tip) if tip is not None else {}

    def _blobs_at(self, tip: str) -> dict[str, str]:
        files = self._objects.files(self._objects.commit(tip).tree)
        found = ((path.replace("/", ""), blob_id) for path, blob_id in files)
        return {name: blob_id for name, blob_id in found if _ID.fullmatch(name)}

    def holds(self, tip: str | None) -> bool:
        """Whether every note is there that was there at `tip`, as it was or with something behind it."""
        now, read = self.tip, self._objects.read_blob
        if tip is None or now == tip:
            return True
        blobs = self._blobs_at(now) if now is not None and self._objects.peeled(now) == now else {}
        before = self._blobs_at(tip)
        return before.keys() <= blobs.keys() and all(
            blobs[name] == blob_id or read(blobs[name]).startswith(read(blob_id)) for name, blob_id in before.items()
        )

    def write(self, commit_id: str, blob_id: str, *, by: Person, when: datetime) -> None:
        """Makes `blob_id` the note on a commit. Repeating it changes nothing.

        :raises RefMovedError: somebody else wrote to this run's notes.
        """
        self.write_all({commit_id: blob_id}, by=by, when=when)

    def write_all(self, blob_ids: Mapping[str, str], *, by: Person, when: datetime) -> None:
        """As `write`, for many commits at once.

        :raises RefMovedError: somebody else wrote to this run's notes.
        """
        self.publish(self.prepare(blob_ids, by=by, when=when))

    def publish(self, prepared: Prepared) -> None:
        """
        :raises RefMovedError: somebody else wrote to this run's notes.
        """
        if prepared is not None:
            self._refs.swap(self.ref, *prepared, why="note")

    def prepare(self, blob_ids: Mapping[str, str], *, by: Person, when: datetime) -> Prepared:
        """Makes what `publish` has the ref name; until then nobody sees it."""
        if not blob_ids:
            return None
        tip = self.tip
        tree = self._objects.commit(tip).tree if tip else None
        notes: dict[str, str | None] = {}
        for commit_id, blob_id in blob_ids.items():
            # A note that git itself wrote lies flat while there are few of them; git would join the two.
            notes |= {f"{commit_id[:2]}/{commit_id[2:]}": blob_id, commit_id: None}
        new_tree = self._objects.with_files(tree, notes)
        if new_tree == tree:
            return None
        parents = (tip,) if tip else ()
        new = NewCommit(new_tree, parents, "Notes added by git-swarm\n", by, by, when)
        return tip, self._objects.write_commit(new)
