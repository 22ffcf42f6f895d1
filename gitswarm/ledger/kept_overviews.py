"""What `list` shows, kept in files: of a run that nobody executes, until one of its refs moves, and objects of a hub.

A replay reads every commit of a run. The files are derived: whoever deletes one loses time, and what changes a run or
judges it asks `overview`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gitswarm import __version__
from gitswarm.git.object_reader import hash_object
from gitswarm.git.owners import owner_of, starting_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import printed_objects
from gitswarm.ledger.archived_overview import overview_of
from gitswarm.ledger.finding import journal_folder
from gitswarm.ledger.journal_files import journal_files
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview, overview

_FOLDER = "overviews"
_LAND = "git swarm land"
_FEW = 100
"""Objects that are read each time: one process, whatever is kept."""


def kept_overview(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
    """As `overview`, which is asked where there is no file, or one of another time.

    :raises NotFoundError: no such run.
    """
    stands = _stands(repository, layout)
    file = kept_folder(repository) / f"{layout.run_id}.json"
    kept = _read(file, stands) if stands is not None else None
    if kept is not None:
        worktree = repository.worktree_made_for(layout.branch)
        return replace(kept, worktree=str(worktree.path) if worktree else None)
    found = overview(repository, layout)
    # What `land` has to be told depends on branches that are not the run's.
    if stands is not None and not found.hint.startswith(_LAND) and _stands(repository, layout) == stands:
        write_kept(file, json.dumps({"stands": stands, "overview": found.to_plain()}).encode())
    return found


def forget_overviews(repository: RepositoryReader) -> None:
    import shutil  # noqa: PLC0415 - only gc needs it

    shutil.rmtree(kept_folder(repository), ignore_errors=True)


def kept_folder(repository: RepositoryReader) -> Path:
    """What can be read from git again, only slower."""
    return repository.swarm_dir / _FOLDER


def _stands(repository: RepositoryReader, layout: RunLayout) -> str | None:
    """Everything that a run's overview depends on, as a digest; None: it is executed, or was cut off."""
    import hashlib  # noqa: PLC0415 - 2 ms of OpenSSL

    run, common = layout.run_id, repository.common_dir
    if starting_of(common, run) or owner_of(common, run) or journal_files(journal_folder(repository, layout)):
        return None
    prefixes = (layout.branch, f"refs/swarm/{run}/", f"refs/notes/swarm/{run}/")
    refs = [sorted(repository.refs.values(prefix).items()) for prefix in prefixes]
    return hashlib.sha256(repr((__version__, RunOverview.__struct_fields__, refs)).encode()).hexdigest()


def _read(file: Path, stands: str) -> RunOverview | None:
    try:
        plain = json.loads(file.read_bytes())
        return overview_of(plain["overview"]) if plain["stands"] == stands else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):  # nothing that we wrote
        return None


def write_kept(file: Path, content: bytes) -> None:
    """Whole or not at all; where nobody may write, not."""
    staged = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        staged.write_bytes(content)
        staged.replace(file)


def lease_commits(repository: RepositoryReader, wanted: Collection[str]) -> dict[str, bytes]:
    """Content of commits by id, of those that are here."""
    file = kept_folder(repository) / "leases"
    kept = read_kept(file) if len(wanted) > _FEW else {}
    found = true_objects(kept, wanted, "commit")
    if len(found) < len(wanted):
        found |= read_objects(repository, [each for each in wanted if each not in found], "commit")
        keep(file, found, kept)
    return found


def read_objects(repository: RepositoryReader, wanted: Collection[str], kind: str) -> dict[str, bytes]:
    asked = "".join(f"{each}\n" for each in wanted).encode()
    printed = repository.git.output("cat-file", "--batch", "--buffer", stdin=asked)
    return true_objects(printed_objects(printed), wanted, kind)


def true_objects(contents: Mapping[str, bytes], wanted: Collection[str], kind: str) -> dict[str, bytes]:
    """Those of the wanted objects that have the content of their id: no file can say what the hub does not."""
    have = ((each, contents[each]) for each in wanted if each in contents)
    return {each: content for each, content in have if hash_object(kind, content) == each}


def read_kept(file: Path) -> dict[str, bytes]:
    with suppress(OSError, msgspec.DecodeError):  # there is none, or nothing that we wrote
        return msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes])
    return {}


def keep(file: Path, objects: dict[str, bytes], kept: dict[str, bytes]) -> None:
    if len(objects.items() - kept.items()) > _FEW:
        write_kept(file, msgspec.msgpack.encode(objects))
