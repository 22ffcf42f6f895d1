"""Stored commits as values, what is asked about objects, and how `git cat-file --batch` answers it."""

from __future__ import annotations

import os
import subprocess
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from gitswarm.errors import CorruptError
from gitswarm.git.process import Git

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
        :raises CorruptError: no such commit.
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
        """Content of the file at `path` in a tree; None when there is none. Without a path: of the blob itself.

        :raises CorruptError: there is one, and its object is missing or damaged.
        """

    @abstractmethod
    def entries(self, tree_id: str) -> Entries:
        """
        :raises CorruptError: no such tree.
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


_Found = tuple[str, bytes, bytes]
"""Id, kind and content of an object."""

_KINDS = (b"blob", b"tree", b"commit", b"tag")
_AT_ONCE = 100
"""Names that are asked for before the first answer is read: all of them fit into a pipe."""


class CatFile(ObjectReader):
    """Reads objects; its process is started for the first one, and ends with this object."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._process: subprocess.Popen[bytes] | None = None
        self._commits: dict[str, Commit] = {}

    def commit(self, commit_id: str) -> Commit:
        known = self._commits.get(commit_id)
        if known is None:
            known = self._commits[commit_id] = _parsed(commit_id, self._raw_commit(commit_id))
        return known

    def author(self, commit_id: str) -> Person:
        headers = self._raw_commit(commit_id).partition(b"\n\n")[0].decode(errors="replace").split("\n")
        line_of_author = next((line.removeprefix("author ") for line in headers if line.startswith("author ")), "")
        name, _bracket, rest = line_of_author.partition("<")
        return Person(name.strip(), rest.partition(">")[0].strip())

    def peeled(self, object_id: str) -> str | None:
        (found,) = self._ask([f"{object_id}^{{commit}}"])
        return found[0] if found is not None else None

    def entry(self, tree_id: str, path: str) -> str | None:
        found = self._found(tree_id, path)
        return found[0] if found is not None else None

    def file(self, tree_id: str, path: str) -> bytes | None:
        (content,) = self.files_of([(tree_id, path)])
        return content

    def files_of(self, wanted: Sequence[tuple[str, str]]) -> list[bytes | None]:
        contents: list[bytes | None] = [None] * len(wanted)
        for first in range(0, len(wanted), _AT_ONCE):
            part = wanted[first : first + _AT_ONCE]
            answers = self._ask([self._name(tree_id, path) for tree_id, path in part])
            for index, ((tree_id, path), answer) in enumerate(zip(part, answers, strict=True), start=first):
                if answer is None:
                    self._refuse_missing(tree_id, path)
                elif answer[1] == b"blob":
                    contents[index] = answer[2]
        return contents

    def entries(self, tree_id: str) -> Entries:
        if tree_id == EMPTY_TREE:
            return {}
        _id, kind, content = self._object(tree_id)
        if kind != b"tree":
            raise CorruptError(f"{tree_id} is not a tree", hint=f"git cat-file -t {tree_id}")
        return entries_of(content)

    def _name(self, tree_id: str, path: str) -> str:
        """What git is asked for: one line. Without a path: the object itself."""
        if not path:
            return tree_id
        if "\n" not in path:
            return f"{tree_id}:{path}"
        return self.entry(tree_id, path) or "none"

    def _found(self, tree_id: str, path: str) -> tuple[str, int] | None:
        """Id and mode of what lies at `path`."""
        folder, _slash, name = path.rpartition("/")
        above = self._found(tree_id, folder) if folder else (tree_id, DIRECTORY)
        return self.entries(above[0]).get(name) if above is not None and above[1] == DIRECTORY else None

    def _refuse_missing(self, tree_id: str, path: str) -> None:
        """
        :raises CorruptError: the tree names something there that is no submodule; or without a path, always.
        """
        if not path:
            raise _missing(tree_id)
        found = self._found(tree_id, path)
        if found is not None and found[1] != GITLINK:
            raise _missing(found[0])

    def _raw_commit(self, commit_id: str) -> bytes:
        _id, kind, content = self._object(commit_id)
        if kind != b"commit":
            raise CorruptError(f"{commit_id} is not a commit", hint=f"git cat-file -t {commit_id}")
        return content

    def _object(self, object_id: str) -> _Found:
        (found,) = self._ask([object_id])
        if found is None:
            raise _missing(object_id)
        return found

    def _ask(self, names: Sequence[str]) -> list[_Found | None]:
        """What each of the names stands for; None: nothing that is here.

        :raises CorruptError: git cannot read it.
        """
        given, taken = self._pipes()
        try:
            given.write(b"".join(os.fsencode(name) + b"\n" for name in names))
            given.flush()
        except BrokenPipeError:
            pass  # it ended, and what it answers says so
        return [self._answer(name, taken) for name in names]

    def _answer(self, name: str, taken: IO[bytes]) -> _Found | None:
        headline = taken.readline()
        if not headline.endswith(b"\n"):
            self._process = None
            raise _missing(name.partition(":")[0])
        words = headline.split()
        if len(words) != 3 or words[1] not in _KINDS:
            return None
        content = taken.read(int(words[2]))
        if len(content) < int(words[2]):  # it found out too late that the object is damaged
            self._process = None
            raise _missing(name.partition(":")[0])
        taken.read(1)
        return words[0].decode(), words[1], content

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = self._git.open_pipe("cat-file", "--batch")
            weakref.finalize(self, _end, self._process)
        given, taken = self._process.stdin, self._process.stdout
        if given is None or taken is None:
            raise ValueError("git was started without pipes")
        return given, taken


def entries_of(content: bytes) -> Entries:
    """What the content of a tree says."""
    found: dict[str, tuple[str, int]] = {}
    start = 0
    while start < len(content):
        blank = content.index(b" ", start)
        end = content.index(b"\0", blank)
        name = content[blank + 1 : end].decode(errors="surrogateescape")
        found[name] = (content[end + 1 : end + 21].hex(), int(content[start:blank], 8))
        start = end + 21
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Without input it ends."""
    process.communicate()


def _missing(object_id: str) -> CorruptError:
    return CorruptError(f"object {object_id} is missing or damaged", hint="git fsck --full   (says what else is)")


def _parsed(commit_id: str, raw: bytes) -> Commit:
    head, _blank, message = raw.partition(b"\n\n")
    tree, parents, encoding = "", [], "utf-8"
    for line in head.decode(errors="replace").split("\n"):
        name, _space, value = line.partition(" ")
        match name:
            case "tree":
                tree = value
            case "parent":
                parents.append(value)
            case "encoding":
                encoding = value
    try:
        text = message.decode(encoding, errors="replace")
    except LookupError:
        text = message.decode(errors="replace")
    return Commit(commit_id, tree, tuple(parents), text.lstrip("\n"))
