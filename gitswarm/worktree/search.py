"""Looks for secrets in what was staged, and keeps files that hold one where neither a commit nor an agent takes
them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from threading import Timer

from msgspec import Struct, field, structs

from gitswarm.git.incoming import EarlierContent, Incoming
from gitswarm.git.tree_changes import IndexChange
from gitswarm.records.record import readable
from gitswarm.records.safety import FindSecrets, Scrub, SecretFound, Suspect
from gitswarm.untrusted import next_name
from gitswarm.worktree.shadow import Shadow

_OVERLAP = 64_000
"""What a piece of a big file repeats of the one before: a secret may lie across the border."""

_GITLINK = 0o160000
_LONG_BYTES, _LONG_FILES = 50_000_000, 5_000
"""From here on it is reported that it takes long."""

_PATIENCE_S = 10.0

_BINARY_BYTES, _HEAD = 64_000_000, 8_000
"""How much of a binary file is looked through, and where the zero stands by which git knows one."""


class Search(Struct, frozen=True):
    """What is looked for, and the tree that the worktree was before: what it or one of the `known` trees holds is not
    new. `report`: shows to a person what takes long, or was not looked at."""

    find: FindSecrets
    before: str
    known: tuple[str, ...] = ()
    report: Callable[[str], None] = field(default=lambda _text: None)


class Flagged(Struct, frozen=True):
    """A file that may not be stored; `path` may itself hold a secret, unlike those in `found`. Without any, one that
    may not go: what was to replace it is not stored."""

    path: str
    found: tuple[SecretFound, ...]
    former: IndexChange


class Staged(Struct, frozen=True):
    """The code as a tree. It holds the `flagged` files as they were before, or not at all. `refused`: why git does
    not take the files: then the changed ones are in it as they lie on disk."""

    tree: str
    flagged: tuple[Flagged, ...] = ()
    refused: str = ""


def flagged_files(
    shadow: Shadow, incoming: Incoming, search: Search, changes: Sequence[IndexChange]
) -> Iterator[Flagged]:
    """Files whose new content, or whose new name, holds a secret that stood nowhere before; and those that git would
    take for the former version of such a file."""
    looked = [change for change in changes if change.new_id is not None and change.new_mode != _GITLINK]
    _say_how_much(shadow, search, looked)
    suspects = {
        change: found
        for change in looked
        if (found := (*_in_name(search, change), *_in_content(shadow, incoming, search, change)))
    }
    if not suspects:
        return
    values = {suspect.value for found in suspects.values() for suspect in found}
    held = EarlierContent(shadow.git, shadow.objects, (search.before, *search.known)).held(values)
    flagged = set()
    for change, found in suspects.items():
        new = tuple(suspect.found for suspect in found if suspect.value not in held)
        if new:
            flagged.add(change.path)
            yield Flagged(change.path, new, change)
    gone = {change.path: change for change in changes if change.new_id is None}
    for source in _renamed(shadow, incoming, search, flagged) if flagged and gone else ():
        if source in gone:
            yield Flagged(source, (), gone[source])


@contextmanager
def saying_what_takes_long(shadow: Shadow, search: Search | None) -> Iterator[None]:
    """Names the biggest file of the worktree when git has not staged everything after a while."""
    timer = Timer(_PATIENCE_S, _say_what_takes_long, (shadow, search)) if search is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def _say_what_takes_long(shadow: Shadow, search: Search) -> None:
    files = (Path(folder, name) for folder, _folders, names in os.walk(shadow.path) for name in names)
    size, path = max(((_size(path), path) for path in files), default=(0, shadow.path))
    where = readable(os.fspath(path.relative_to(shadow.path)))
    search.report(f"still staging what changed; the biggest file is {where} ({_amount(size)})")


def _say_how_much(shadow: Shadow, search: Search, changes: Sequence[IndexChange]) -> None:
    size = sum(_size(shadow.path / change.path) for change in changes)
    if size > _LONG_BYTES or len(changes) > _LONG_FILES:
        search.report(f"looking through {_amount(size)} in {len(changes)} files for secrets")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _amount(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _in_name(search: Search, change: IndexChange) -> Sequence[Suspect]:
    if change.old_id is not None:
        return ()
    found = search.find(change.path, os.fsencode(change.path))
    return [replace(item, found=structs.replace(item.found, line=0)) for item in found]


def _in_content(shadow: Shadow, incoming: Incoming, search: Search, change: IndexChange) -> Iterator[Suspect]:
    """In pieces that overlap, so that the size of a file does not matter. Of a binary file, the begin."""
    lines, tail, done, is_binary = 0, b"", 0, False
    seen: set[SecretFound] = set()
    for piece in _pieces(shadow, incoming, change.new_id or ""):
        is_binary = is_binary or (done == 0 and b"\0" in piece[:_HEAD])
        if is_binary and done >= _BINARY_BYTES:
            size = _amount(_size(shadow.path / change.path))
            search.report(
                f"{readable(change.path)}: binary; only {_amount(done)} of {size} looked through for secrets"
            )
            return
        content = tail + piece
        for item in search.find(change.path, content):
            found = structs.replace(item.found, line=item.found.line + lines)
            if found not in seen:
                seen.add(found)
                yield replace(item, found=found)
        tail = content[-_OVERLAP:]
        lines += content.count(b"\n", 0, len(content) - len(tail))
        done += len(piece)


def _pieces(shadow: Shadow, incoming: Incoming, blob_id: str) -> Iterator[bytes]:
    found = incoming.pieces(shadow.git, blob_id)
    # An agent may have added the file itself: then its blob is in the store already.
    return found if found is not None else iter((shadow.objects.read_blob(blob_id),))


def _renamed(shadow: Shadow, incoming: Incoming, search: Search, flagged: Collection[str]) -> Iterator[str]:
    """What git takes for the former names of these files."""
    arguments = ("diff-index", "--cached", "--raw", "-z", "-M", "--no-abbrev", "--diff-filter=R", search.before)
    fields = shadow.git.output(*arguments, extra_env=incoming.env).split(b"\0")
    for source, target in zip(fields[1::3], fields[2::3], strict=False):
        if os.fsdecode(target) in flagged:
            yield os.fsdecode(source)


def former_entries(flagged: Sequence[Flagged]) -> bytes:
    """Lines for `git update-index --index-info` that make the entries what they were before."""
    lines = (_line(item.former) for item in flagged)
    return b"".join(chain.from_iterable(zip(lines, repeat(b"\0"))))


def _line(change: IndexChange) -> bytes:
    about = f"{change.old_mode:o} {change.old_id}" if change.old_id is not None else f"0 {'0' * 40}"
    return about.encode() + b"\t" + os.fsencode(change.path)


def keep_copy(shadow: Shadow, item: Flagged, store: Path, scrub: Scrub) -> str:
    """Copies a file as it lies in the worktree into `store`, readable for its owner alone; its name there."""
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = next_name(store, scrub(item.path.replace("/", "_")))
    source = shadow.path / item.path
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return target.name
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as given, os.fdopen(handle, "wb") as kept:
        shutil.copyfileobj(given, kept)
    return target.name


def put_former_back(shadow: Shadow, flagged: Sequence[Flagged]) -> None:
    """Makes files in the worktree what the index says: their former version, or nothing."""
    for item in flagged:
        (shadow.path / item.path).unlink(missing_ok=True)
    names = [item.path for item in flagged if item.former.old_id is not None]
    if names:
        listed = b"".join(os.fsencode(name) + b"\0" for name in names)
        shadow.git.output("checkout-index", "-f", "-u", "-z", "--stdin", stdin=listed)
