"""Objects to read: loose ones from their own files, the others as one `git cat-file --batch` hands them out."""

from __future__ import annotations

import os
import subprocess
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gitswarm.errors import GarbledError
from gitswarm.git.object_reader import DIRECTORY, EMPTY_TREE, GITLINK, Commit, Entries, ObjectReader, Person
from gitswarm.git.process import Git
from gitswarm.git.ref_files import is_id

_CHUNK = 65_536


class LooseObjects:
    """Objects that have a file of their own. What is not here may be packed, or lie in another store."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fspath(folder)
        self._children: dict[tuple[str, str], tuple[str, int] | None] = {}

    def read(self, object_id: str) -> tuple[bytes, bytes] | None:
        """Kind and content; None: it is not here, or damaged."""
        if not is_id(object_id):
            return None
        try:
            packed = _content(f"{self._folder}/{object_id[:2]}/{object_id[2:]}")
            stream = zlib.decompressobj()
            kind, _blank, rest = stream.decompress(packed).partition(b" ")
        except (OSError, zlib.error):
            return None
        size, _nul, content = rest.partition(b"\0")
        is_whole = stream.eof and not stream.unused_data and size == b"%d" % len(content)
        return (kind, content) if is_whole else None

    def child(self, tree_id: str, name: str) -> tuple[str, int] | None:
        """Id and mode of an entry of a tree; None: it has no such entry.

        :raises LookupError: the tree is not here.
        """
        key = (tree_id, name)
        if key not in self._children:
            found = self.read(tree_id)
            if found is None or found[0] != b"tree":
                raise LookupError(tree_id)
            self._children[key] = _entry(found[1], os.fsencode(name))
        return self._children[key]

    def reached(self, tree_id: str, path: str) -> tuple[str, str] | None:
        """As far as a path leads here: the object there, and what is left of the path below it; "": it is what the
        path names. None: there is nothing of that name, or a submodule.
        """
        names = path.split("/")
        at, mode = tree_id, DIRECTORY
        for number, name in enumerate(names):
            if mode != DIRECTORY:
                return None
            try:
                found = self.child(at, name)
            except LookupError:
                return at, "/".join(names[number:])
            if found is None:
                return None
            at, mode = found
        return (at, "") if mode != GITLINK else None


def _content(path: str) -> bytes:
    """Of a file: half the time of `open`, for files of a few hundred bytes."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(number, _CHUNK)
        if len(content) < _CHUNK:
            return content
        chunks = [content]
        while chunks[-1]:
            chunks.append(os.read(number, _CHUNK))
        return b"".join(chunks)
    finally:
        os.close(number)


def _entry(tree: bytes, name: bytes) -> tuple[str, int] | None:
    """Id and mode. The bytes that are sought may also be a part of an id or of another name: entries are counted
    off up to them."""
    sought = b" " + name + b"\0"
    start, at = 0, tree.find(sought)
    while at >= 0:
        end = tree.index(b"\0", start)
        if end < at:
            start = end + 21
        elif start < at and end == at + len(sought) - 1 and b" " not in tree[start:at]:
            return tree[end + 1 : end + 21].hex(), int(tree[start:at], 8)
        else:
            at = tree.find(sought, at + 1)
    return None


_Found = tuple[str, bytes, bytes]
"""Id, kind and content of an object."""

_KINDS = (b"blob", b"tree", b"commit", b"tag")
_AT_ONCE = 100
"""Names that are asked for before the first answer is read: all of them fit into a pipe."""


class CatFile(ObjectReader):
    """Reads objects; its process is started for the first one that is not loose, and ends with this object."""

    def __init__(self, git: Git, store: Path) -> None:
        """
        :param store: the folder that objects lie in.
        """
        self._git = git
        self._loose = LooseObjects(store)
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
        loose = self._loose.read(object_id)
        if loose is not None and loose[0] == b"commit":
            return object_id
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
        asked: list[tuple[int, str, str]] = []
        for index, (tree_id, path) in enumerate(wanted):
            reached = self._loose.reached(tree_id, path)
            if reached is None:
                continue
            at, rest = reached
            found = None if rest else self._loose.read(at)
            if found is None:
                asked.append((index, at, rest))
            elif found[0] == b"blob":
                contents[index] = found[1]
        for first in range(0, len(asked), _AT_ONCE):
            part = asked[first : first + _AT_ONCE]
            answers = self._ask([self._name(at, rest) for _index, at, rest in part])
            for (index, at, rest), answer in zip(part, answers, strict=True):
                if answer is None:
                    self._refuse_missing(at, rest)
                elif answer[1] == b"blob":
                    contents[index] = answer[2]
        return contents

    def entries(self, tree_id: str) -> Entries:
        if tree_id == EMPTY_TREE:
            return {}
        _id, kind, content = self._object(tree_id)
        if kind != b"tree":
            raise GarbledError(f"{tree_id} is not a tree", hint=f"git cat-file -t {tree_id}")
        found: dict[str, tuple[str, int]] = {}
        start = 0
        while start < len(content):
            blank = content.index(b" ", start)
            end = content.index(b"\0", blank)
            name = content[blank + 1 : end].decode(errors="surrogateescape")
            found[name] = (content[end + 1 : end + 21].hex(), int(content[start:blank], 8))
            start = end + 21
        return found

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
        :raises GarbledError: the tree names something there that is no submodule; or without a path, always.
        """
        if not path:
            raise _missing(tree_id)
        found = self._found(tree_id, path)
        if found is not None and found[1] != GITLINK:
            raise _missing(found[0])

    def _raw_commit(self, commit_id: str) -> bytes:
        _id, kind, content = self._object(commit_id)
        if kind != b"commit":
            raise GarbledError(f"{commit_id} is not a commit", hint=f"git cat-file -t {commit_id}")
        return content

    def _object(self, object_id: str) -> _Found:
        loose = self._loose.read(object_id)
        if loose is not None:
            return object_id, *loose
        (found,) = self._ask([object_id])
        if found is None:
            raise _missing(object_id)
        return found

    def _ask(self, names: Sequence[str]) -> list[_Found | None]:
        """What each of the names stands for; None: nothing that is here.

        :raises GarbledError: git cannot read it.
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """Without input it ends."""
    process.communicate()


def _missing(object_id: str) -> GarbledError:
    return GarbledError(f"object {object_id} is missing or damaged", hint="git fsck --full   (says what else is)")


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
