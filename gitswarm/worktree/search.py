"""Looks for secrets in what was staged, before it is part of the repository."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from gitswarm.git.incoming import Incoming
from gitswarm.git.objects import IndexChange
from gitswarm.records.secrets import FindSecrets, SecretFound
from gitswarm.worktree.shadow import Shadow

_OVERLAP = 64_000
"""What a piece of a big file repeats of the one before: a secret may lie across the border."""

_GITLINK = 0o160000


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for, and the tree that the worktree was before: what it held already is not new."""

    find: FindSecrets
    before: str


@dataclass(frozen=True, slots=True)
class Flagged:
    """A file that may not be stored; `path` may itself hold a secret, unlike those in `found`."""

    path: str
    found: tuple[SecretFound, ...]
    former: IndexChange


@dataclass(frozen=True, slots=True)
class Staged:
    """The code as a tree. It holds the `flagged` files as they were before, or not at all."""

    tree: str
    flagged: tuple[Flagged, ...] = ()


def flagged_files(
    shadow: Shadow, incoming: Incoming, search: Search, changes: Sequence[IndexChange]
) -> Iterator[Flagged]:
    """Files whose new content, or whose new name, holds a secret that no changed file held before."""
    suspects = []
    for change in changes:
        if change.new_id is not None and change.new_mode != _GITLINK:
            found = (*_in_name(search, change), *_in_content(shadow, incoming, search, change))
            if found:
                suspects.append((change, found))
    if not suspects:
        return
    # A secret that moves from one file to another is not new: what every changed file held is asked, once needed.
    former = b"\n".join(_former(shadow, changes))
    for change, _found in suspects:
        again = (*_in_name(search, change, former), *_in_content(shadow, incoming, search, change, former))
        if again:
            yield Flagged(change.path, again, change)


def _in_name(search: Search, change: IndexChange, former: bytes | None = None) -> Sequence[SecretFound]:
    if change.old_id is not None:
        return ()
    found = search.find(change.path, os.fsencode(change.path), former)
    return [item.model_copy(update={"line": 0}) for item in found]


def _in_content(
    shadow: Shadow, incoming: Incoming, search: Search, change: IndexChange, former: bytes | None = None
) -> Iterator[SecretFound]:
    """In pieces that overlap, so that the size of a file does not matter."""
    lines, tail = 0, b""
    seen: set[SecretFound] = set()
    for piece in _pieces(shadow, incoming, change.new_id or ""):
        content = tail + piece
        for item in search.find(change.path, content, former):
            found = item.model_copy(update={"line": item.line + lines}) if lines else item
            if found not in seen:
                seen.add(found)
                yield found
        tail = content[-_OVERLAP:]
        lines += content.count(b"\n", 0, len(content) - len(tail))


def _pieces(shadow: Shadow, incoming: Incoming, blob_id: str) -> Iterator[bytes]:
    found = incoming.pieces(shadow.git, blob_id)
    # An agent may have added the file itself: then its blob is in the store already.
    return found if found is not None else iter((shadow.objects.read_blob(blob_id),))


def _former(shadow: Shadow, changes: Sequence[IndexChange]) -> Iterator[bytes]:
    for change in changes:
        if change.old_id is not None and change.old_mode != _GITLINK:
            yield os.fsencode(change.path)
            yield shadow.objects.read_blob(change.old_id)


def former_entries(flagged: Sequence[Flagged]) -> bytes:
    """Lines for `git update-index --index-info` that make the entries what they were before."""
    lines = (_line(item.former) for item in flagged)
    return b"".join(chain.from_iterable(zip(lines, repeat(b"\0"))))


def _line(change: IndexChange) -> bytes:
    about = f"{change.old_mode:o} {change.old_id}" if change.old_id is not None else f"0 {'0' * 40}"
    return about.encode() + b"\t" + os.fsencode(change.path)
