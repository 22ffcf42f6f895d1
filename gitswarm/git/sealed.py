"""Objects as the bytes that their ids are made of: nothing is believed that does not hash to its own name.

Reads only; git's replacement refs and grafts do not count. libgit2 hashes what it reads, as `git fsck` does, and
refuses two objects that were made to have one SHA-1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from gitswarm.errors import CorruptError
from gitswarm.git.libgit2 import pygit2
from gitswarm.git.object_reader import DIRECTORY, EMPTY_TREE, Person, hash_object
from gitswarm.git.process import Git

_ENTRY = re.compile(rb"[0-7]+ [^\0]*\0.{20}", re.DOTALL)
"""Of a tree: mode, name, id."""
_ID = 20
_KINDS: Mapping[int, str] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}

Kind = Literal["commit", "tree", "blob"]


class TreeEntry(NamedTuple):
    mode: int
    id: str

    @property
    def is_folder(self) -> bool:
        return self.mode == DIRECTORY


Entries = Mapping[str, TreeEntry]
"""Name → entry of one tree. A name that is not UTF-8 has surrogates, as everywhere in Python."""


class SealedCommit(Struct, frozen=True):
    """A commit as its bytes say. A message that is not UTF-8 loses what it cannot show."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str


class TreeChange(Struct, frozen=True):
    """What lies at a path in two trees; None: nothing. A folder is given by what is in it."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


class SealedObjects:
    """Every object is read and hashed once; commits and trees are kept. `seen` counts the objects that were right."""

    def __init__(self, repository: pygit2.Repository, git: Git) -> None:
        """
        :param git: fetches what a partial clone lacks; libgit2 cannot.
        """
        pygit2.settings.enable_strict_hash_verification(value=True)
        self._odb = repository.odb
        self._git = git
        self._commits: dict[str, SealedCommit] = {}
        self._trees: dict[str, Mapping[bytes, None]] = {EMPTY_TREE: {}}
        self._sound: set[str] = set()

    @property
    def seen(self) -> int:
        return len(self._sound)

    def read(self, object_id: str, kind: Kind) -> bytes:
        """
        :raises CorruptError: it is not here, it is damaged, or it is something else.
        """
        try:
            try:
                number, content = self._odb.read(object_id)
            except KeyError:
                self._git.run("cat-file", "-e", object_id)
                number, content = self._odb.read(object_id)
        except (KeyError, ValueError, OSError, pygit2.GitError) as error:
            why = "is missing" if isinstance(error, KeyError) else "is damaged"
            raise _corrupt(object_id, why) from error
        self._sound.add(object_id)
        found = _KINDS.get(number, "unknown")
        if found != kind:
            raise _corrupt(object_id, f"is not a {kind} but a {found}")
        return content

    def has(self, object_id: str) -> bool:
        try:
            return object_id in self._odb
        except ValueError:
            return False  # no id at all

    def commit(self, commit_id: str) -> SealedCommit:
        """
        :raises CorruptError: as `read`.
        """
        known = self._commits.get(commit_id)
        if known is None:
            known = self._commits[commit_id] = _commit(commit_id, self.read(commit_id, "commit"))
        return known

    def tree(self, tree_id: str) -> Entries:
        """
        :raises CorruptError: as `read`.
        """
        return _entries(self._raw_entries(tree_id))

    def _raw_entries(self, tree_id: str) -> Mapping[bytes, None]:
        """Each as the tree has it: of two trees of a run nearly all are the same."""
        known = self._trees.get(tree_id)
        if known is None:
            content = self.read(tree_id, "tree")
            found = _ENTRY.findall(content)
            if sum(map(len, found)) != len(content):
                raise _corrupt(tree_id, "is not a tree that git can read")
            known = self._trees[tree_id] = dict.fromkeys(found)
        return known

    def entry(self, tree_id: str, path: str) -> TreeEntry | None:
        """What lies at `path` (slashes), or None.

        :raises CorruptError: as `read`.
        """
        folder, _slash, name = path.rpartition("/")
        if folder:
            above = self.entry(tree_id, folder)
            if above is None or not above.is_folder:
                return None
            tree_id = above.id
        named = b" %s\0" % name.encode(errors="surrogateescape")
        return _entries([each for each in self._raw_entries(tree_id) if named in each]).get(name)

    def files(self, tree_id: str) -> list[tuple[str, TreeEntry]]:
        """Everything below a tree that is no folder, with its path.

        :raises CorruptError: as `read`.
        """
        return [(each.path, each.after) for each in self.changes(EMPTY_TREE, tree_id) if each.after is not None]

    def changes(self, old: str, new: str, folder: str = "") -> list[TreeChange]:
        """What differs between two trees, in the order of the names; folders that are equal are not opened.

        :raises CorruptError: as `read`.
        """
        if old == new:
            return []
        raw, newer = self._raw_entries(old), self._raw_entries(new)
        before = _entries([each for each in raw if each not in newer])
        after = _entries([each for each in newer if each not in raw])
        found = list[TreeChange]()
        for name in sorted(before.keys() | after.keys()):
            left, right = before.get(name), after.get(name)
            path = f"{folder}{name}"
            was, left = (left.id, None) if left and left.mode == DIRECTORY else (EMPTY_TREE, left)
            is_now, right = (right.id, None) if right and right.mode == DIRECTORY else (EMPTY_TREE, right)
            found += self.changes(was, is_now, f"{path}/") if was != is_now else ()
            if left != right:
                found.append(TreeChange(path, left, right))
        return found

    def with_folder(self, tree_id: str, path: str, folder: str | None) -> str:
        """Id of a tree like `tree_id` in which the folder at `path` is the tree `folder`; None: nothing lies there.

        Nothing is written; a folder that would become empty goes too, as git does not know empty folders.

        :raises CorruptError: as `read`.
        """
        head, slash, rest = path.partition("/")
        entries = dict(self.tree(tree_id))
        if slash:
            inner = entries.get(head)
            folder = self.with_folder(inner.id if inner and inner.is_folder else EMPTY_TREE, rest, folder)
        if folder is None or folder == EMPTY_TREE:
            entries.pop(head, None)
        else:
            entries[head] = TreeEntry(DIRECTORY, folder)
        return tree_hash(entries)


def tree_hash(entries: Entries) -> str:
    """Id of the tree with these entries."""

    def sort_key(name: str) -> bytes:
        """Git sorts a folder as if its name ended with a slash."""
        return os.fsencode(name) + (b"/" if entries[name].is_folder else b"")

    return hash_object(
        "tree",
        b"".join(
            b"%o %s\0%s" % (entries[name].mode, os.fsencode(name), bytes.fromhex(entries[name].id))
            for name in sorted(entries, key=sort_key)
        ),
    )


def _commit(commit_id: str, content: bytes) -> SealedCommit:
    head, _gap, message = content.partition(b"\n\n")
    headers: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        name, _blank, value = line.partition(b" ")
        headers.setdefault(name, []).append(value)
    tree, author, committer = (headers.get(name, [b""])[0] for name in (b"tree", b"author", b"committer"))
    return SealedCommit(
        commit_id,
        tree.decode("ascii", "replace"),
        tuple(parent.decode("ascii", "replace") for parent in headers.get(b"parent", [])),
        _person(author),
        _person(committer),
        message.decode(errors="replace"),
    )


def _entries(raw: Iterable[bytes]) -> Entries:
    found: dict[str, TreeEntry] = {}
    for entry in raw:
        mode, _blank, name = entry[:-_ID].partition(b" ")
        found[name[:-1].decode(errors="surrogateescape")] = TreeEntry(int(mode, 8), entry[-_ID:].hex())
    return found


def _person(line: bytes) -> Person:
    name, _open, rest = line.decode(errors="replace").partition("<")
    return Person(name.strip(), rest.partition(">")[0])


def _corrupt(object_id: str, why: str) -> CorruptError:
    return CorruptError(f"object {object_id} {why}", hint="git fsck --full   (says what else is)")
