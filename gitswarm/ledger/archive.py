"""The archive: one ref for all runs that were folded into it, and how they are read from there.

`refs/swarm/archive` is a commit with `.swarm/runs/<run>/` for each run: `overview.json` (`status --json` as it was),
`refs` (`<commit> <ref>` a line), `commits` (all commits of those refs, as `git cat-file --batch` prints them) and
`trees/<commit>`, the tree of each. So nothing of a run is lost to `git gc`, and `git log --all` shows one commit.

They lie below `.swarm/runs`, where the push guard lets nothing out under any name. The trash holds discarded runs
under refs of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitswarm.errors import CorruptError, NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.ref_files import ARCHIVE_REF, RefReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.execution import RUN_ID, RUNS_FOLDER

TITLE = "git-swarm archive"
REFS, COMMITS, TREES, OVERVIEW = "refs", "commits", "trees", "overview.json"


def archived_runs(repository: RepositoryReader) -> list[RunLayout]:
    """Archived runs, newest created first; also those that have a branch again."""
    tip = repository.refs.read(ARCHIVE_REF)
    if tip is None:
        return []
    folder = repository.objects.entry(repository.objects.commit(tip).tree, RUNS_FOLDER)
    names = repository.objects.entries(folder) if folder is not None else {}
    return [RunLayout(name) for name in sorted(names, reverse=True) if RUN_ID.fullmatch(name)]


def archived_file(repository: RepositoryReader, layout: RunLayout, name: str) -> bytes:
    """
    :raises NotFoundError: the run is not archived.
    """
    tip = repository.refs.read(ARCHIVE_REF)
    tree = repository.objects.commit(tip).tree if tip is not None else None
    found = repository.objects.file(tree, f"{layout.base}/{name}") if tree is not None else None
    if found is None:
        raise NotFoundError(f"{layout.run_id} is not in {ARCHIVE_REF}", hint="git swarm list --all")
    return found


def archived_refs(repository: RepositoryReader, layout: RunLayout) -> dict[str, str]:
    """Refs of an archived run as they were: name → commit.

    :raises NotFoundError: the run is not archived.
    """
    lines = archived_file(repository, layout, REFS).decode().splitlines()
    return {name: commit_id for commit_id, _blank, name in (line.partition(" ") for line in lines)}


def read_archived(repository: RepositoryReader, layout: RunLayout) -> None:
    """From here on this process reads an archived run as if its refs were there. Commits of it that `git gc` has
    removed are written anew; nothing refers to them.

    :raises NotFoundError: the run is not archived.
    """
    bring_commits_back(repository, archived_file(repository, layout, COMMITS))
    repository.refs = _WithArchived(repository.refs, archived_refs(repository, layout))


def is_read_from_archive(repository: RepositoryReader, layout: RunLayout) -> bool:
    """Whether the run that was found is read from the archive."""
    return isinstance(repository.refs, _WithArchived) and layout.branch in repository.refs.archived


def read_if_archived(repository: RepositoryReader, layout: RunLayout) -> None:
    """`read_archived`, for a run that is neither here nor read from the archive already."""
    if repository.refs.read(layout.branch) is None and layout in archived_runs(repository):
        read_archived(repository, layout)


class _WithArchived(RefReader):
    """Refs as they are, and below them those of an archived run."""

    def __init__(self, refs: RefReader, archived: Mapping[str, str]) -> None:
        self._refs = refs
        self.archived = archived

    def read(self, name: str) -> str | None:
        found = self._refs.read(name)
        return self.archived.get(name) if found is None else found

    def list(self, prefix: str) -> list[str]:
        return sorted({*self._refs.list(prefix), *(name for name in self.archived if name.startswith(prefix))})


def bring_commits_back(repository: RepositoryReader, printed: bytes) -> None:
    """Writes those that are missing.

    :param printed: what the archive has of them.
    :raises CorruptError: the archive was made by somebody else.
    """
    stored = printed_objects(printed)
    for commit_id in missing_objects(repository, stored):
        written = repository.git.output("hash-object", "-t", "commit", "-w", "--stdin", stdin=stored[commit_id])
        if written.decode().strip() != commit_id:
            raise CorruptError(f"{ARCHIVE_REF} holds another commit for {commit_id}", hint="git fsck --full")


def missing_objects(repository: RepositoryReader, wanted: Collection[str]) -> list[str]:
    """Ids of those that are not here."""
    stdin = "".join(f"{each}\n" for each in wanted).encode()
    listed = repository.git.output("cat-file", "--batch-check", stdin=stdin).decode().splitlines() if stdin else []
    return [line.partition(" ")[0] for line in listed if line.endswith(" missing")]


def printed_objects(printed: bytes) -> dict[str, bytes]:
    """Id → content, of what `git cat-file --batch` printed, without what is missing."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        commit_id, _kind, *size = printed[at:end].decode().split()
        at = end + 1
        if size:
            found[commit_id] = printed[at : at + int(size[0])]
            at += int(size[0]) + 1
    return found


TRASH = "refs/swarm/trash/"


def discarded_runs(repository: RepositoryReader) -> list[RunLayout]:
    """Oldest created first."""
    names = {name.removeprefix(TRASH).partition("/")[0] for name in repository.refs.list(TRASH)}
    return [RunLayout(name) for name in sorted(names)]
