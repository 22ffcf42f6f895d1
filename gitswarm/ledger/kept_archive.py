"""How the archived runs of a hub stood: of what was seen before nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property

from gitswarm.errors import GarbledError, GitFailedError
from gitswarm.git.cat_file import entries_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.remote import Remote
from gitswarm.ledger.archive import OVERVIEW
from gitswarm.ledger.archived_overview import overview_of
from gitswarm.ledger.hub_archive import HubArchive, archive_on_hub, bring_objects
from gitswarm.ledger.kept_objects import keep, read_kept, read_objects, true_objects
from gitswarm.ledger.kept_overviews import kept_folder
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import RUN_ID, RUNS_FOLDER


def overviews_on_hub(
    repository: RepositoryReader, remote: Remote, tip: str, chosen: Callable[[list[RunLayout]], list[RunLayout]]
) -> list[RunOverview]:
    """Of the chosen ones, which are asked for with the newest created first.

    :param tip: the archive's commit over there.
    :raises GitFailedError: it cannot be reached.
    :raises GarbledError: the archive was made by somebody else.
    """
    file = kept_folder(repository) / "archive"
    with ExitStack() as opened:
        objects = _Objects(repository, remote, read_kept(file), opened)
        folder = objects.contents([tip], "commit")[0][5:45].decode()
        for name in RUNS_FOLDER.split("/"):
            folder = objects.entry(folder, name)
        (listed,) = objects.contents([folder], "tree")
        trees = {RunLayout(name): to for name, (to, _mode) in entries_of(listed).items() if RUN_ID.fullmatch(name)}
        runs = chosen(sorted(trees, key=lambda layout: layout.run_id, reverse=True))
        objects.contents([trees[layout] for layout in runs], "tree")
        files = [objects.entry(trees[layout], OVERVIEW) for layout in runs]
        found = [overview_of(json.loads(each)) for each in objects.contents(files, "blob")]
        keep(file, objects.seen, objects.new)
    return found


class _Objects:
    """Objects of the archive: those that are kept, and of the others what a scratch repository fetches."""

    def __init__(
        self, repository: RepositoryReader, remote: Remote, kept: dict[str, bytes], opened: ExitStack
    ) -> None:
        self._repository, self._remote = repository, remote
        self._kept, self._opened = kept, opened
        self.seen: dict[str, bytes] = {}
        self.new = 0

    def contents(self, wanted: Sequence[str], kind: str) -> list[bytes]:
        self.seen.update(true_objects(self._kept, [each for each in wanted if each not in self.seen], kind))
        unknown = [each for each in wanted if each not in self.seen]
        if unknown:
            bring_objects(self._there.scratch, self._there.remote, unknown, 1)
            read = read_objects(self._there.scratch, unknown, kind)
            self.new += len(read)
            self.seen.update(read)
        if any(each not in self.seen for each in wanted):
            raise GarbledError(f"the archive on {self._remote.name} lacks a {kind}", hint="docs/hub.md")
        return [self.seen[each] for each in wanted]

    def entry(self, tree: str, name: str) -> str:
        """Id of what a tree has under a name."""
        (content,) = self.contents([tree], "tree")
        found = entries_of(content).get(name)
        if found is None:
            raise GarbledError(f"the archive on {self._remote.name} has no {name} in {tree}", hint="docs/hub.md")
        return found[0]

    @cached_property
    def _there(self) -> HubArchive:
        archive = self._opened.enter_context(archive_on_hub(self._repository, self._remote))
        if archive is None:
            raise GitFailedError(f"{self._remote.name} has no archive any more", hint="git swarm list --hub")
        return archive
