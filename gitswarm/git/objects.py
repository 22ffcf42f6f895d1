"""Objects of a repository: blobs, trees, commits. Written without hooks, signatures or filters."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from sys import intern  # pygit2 1.21 never lets go of a name that it looked up: so each is kept once
from typing import Any, TypeVar

from gitswarm.errors import CorruptError
from gitswarm.git.libgit2 import pygit2
from gitswarm.git.object_reader import (
    DIRECTORY,
    EMPTY_TREE,
    GITLINK,
    Commit,
    Entries,
    NewCommit,
    ObjectReader,
    Person,
    hash_object,
)
from gitswarm.git.packing import KINDS, Packing
from gitswarm.git.process import Git, refusal
from gitswarm.git.tree_changes import Indexes

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000


def _clean(person: Person) -> tuple[str, str]:
    """Name and address as git itself cleans them: no angle brackets, no line ends, no crud around them."""
    name, email = (
        "".join(letter for letter in text if letter not in "<>\n\0").strip(" .,:;<>\"\\'")
        for text in (person.name, person.email)
    )
    return name or "unknown", email or "unknown"


T = TypeVar("T")


def _write(call: Callable[[], T]) -> T:
    """The border to libgit2 when it makes objects.

    :raises SwarmError: it could not.
    """
    try:
        return call()
    except pygit2.GitError as error:
        raise refusal("cannot make an object", str(error)) from error


def _insert(builder: Any, name: str, object_id: Any, mode: Any) -> None:
    _write(lambda: builder.insert(name, object_id, mode))


def _written(builder: Any) -> str:
    return str(_write(builder.write))


class Objects(ObjectReader):
    """Reads and writes the object store."""

    def __init__(self, repository: pygit2.Repository, packing: Packing, git: Git | None = None) -> None:
        """
        :param packing: takes what is new.
        :param git: fetches what a partial clone lacks; libgit2 cannot.
        """
        # pygit2's stubs type an object by none of its kinds: what comes out of it is checked with isinstance.
        self._repository: Any = repository
        self._packing = packing
        self._git = git
        self.indexes = Indexes(repository, packing)

    @property
    def store(self) -> Path:
        """The folder that objects lie in."""
        return Path(self._repository.path) / "objects"

    def _get(self, object_id: str) -> Any:
        try:
            return self._repository[object_id]
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise CorruptError(
                f"object {object_id} is missing or damaged", hint="git fsck --full   (says what else is)"
            ) from error

    def write_blob(self, content: bytes) -> str:
        object_id = hash_object("blob", content)
        # Without a look whether it is in the store: a copy costs less, and no `git prune` may take it away.
        self._packing.add_large(pygit2.Oid(hex=object_id), content)
        return object_id

    def take_in(self, path: Path) -> None:
        """Adds a pack, or a loose object in a folder named as in the store, that git wrote somewhere else."""
        if path.suffix == ".pack":
            self._packing.adopt(path)
            return
        about, _nul, content = zlib.decompress(path.read_bytes()).partition(b"\0")
        object_id = pygit2.Oid(hex=path.parent.name + path.name)
        self._packing.add_large(object_id, content, KINDS[about.partition(b" ")[0]])

    def flush(self) -> None:
        """All that was written is on disk when it returns: from here on an index may name it."""
        self._packing.flush()

    def read_blob(self, blob_id: str) -> bytes:
        """
        :raises CorruptError: no such blob.
        """
        found = self._fetched(blob_id)
        if not isinstance(found, pygit2.Blob):
            raise CorruptError(f"{blob_id} is not a blob", hint=f"git cat-file -t {blob_id}")
        return found.data

    def write_commit(self, new: NewCommit) -> str:
        offset = new.when.utcoffset()
        minutes = int(offset.total_seconds() // 60) if offset else 0
        seconds = int(new.when.timestamp())
        author = pygit2.Signature(*_clean(new.author), seconds, minutes, "utf-8")
        committer = pygit2.Signature(*_clean(new.committer), seconds, minutes, "utf-8")
        parents: list[Any] = [pygit2.Oid(hex=parent) for parent in new.parents]
        tree = pygit2.Oid(hex=new.tree)
        create = self._repository.create_commit
        return str(_write(lambda: create(None, author, committer, new.message, tree, parents)))

    def copy_commit(self, commit_id: str, tree: str, parent: str, message: str) -> str:
        """Another commit by the same people at the same times; the same arguments always make the same one."""
        found = self._get(commit_id)
        oids = [pygit2.Oid(hex=name) for name in (tree, parent)]
        create = self._repository.create_commit
        return str(_write(lambda: create(None, found.author, found.committer, message, oids[0], [oids[1]])))

    def commit(self, commit_id: str) -> Commit:
        found = self._get(commit_id)
        if not isinstance(found, pygit2.Commit):
            raise CorruptError(f"{commit_id} is not a commit", hint=f"git cat-file -t {commit_id}")
        parents = tuple(str(parent) for parent in found.parent_ids)
        return Commit(str(found.id), str(found.tree_id), parents, found.message)

    def author(self, commit_id: str) -> Person:
        found = self._get(commit_id).author
        return Person(*(raw.decode(errors="replace") for raw in (found.raw_name, found.raw_email)))

    def peeled(self, object_id: str) -> str | None:
        try:
            return str(self._repository[object_id].peel(pygit2.Commit).id)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def when(self, commit_id: str) -> int:
        """Committer time of a commit, in seconds since the epoch."""
        return int(self._get(commit_id).commit_time)

    def has(self, object_id: str) -> bool:
        return object_id in self._repository

    def entry(self, tree_id: str, path: str) -> str | None:
        found = self._reached(tree_id, path)
        return str(found.id) if found is not None else None

    def _reached(self, tree_id: str, path: str) -> Any:
        """The entry of a tree that a path leads to, or None."""
        current: Any = tree_id
        entry = None
        for part in map(intern, path.split("/")):
            # A submodule's commit is usually not in this repository.
            tree = self._repository.get(current)
            if not isinstance(tree, pygit2.Tree) or part not in tree:
                return None
            entry = tree[part]
            current = entry.id
        return entry

    def is_folder(self, tree_id: str, path: str) -> bool:
        """Whether a tree lies at `path`; not a file, a link or a submodule."""
        folder, _slash, name = path.rpartition("/")
        parent = self.entry(tree_id, folder) if folder else tree_id
        return parent is not None and self._subtree(parent, name) is not None

    def is_executable(self, tree_id: str, path: str) -> bool:
        found = self._reached(tree_id, path)
        return found is not None and found.filemode == EXECUTABLE

    def file(self, tree_id: str, path: str) -> bytes | None:
        if not path:
            blob = self._fetched(tree_id)
            return blob.data if isinstance(blob, pygit2.Blob) else None
        found = self._reached(tree_id, path)
        # A submodule's commit is in another repository, which ours need not have.
        if found is None or found.filemode in (DIRECTORY, GITLINK):
            return None
        return self.read_blob(str(found.id))

    def files(self, tree_id: str, folder: str = "") -> Iterator[tuple[str, str]]:
        """(path, blob id) of every file below `folder`, paths relative to the tree."""
        start = self.entry(tree_id, folder) if folder else tree_id
        if start is None:
            return
        tree = self._get(start)
        for entry in tree if isinstance(tree, pygit2.Tree) else ():
            path = f"{folder}/{entry.name}" if folder else str(entry.name)
            if entry.filemode == DIRECTORY:
                yield from ((f"{path}/{name}", blob_id) for name, blob_id in self.files(str(entry.id)))
            elif entry.filemode in (FILE, EXECUTABLE):
                yield path, str(entry.id)

    def links(self, tree_id: str, folder: str = "") -> Iterator[tuple[str, str]]:
        """(path, target) of every symbolic link below `folder`, which is empty or ends with a slash."""
        for name, (object_id, mode) in self.entries(tree_id).items():
            if mode == DIRECTORY:
                yield from self.links(object_id, f"{folder}{name}/")
            elif mode == LINK:
                yield f"{folder}{name}", self.read_blob(object_id).decode(errors="replace")

    def submodules(self, tree_id: str) -> Iterator[str]:
        """Paths of the submodules that a tree's `.gitmodules` names."""
        content = self.file(tree_id, ".gitmodules")
        for line in (content or b"").decode(errors="replace").splitlines():
            key, equals, value = line.partition("=")
            path = value.strip().strip('"')
            if equals and key.strip() == "path":
                yield path

    def names(self, tree_id: str, folder: str) -> list[str]:
        """Names of everything directly in `folder`."""
        found = self.entry(tree_id, folder)
        tree = self._repository[found] if found is not None else ()
        return [str(entry.name) for entry in tree] if isinstance(tree, pygit2.Tree) else []

    def with_files(self, tree_id: str | None, files: Mapping[str, str | None]) -> str:
        """A tree like `tree_id` (None: empty) in which each path holds the given blob; None: nothing.

        A folder that would become empty is removed too, as git does not know empty folders.
        """
        here: dict[str, tuple[str | None, int]] = {}
        below: dict[str, dict[str, str | None]] = {}
        for path, blob_id in files.items():
            head, slash, rest = path.partition("/")
            if slash:
                below.setdefault(head, {})[rest] = blob_id
            else:
                here[head] = (blob_id, pygit2.enums.FileMode.BLOB)
        for name, inner in below.items():
            before = self._subtree(tree_id, name)
            subtree = self.with_files(before, inner)
            if subtree != EMPTY_TREE:
                here[name] = (subtree, pygit2.enums.FileMode.TREE)
            elif before is not None:  # else a file of that name stays: there is nothing below it
                here.setdefault(name, (None, pygit2.enums.FileMode.TREE))
        builder = self._builder(tree_id)
        for name, (object_id, mode) in here.items():
            if object_id is not None:
                _insert(builder, name, pygit2.Oid(hex=object_id), mode)
            elif builder.get(intern(name)) is not None:
                builder.remove(intern(name))
        return _written(builder)

    def with_subtree(self, tree_id: str, path: str, subtree: str | None) -> str:
        """A tree like `tree_id` in which `path` is the tree `subtree`; None removes it.

        A folder that would become empty is removed too, as git does not know empty folders.
        """
        head, slash, rest = path.partition("/")
        replaced = subtree
        if slash:
            inner = self._subtree(tree_id, head)
            if inner is None and subtree is None:
                return tree_id
            replaced = self.with_subtree(inner or _written(self._builder(None)), rest, subtree)
            replaced = None if replaced == EMPTY_TREE else replaced
        if replaced == self._subtree(tree_id, head) and replaced is not None:
            return tree_id
        builder = self._builder(tree_id)
        if replaced is not None:
            _insert(builder, head, pygit2.Oid(hex=replaced), pygit2.enums.FileMode.TREE)
        elif builder.get(intern(head)) is not None:
            builder.remove(intern(head))
        else:
            return tree_id
        return _written(builder)

    def with_entries_of(self, tree_id: str, other: str, paths: Iterable[str]) -> str:
        """A tree like `tree_id` in which each path is as in the tree `other`, mode included."""
        result = tree_id
        for path in paths:
            result = self._with_entry(result, path, self._find(other, path))
        return result

    def _find(self, tree_id: str, path: str) -> Any:
        try:
            return self._get(tree_id)[intern(path)]
        except KeyError:
            return None

    def _with_entry(self, tree_id: str | None, path: str, entry: Any) -> str:
        head, slash, rest = path.partition("/")
        builder = self._builder(tree_id)
        before = self._subtree(tree_id, head)
        inner = self._with_entry(before, rest, entry) if slash else EMPTY_TREE
        if inner != EMPTY_TREE:
            _insert(builder, head, pygit2.Oid(hex=inner), pygit2.enums.FileMode.TREE)
        elif entry is not None:
            _insert(builder, head, entry.id, entry.filemode)
        elif builder.get(intern(head)) is not None and (before is not None or not slash):
            builder.remove(intern(head))  # a file stays where something below it is to go
        return _written(builder)

    def entries(self, tree_id: str) -> Entries:
        if tree_id == EMPTY_TREE:
            return {}
        return {entry.name: (str(entry.id), int(entry.filemode)) for entry in self._get(tree_id)}

    def _fetched(self, object_id: str) -> Any:
        """
        :raises CorruptError: it is not here, and cannot be had.
        """
        with suppress(ValueError, pygit2.GitError):
            found = self._repository.get(object_id)
            if found is not None:
                return found
        if self._git is not None:
            self._git.run("cat-file", "-e", object_id)
        return self._get(object_id)

    def _builder(self, tree_id: str | None) -> Any:
        if tree_id is None:
            return self._repository.TreeBuilder()
        return self._repository.TreeBuilder(self._get(tree_id))

    def _subtree(self, tree_id: str | None, name: str) -> str | None:
        if tree_id is None or tree_id == EMPTY_TREE:
            return None
        tree, name = self._get(tree_id), intern(name)
        if not isinstance(tree, pygit2.Tree) or name not in tree:
            return None
        entry = tree[name]
        return str(entry.id) if entry.filemode == DIRECTORY else None
