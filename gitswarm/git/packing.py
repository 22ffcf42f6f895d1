"""New objects: in memory at first, then together as one pack, before a ref or a process of git can name them.

A file costs 20 to 300 µs to create, and a step has some thirty objects. Its packs are as `git pack-objects` writes
them without deltas (gitformat-pack(5), versions 2 and 2).
"""

from __future__ import annotations

import hashlib
import os
import struct
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from threading import RLock

from gitswarm.git.libgit2 import pygit2
from gitswarm.git.process import refusal

_TREE, _BLOB = 2, 3
KINDS = {b"commit": 1, b"tree": _TREE, b"blob": _BLOB, b"tag": 4}
"""Kinds of objects, as packs and libgit2 number them."""

_FAN_OUT = 16
"""So many packs of a kind become one: the longest run has a few dozen of them."""

_MANY_BYTES = 4_000_000
"""A pack of more is not copied into a bigger one."""

_KEPT = b"git-swarm writes objects\n"

STAGED = "swarm-new-"
"""How files begin that are no pack yet. Not `tmp_…`, which a `git prune --expire=now` takes away; each has a name of
its own, as two processes may write the same pack, and nobody but root opens again what is read-only."""

_SMALL = 4096
_HEAD, _SEAL = 12, 20
_FAN = 8 + 4 * 256
"""Of an index: where the ids begin."""

_Entry = tuple[bytes, bytes]
"""Id of an object, and what stands in a pack about it."""


