"""The archive of a hub: read there as ours is read here, and of its runs nothing is fetched but what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache

from msgspec import Struct

from gitswarm.errors import CorruptError, GitFailedError
from gitswarm.git.object_reader import entries_of
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Remote
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.archive import (
    COMMITS,
    OVERVIEW,
    REFS,
    archived_file,
    archived_refs,
    archived_runs,
    bring_commits_back,
    printed_objects,
)
from gitswarm.ledger.kept_overviews import (
    archived_overview,
    keep,
    kept_folder,
    overview_of,
    read_kept,
    read_objects,
    true_objects,
)
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import RUN_ID, RUNS_FOLDER

_DOWN_TO_RUNS = RUNS_FOLDER.count("/") + 2
"""Levels of the archive's tree whose last is the list of runs."""


class HubArchive(Struct, frozen=True):
    """`remote` as `scratch` sees it, which holds the archive's commit and its list of runs."""

    scratch: RepositoryReader
    remote: Remote

    def runs(self) -> list[RunLayout]:
        """Newest created first; also those that have a branch on the hub again."""
        return archived_runs(self.scratch)

    def overview(self, layout: RunLayout) -> RunOverview:
        self._bring_files(layout, OVERVIEW)
        return archived_overview(self.scratch, layout)

    def refs(self, layout: RunLayout) -> dict[str, str]:
        """Refs of an archived run as they were: name → commit."""
        self._bring_files(layout, REFS)
        return archived_refs(self.scratch, layout)

    def bring_run(self, layout: RunLayout, repository: RepositoryReader, remote: Remote) -> dict[str, str]:
        """Brings all that the run's refs reach to a repository; no ref moves there. The refs.

        :param remote: as that repository sees it.
        """
        self._bring_files(layout, REFS, COMMITS)
        printed = archived_file(self.scratch, layout, COMMITS)
        own = printed_objects(printed)
        heads = (content.partition(b"\n\n")[0].split(b"\n") for content in own.values())
        parents = {line[7:].decode() for head in heads for line in head if line.startswith(b"parent ")}
        try:
            remote.fetch([self._folders()[layout.run_id], *sorted(parents - own.keys())])
        except GitFailedError:  # the hub gives only what a ref names
            remote.fetch([ARCHIVE_REF])
        bring_commits_back(repository, printed)
        return archived_refs(self.scratch, layout)

    def _folders(self) -> dict[str, str]:
        """Tree by run."""
        objects = self.scratch.objects
        tip = self.scratch.refs.read(ARCHIVE_REF)
        tree = objects.entry(objects.commit(tip).tree, RUNS_FOLDER) if tip is not None else None
        return {name: object_id for name, (object_id, _mode) in objects.entries(tree).items()} if tree else {}

    def _bring_files(self, layout: RunLayout, *names: str) -> None:
        tree = self._folders()[layout.run_id]
        bring_objects(self.scratch, self.remote, [tree], 1)
        inside = self.scratch.objects.entries(tree)
        bring_objects(self.scratch, self.remote, [inside[name][0] for name in names], 1)


@contextmanager
def archive_on_hub(repository: RepositoryReader, remote: Remote) -> Iterator[HubArchive | None]:
    """
    :return: None: the hub has none.
    :raises GitFailedError: it cannot be reached.
    """
    with scratch_repository(repository) as folder:
        scratch = open_reader(folder, repository.env)
        archive = HubArchive(scratch, remote.seen_from(folder))
        yield archive if fetch_archive(scratch, archive.remote) else None


def overviews_on_hub(
    repository: RepositoryReader, remote: Remote, tip: str, chosen: Callable[[list[RunLayout]], list[RunLayout]]
) -> list[RunOverview]:
    """How the chosen ones of the archived runs stood; of what was seen before nothing is fetched.

    :param tip: the archive's commit over there.
    :raises GitFailedError: it cannot be reached.
    :raises CorruptError: the archive was made by somebody else, or is gone.
    """
    file = kept_folder(repository) / "archive"
    kept, seen = read_kept(file), dict[str, bytes]()
    with ExitStack() as opened:
        there = cache(lambda: opened.enter_context(archive_on_hub(repository, remote)))

        def contents(wanted: Sequence[str], kind: str) -> list[bytes]:
            seen.update(true_objects(kept, wanted, kind))
            unknown = [each for each in wanted if each not in seen]
            if unknown and (archive := there()) is not None:
                bring_objects(archive.scratch, archive.remote, unknown, 1)
                seen.update(read_objects(archive.scratch, unknown, kind))
            return [seen[each] for each in wanted]

        try:
            tree = contents([tip], "commit")[0][5:45].decode()
            for name in RUNS_FOLDER.split("/"):
                tree = entries_of(*contents([tree], "tree"))[name][0]
            trees = {name: to for name, (to, _mode) in entries_of(*contents([tree], "tree")).items()}
            runs = chosen([RunLayout(name) for name in sorted(trees, reverse=True) if RUN_ID.fullmatch(name)])
            folders = contents([trees[layout.run_id] for layout in runs], "tree")
            files = contents([entries_of(each)[OVERVIEW][0] for each in folders], "blob")
            found = [overview_of(json.loads(each)) for each in files]
        except (LookupError, TypeError, ValueError) as error:
            hint = f"git ls-remote {remote.name} {ARCHIVE_REF}"
            raise CorruptError(f"the archive on {remote.name} cannot be read: {error}", hint=hint) from error
    keep(file, seen, kept)
    return found


def fetch_archive(scratch: RepositoryReader, remote: Remote) -> bool:
    """Brings the commit of the hub's archive, under its name there, and the list of runs; whether there is one."""
    remote.fetch_some([f"+{ARCHIVE_REF}*:{ARCHIVE_REF}*"], 0)  # with a star: it may be absent
    tip = scratch.refs.read(ARCHIVE_REF)
    if tip is not None:
        bring_objects(scratch, remote, [scratch.objects.commit(tip).tree], _DOWN_TO_RUNS)
    return tip is not None


def bring_objects(scratch: RepositoryReader, remote: Remote, wanted: Iterable[str], depth: int) -> None:
    """Those that are missing."""
    asked = "".join(f"{each}\n" for each in dict.fromkeys(wanted)).encode()
    listed = scratch.git.output("cat-file", "--batch-check", stdin=asked).decode().splitlines() if asked else []
    missing = [line.partition(" ")[0] for line in listed if line.endswith(" missing")]
    if missing:
        remote.fetch_some(missing, depth)


@contextmanager
def archived_on_hub(repository: RepositoryReader, remote: Remote, layout: RunLayout) -> Iterator[HubArchive | None]:
    """The archive, when the run is in it."""
    with archive_on_hub(repository, remote) as archive:
        yield archive if archive is not None and layout in archive.runs() else None
