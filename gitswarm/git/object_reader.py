"""Values of stored commits, and what is asked about objects, whoever reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from datetime import datetime


EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Person(Struct, frozen=True):
    name: str
    email: str


class NewCommit(Struct, frozen=True):
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Person
    committer: Person
    when: datetime


class Commit(Struct, frozen=True):
    """A stored commit. Ids are 40 hex digits."""

    id: str
    tree: str
    parents: tuple[str, ...]
    message: str


Entries = Mapping[str, tuple[str, int]]
"""Name → id and mode of everything in a tree."""

DIRECTORY = 0o040000
GITLINK = 0o160000


def hash_object(kind: str, content: bytes) -> str:
    """The id that git gives an object of this kind: `blob`, `tree`, `commit`."""
    import hashlib  # noqa: PLC0415 - 2 ms of OpenSSL

    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


class ObjectReader(ABC):
    @abstractmethod
    def commit(self, commit_id: str) -> Commit:
        """
        :raises GarbledError: no such commit.
        """

    @abstractmethod
    def author(self, commit_id: str) -> Person:
        """Who a commit says that it is by."""

    @abstractmethod
    def peeled(self, object_id: str) -> str | None:
        """Id of the commit that an object is, or that a tag leads to."""

    @abstractmethod
    def entry(self, tree_id: str, path: str) -> str | None:
        """Id of what lies at `path` (slashes) in a tree, or None."""

    @abstractmethod
    def file(self, tree_id: str, path: str) -> bytes | None:
        """Content of the file at `path` in a tree; None when there is none.

        :raises GarbledError: there is one, and its object is missing or damaged.
        """

    @abstractmethod
    def entries(self, tree_id: str) -> Entries:
        """
        :raises GarbledError: no such tree.
        """

    def files_of(self, wanted: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """As `file`, of several trees and paths in one go."""
        return [self.file(tree_id, path) for tree_id, path in wanted]

    def same_but(self, one: str, other: str, path: str) -> bool:
        """Whether two trees are equal, whatever either has at `path`; nothing is written."""
        head, _slash, rest = path.partition("/")
        left, right = self.entries(one), self.entries(other)
        if {**left, head: None} != {**right, head: None}:
            return False
        if not rest:
            return True
        if left.get(head) == right.get(head):
            return True
        inner = [_folder(entries, head) for entries in (left, right)]
        if any(tree is None and head in entries for tree, entries in zip(inner, (left, right), strict=True)):
            return False
        return self.same_but(inner[0] or EMPTY_TREE, inner[1] or EMPTY_TREE, rest)


def _folder(entries: Entries, name: str) -> str | None:
    found = entries.get(name)
    return found[0] if found is not None and found[1] == DIRECTORY else None
