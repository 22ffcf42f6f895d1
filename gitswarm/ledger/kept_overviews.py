"""Overviews that are kept: in the archive, how a run stood when it was archived; in files, what `list` shows of a run
that nobody executes, until one of its refs moves, and objects of a hub.

A replay reads every commit of a run. The files are derived: whoever deletes one loses time, and what changes a run or
judges it asks `overview`.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gitswarm import __version__
from gitswarm.git.object_reader import hash_object
from gitswarm.git.owners import locks_folder, owner_of, starting_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import OVERVIEW, archived_file, printed_objects
from gitswarm.ledger.layout import RunLayout, run_of
from gitswarm.ledger.overview import (
    Listed,
    RunOverview,
    failed_setup,
    overview,
    overviews,
)
from gitswarm.records.execution import BRANCH_PREFIX

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue


_FOLDER = "overviews"
_LAND = "git swarm land"
_FORM = f"{__version__} {' '.join(RunOverview.__struct_fields__)}"
_WORTH = 500
"""To read a run's commits takes about as long as to write the file with so many."""
_FEW = 100
"""Objects that are read each time: one process, whatever is kept."""


class _KeptRuns(Struct):
    """`form`: what the file was written by. `runs`: by id, how a run's refs stood, and its overview then."""

    form: str
    runs: dict[str, tuple[str, Raw]]


def kept_overviews(repository: RepositoryReader, runs: list[RunLayout]) -> Listed:
    """Overviews of runs, of which only those are read whose refs have moved since they were kept."""
    file = kept_folder(repository) / "runs"
    kept, stands, fresh = _read_runs(file), _stands(repository), dict[str, tuple[str, Raw]]()
    decode = msgspec.msgpack.Decoder(RunOverview).decode
    with_worktree = {linked.made_for for linked in repository.linked_worktrees()}

    def kept_or_read(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
        run = layout.run_id
        made = repository.worktree_made_for(layout.branch) if layout.branch in with_worktree else None
        stood = stands.get(run) if failed_setup(made) is None else None
        with suppress(LookupError, msgspec.DecodeError):
            if stood is not None and kept[run][0] == stood:
                found = decode(kept[run][1])
                return replace(found, worktree=str(made.path)) if made else found
        found = overview(repository, layout)
        # Which option `land` needs depends on branches that are not the run's.
        if stood is not None and _LAND not in found.hint:
            with suppress(OverflowError):  # somebody stored a number of more than 64 bits
                fresh[run] = (stood, Raw(msgspec.msgpack.encode(replace(found, worktree=None))))
        return found

    listed = overviews(repository, runs, kept_or_read)
    if len(fresh) * _WORTH > len(kept):
        stands = _stands(repository)  # else a run that moved meanwhile would be kept as it stood on the way
        fresh_runs = {run: each for run, each in {**kept, **fresh}.items() if stands.get(run) == each[0]}
        write_kept(file, msgspec.msgpack.encode(_KeptRuns(_FORM, fresh_runs)))
    return listed


def forget_overviews(repository: RepositoryReader) -> None:
    import shutil  # noqa: PLC0415 - only gc needs it

    shutil.rmtree(kept_folder(repository), ignore_errors=True)


def kept_folder(repository: RepositoryReader) -> Path:
    """What can be read from git again, only slower."""
    return repository.swarm_dir / _FOLDER


def _stands(repository: RepositoryReader) -> dict[str, str]:
    """Everything that the overview of a run depends on, as a digest by its id; without runs that are executed, or
    were cut off."""
    import hashlib  # noqa: PLC0415 - 2 ms of OpenSSL

    refs = defaultdict[str | None, list[str]](list)
    for prefix in (f"refs/heads/{BRANCH_PREFIX}", "refs/swarm/", "refs/notes/swarm/"):
        for name, to in repository.refs.values(prefix).items():
            refs[run_of(name)].append(f"{name} {to}")
    busy = {None, *_executed_or_cut_off(repository)}
    return {
        run: hashlib.sha256("\n".join(lines).encode()).hexdigest()
        for run, lines in refs.items()
        if run is not None and run not in busy
    }


def _executed_or_cut_off(repository: RepositoryReader) -> Iterator[str]:
    common = repository.common_dir
    for file in chain(*(locks_folder(common).glob(f"*.{name}") for name in ("owner", "starting"))):
        if starting_of(common, file.stem) or owner_of(common, file.stem):
            yield file.stem
    for journal in (repository.swarm_dir / "journal").glob("*/*.jsonl"):
        yield journal.parent.name


def _read_runs(file: Path) -> dict[str, tuple[str, Raw]]:
    with suppress(OSError, msgspec.DecodeError):  # there is none, or nothing that we wrote
        kept = msgspec.msgpack.decode(file.read_bytes(), type=_KeptRuns)
        return kept.runs if kept.form == _FORM else {}
    return {}


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
    stdin = "".join(f"{each}\n" for each in wanted).encode()
    printed = repository.git.output("cat-file", "--batch", "--buffer", stdin=stdin)
    return true_objects(printed_objects(printed), wanted, kind)


def true_objects(contents: Mapping[str, bytes], wanted: Collection[str], kind: str) -> dict[str, bytes]:
    """The wanted objects whose content is that of their id: no file can say what the hub does not."""
    have = ((each, contents[each]) for each in wanted if each in contents)
    return {each: content for each, content in have if hash_object(kind, content) == each}


def read_kept(file: Path) -> dict[str, bytes]:
    with suppress(OSError, msgspec.DecodeError):  # there is none, or nothing that we wrote
        return msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes])
    return {}


def keep(file: Path, objects: dict[str, bytes], kept: dict[str, bytes]) -> None:
    if len(objects.items() - kept.items()) > _FEW:
        write_kept(file, msgspec.msgpack.encode(objects))


def archived_overview(repository: RepositoryReader, layout: RunLayout) -> RunOverview:
    """How the run stood when it was archived: it does not change any more.

    :raises NotFoundError: the run is not archived.
    """
    return overview_of(json.loads(archived_file(repository, layout, OVERVIEW)))


def overview_of(plain: JsonValue) -> RunOverview:
    """What `to_plain` wrote, also an earlier or a later version's; without the worktree, which is not the run's own.

    :raises ValueError: it wrote no such thing.
    """
    return replace(msgspec.convert(plain, RunOverview), worktree=None)