class Packing:
    """The new objects of this process, and the packs that it made of them; many small ones become a bigger one."""

    def __init__(self, store: Path, renew: Callable[[], None]) -> None:
        """
        :param store: the folder of the repository's objects.
        :param renew: has libgit2 look anew; it never forgets a pack that has gone.
        """
        self._folder = store / "pack"
        # libgit2's store refers to us without the garbage collector's knowing: nothing may lead back from here.
        self._renew = weakref.WeakMethod(renew)
        self._lock = RLock()
        self._size = 0
        self._new: dict[pygit2.Oid, tuple[int, bytes]] = {}
        self._written: dict[pygit2.Oid, tuple[int, bytes]] = {}
        self._kept: set[Path] = set()
        weakref.finalize(self, _remove, self._kept)
        self._packs: list[list[Path]] = []
        self.durable = False

    def add(self, object_id: pygit2.Oid, content: bytes, kind: int) -> None:
        """Also called by libgit2, which must keep its store meanwhile: nothing is flushed here."""
        with self._lock:
            self._new[object_id] = (kind, content)
            self._size += len(content)

    def add_large(self, object_id: pygit2.Oid, content: bytes, kind: int = _BLOB) -> None:
        """
        :raises SwarmError: so much is new that it had to be written, and could not be.
        """
        self.add(object_id, content, kind)
        if self._size > _MANY_BYTES:
            self.flush()

    def get(self, object_id: pygit2.Oid) -> tuple[int, bytes]:
        """Kind and content of an object that is new, or was written a short time ago.

        :raises KeyError: it is neither.
        """
        found = self._new.get(object_id)
        return found if found is not None else self._written[object_id]

    def has(self, object_id: pygit2.Oid) -> bool:
        """Whether it is new. For what was written the store itself is asked: a `git repack` may have dropped it."""
        return object_id in self._new

    def flush(self) -> None:
        """What is new is in the store when it returns. As long as this process lives no `git repack -a -d` takes it
        away, though nothing may name it yet.

        :raises SwarmError: it cannot be written.
        """
        with self._lock:
            if not self._new:
                return
            entries = ((object_id.raw, _entry(*found)) for object_id, found in self._new.items())
            try:
                path = self._write(len(self._new), entries, durable=self.durable)
            except OSError as error:
                raise refusal("cannot write to the object store", str(error)) from error
            self._written, self._new, self._size = self._new, {}, 0
            self._remember(path, 0)

    def adopt(self, pack: Path) -> None:
        """Moves a pack that git wrote into the store, and what belongs to it."""
        others = [path for path in pack.parent.glob(f"{pack.stem}.*") if path.suffix not in {".pack", ".idx"}]
        with self._lock:
            self._keep(self._folder / pack.name, pack)
        for path in (pack, *others, pack.with_suffix(".idx")):  # what the index names is there when it is
            path.replace(self._folder / path.name)
        if self.durable:
            flush_folder(self._folder)

    def join(self) -> None:
        """Makes one of the packs of this process: from here on it is a pack like any other."""
        with self._lock:
            every = [pack for level in self._packs for pack in level]
            self._packs.clear()
            self._join(every, 0)
            _remove(self._kept)

    def _remember(self, path: Path, level: int) -> None:
        with suppress(OSError):
            if path.stat().st_size > _MANY_BYTES:
                return
        while len(self._packs) <= level:
            self._packs.append([])
        self._packs[level].append(path)
        if len(self._packs[level]) == _FAN_OUT:
            packs, self._packs[level] = self._packs[level], []
            self._join(packs, level + 1)

    def _join(self, packs: Sequence[Path], level: int) -> None:
        """What cannot be read or written stays in many packs, which do as well."""
        # An index of several packs goes on naming one that has gone.
        if len(packs) < 2 or any(self._folder.glob("multi-pack-index*")):
            return
        with suppress(OSError, _BrokenPackError):
            offsets = [_offsets(path) for path in packs]
            # What it replaces may be on disk for good already: flushed as `git repack` does.
            path = self._write(len(set().union(*offsets)), _entries(packs, offsets), durable=True)
            for replaced in {*packs} - {path}:  # one that has all that the others have is the pack that was made
                # Without its index nobody looks for a pack any more.
                for suffix in (".idx", ".pack", ".keep"):
                    replaced.with_suffix(suffix).unlink(missing_ok=True)
                self._kept.discard(replaced.with_suffix(".keep"))
            if renew := self._renew():
                renew()
            self._remember(path, level)

    def _write(self, count: int, entries: Iterable[_Entry], *, durable: bool) -> Path:
        """
        :param count: of different objects.
        """
        staged = self._folder / f"{STAGED}{os.urandom(8).hex()}"
        staged_index = staged.with_suffix(".index")
        self._make_folder()
        body = _Body(count, entries)
        try:
            # Both first: of a pack without an index nothing would free the room again.
            _put(staged, body.pieces(), durable=durable)
            _put(staged_index, [_index(body.offsets, body.seal())], durable=durable)
            path = self._folder / f"pack-{body.seal().hex()}.pack"
            self._keep(path, staged)
            staged.replace(path)
            staged_index.replace(path.with_suffix(".idx"))
        except (OSError, _BrokenPackError):
            staged.unlink(missing_ok=True)
            staged_index.unlink(missing_ok=True)
            raise
        if durable:
            flush_folder(self._folder)
        return path

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(exist_ok=True)
            if renew := self._renew():  # libgit2 looks for the folder only once
                renew()

    def _keep(self, path: Path, staged: Path) -> None:
        """Before it gets its name: from then on a `git repack -a -d` would take away what no ref names."""
        self._make_folder()
        keep = path.with_suffix(".keep")
        self._kept.add(keep)
        try:
            keep.hardlink_to(staged)  # a tenth of what a file of its own costs
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            keep.write_bytes(_KEPT)


class _BrokenPackError(Exception):
    """A pack is not as it was written."""


class _Body:
    """A pack as it is written, piece by piece; of each object the first entry."""

    def __init__(self, count: int, entries: Iterable[_Entry]) -> None:
        self._count = count
        self._entries = entries
        self._hashed = hashlib.sha1(usedforsecurity=False)
        self.offsets: dict[bytes, tuple[int, int]] = {}
        """By id: where it stands, and the checksum."""

    def pieces(self) -> Iterator[bytes]:
        head = struct.pack(">4sII", b"PACK", 2, self._count)
        self._hashed.update(head)
        yield head
        offset = _HEAD
        for object_id, entry in self._entries:
            if object_id in self.offsets:
                continue
            self.offsets[object_id] = (offset, zlib.crc32(entry))
            offset += len(entry)
            self._hashed.update(entry)
            yield entry
        yield self.seal()

    def seal(self) -> bytes:
        return self._hashed.digest()


