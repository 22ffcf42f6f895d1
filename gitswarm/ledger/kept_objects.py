"""Objects of a hub as they were read last, kept in a file: leases, and how archived runs stood.

An object has to have its id, so that the file can say nothing that the hub does not. Whoever deletes it loses time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from gitswarm.git.object_reader import hash_object
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import printed_objects
from gitswarm.ledger.kept_overviews import kept_folder, write_kept

_FEW = 100
"""Objects that are read each time: one process, whatever is kept."""


def lease_commits(repository: RepositoryReader, wanted: Collection[str]) -> dict[str, bytes]:
    """Content of commits by id, of those that are here."""
    file = kept_folder(repository) / "leases"
    found = true_objects(read_kept(file), wanted, "commit") if len(wanted) > _FEW else {}
    unknown = [each for each in wanted if each not in found]
    if unknown:
        read = read_objects(repository, unknown, "commit")
        found.update(read)
        keep(file, found, len(read))
    return found


def read_objects(repository: RepositoryReader, wanted: Collection[str], kind: str) -> dict[str, bytes]:
    """Content by id, of those that are in a repository."""
    asked = "".join(f"{each}\n" for each in wanted).encode()
    return true_objects(
        printed_objects(repository.git.output("cat-file", "--batch", "--buffer", stdin=asked)), wanted, kind
    )


def true_objects(contents: Mapping[str, bytes], wanted: Collection[str], kind: str) -> dict[str, bytes]:
    """Those of the wanted objects that have the content of their id."""
    have = ((each, contents[each]) for each in wanted if each in contents)
    return {each: content for each, content in have if hash_object(kind, content) == each}


def read_kept(file: Path) -> dict[str, bytes]:
    with suppress(OSError, msgspec.DecodeError):  # there is none, or nothing that we wrote
        return msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes])
    return {}


def keep(file: Path, objects: dict[str, bytes], new: int) -> None:
    """
    :param new: how many of them are not kept; a few are not worth the writing of all.
    """
    if new > _FEW:
        write_kept(file, msgspec.msgpack.encode(objects))
