"""Leases as a hub had them when it was looked at last, kept in one file: git would read a commit for each run.

A commit in it has to have its id, so that the file can say nothing that the hub does not. Whoever deletes it loses
time.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import msgspec

from gitswarm.git.object_reader import hash_object
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import printed_commits
from gitswarm.ledger.kept_overviews import kept_folder, write_kept

_FEW = 100
"""Commits that git is asked for each time: one process, whatever is kept."""


def lease_commits(repository: RepositoryReader, wanted: Collection[str]) -> dict[str, bytes]:
    """Content of commits by id, of those that are here."""
    file = kept_folder(repository) / "leases"
    kept: dict[str, bytes] = {}
    if len(wanted) > _FEW:
        with suppress(OSError, msgspec.DecodeError):  # there is none, or nothing that we wrote
            kept = msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes])
    found = _those(kept, wanted)
    unknown = [each for each in wanted if each not in found]
    if unknown:
        asked = "".join(f"{each}\n" for each in unknown).encode()
        printed = repository.git.output("cat-file", "--batch", "--buffer", stdin=asked)
        read = _those(printed_commits(printed), unknown)
        found.update(read)
        if len(read) > _FEW:
            write_kept(file, msgspec.msgpack.encode(found))
    return found


def _those(contents: dict[str, bytes], wanted: Collection[str]) -> dict[str, bytes]:
    """Of the commits that were asked for, those that have the content of their id."""
    have = ((each, contents[each]) for each in wanted if each in contents)
    return {each: content for each, content in have if hash_object("commit", content) == each}