def _offsets(path: Path) -> dict[bytes, int]:
    """Where each object begins in a pack of ours, by id."""
    index = path.with_suffix(".idx").read_bytes()
    count = int.from_bytes(index[_FAN - 4 : _FAN])
    if len(index) != _FAN + count * (20 + 4 + 4) + 2 * _SEAL:
        raise _BrokenPackError(path)
    ids = (index[_FAN + 20 * number : _FAN + 20 * (number + 1)] for number in range(count))
    return dict(zip(ids, struct.unpack_from(f">{count}I", index, _FAN + count * (20 + 4)), strict=True))


def _entries(packs: Sequence[Path], offsets: Sequence[Mapping[bytes, int]]) -> Iterator[_Entry]:
    """The entries in the order of the packs; one pack is in memory at a time.

    :raises _BrokenPackError: one is not as it was written.
    """
    for path, found in zip(packs, offsets, strict=True):
        pack = path.read_bytes()
        if hashlib.sha1(memoryview(pack)[:-_SEAL], usedforsecurity=False).digest() != pack[-_SEAL:]:
            raise _BrokenPackError(path)
        ids = sorted(found, key=found.__getitem__)
        ends = [*(found[object_id] for object_id in ids[1:]), len(pack) - _SEAL]
        for object_id, end in zip(ids, ends, strict=True):
            yield object_id, pack[found[object_id] : end]


def _put(path: Path, pieces: Iterable[bytes], *, durable: bool) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444), "wb") as file:
        file.writelines(pieces)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _remove(paths: set[Path]) -> None:
    while paths:
        paths.pop().unlink(missing_ok=True)


def is_left_behind(keep: Path) -> bool:
    """Whether a `.keep` is ours, and no pack of a `git fetch`."""
    with suppress(FileNotFoundError), keep.open("rb") as file:
        # The pack itself, also where the repository was copied and the link is none any more.
        return file.read(len(_KEPT)).startswith((b"PACK", _KEPT))
    return False


def flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entry(kind: int, content: bytes) -> bytes:
    head, size = bytearray([kind << 4 | len(content) & 15]), len(content) >> 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    # Most of what zlib does for a small object is to clear memory. Trees are ids, which do not get smaller.
    memory = (12, 4) if len(content) < _SMALL or kind == _TREE else (15, 8)
    deflate = zlib.compressobj(0 if kind == _TREE else 1, zlib.DEFLATED, *memory)
    return bytes(head) + deflate.compress(content) + deflate.flush()


def _index(offsets: Mapping[bytes, tuple[int, int]], seal: bytes) -> bytes:
    """
    :param offsets: by id: where an object begins, and the checksum of its entry.
    """
    ids = sorted(offsets)
    firsts = Counter(object_id[0] for object_id in ids)
    numbers = [2, *accumulate(map(firsts.__getitem__, range(256)))]
    body = b"".join(
        [
            b"\377tOc",
            struct.pack(">257I", *numbers),
            *ids,
            struct.pack(f">{len(ids)}I", *(offsets[name][1] for name in ids)),
            struct.pack(f">{len(ids)}I", *(offsets[name][0] for name in ids)),
            seal,
        ]
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


class NewObjects(pygit2.OdbBackend):
    """How libgit2 sees what is packed later."""

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        # Called hundreds of times per step.
        self.read_cb, self.exists_cb, self.write_cb = packing.get, packing.has, packing.add

    def read_header_cb(self, object_id: pygit2.Oid) -> tuple[int, int]:
        kind, content = self.read_cb(object_id)
        return kind, len(content)

    def read_prefix_cb(self, name: str) -> tuple[int, bytes, pygit2.Oid]:
        """The first digits of an id, mostly all of them."""
        object_id = pygit2.Oid(hex=name)
        return (*self.read_cb(object_id), object_id)

    def exists_prefix_cb(self, name: str) -> pygit2.Oid:
        raise KeyError(name)

    def refresh_cb(self) -> None:
        """Nobody else writes here."""
