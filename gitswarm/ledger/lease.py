"""Runs on a hub, read from here: the lease of each, who executes it and how it stands (docs/decisions/0020-hub.md),
and the hub's archive, of which nothing is fetched but what is asked for. Each run of this clone that is on a hub has
a mark in a local file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from gitswarm.errors import CorruptError, GitFailedError, NotFoundError, SwarmError
from gitswarm.git.object_reader import EMPTY_TREE, NewCommit, entries_of
from gitswarm.git.owners import clone_id, this_host
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Remote, configured_hub
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.archive import (
    COMMITS,
    OVERVIEW,
    REFS,
    archived_file,
    archived_refs,
    archived_runs,
    bring_commits_back,
    missing_objects,
    printed_objects,
)
from gitswarm.ledger.finding import matching_runs
from gitswarm.ledger.kept_overviews import (
    archived_overview,
    keep,
    kept_folder,
    lease_commits,
    overview_of,
    read_kept,
    read_objects,
    true_objects,
)
from gitswarm.ledger.layout import RunLayout, run_of
from gitswarm.ledger.overview import RunOverview
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import RUN_ID, RUNS_FOLDER

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository


_LOOKS = 10
"""How often the lease of a run that goes on may be replaced while we fetch it."""


class Lease(Struct, frozen=True):
    """`generation` grows with every owner. `executes`: its process goes on with the run, or was killed; `held`:
    nobody else may. `time`: when it was written, for people. `overview`: how the run stood; None: nobody has said.
    `chance`: no two leases are the same commit, whatever their clocks and machines are called. `attempts`: how often
    somebody began to execute the run since its newest step. `asked`: what its owner is to do at the next boundary."""

    run_id: str
    generation: int
    owner: str
    time: Annotated[datetime, Meta(tz=True)]
    executes: bool
    chance: str
    overview: RunOverview | None = None
    held: bool = False
    attempts: int = 0
    asked: Literal["stop", "pause"] | None = None

    def write(self, repository: Repository) -> str:
        """Stores it as a commit; its id. No ref names it here."""
        objects = repository.objects
        objects.with_files(None, {})
        message = f"lease of {self.run_id}, generation {self.generation}\n\n{msgspec.json.encode(self).decode()}\n"
        who = repository.committer()
        return objects.write_commit(NewCommit(EMPTY_TREE, (), message, who, who, self.time))


def owner_here(repository: RepositoryReader) -> str:
    """This clone, as leases name it: the machine, and which of its repositories."""
    return f"{this_host()}:{clone_id(repository.common_dir)}"


def is_of(layout: RunLayout, ref: str) -> bool:
    """Whether a ref belongs to the run."""
    branch, *folders = layout.ref_patterns
    return ref == branch or any(ref.startswith(folder.removesuffix("*")) for folder in folders)


def mark_shared(repository: RepositoryReader, layout: RunLayout) -> None:
    """Says that the run was pushed from here, or came from there. Safe to repeat."""
    file = _mark(repository, layout)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def is_shared(repository: RepositoryReader, layout: RunLayout) -> bool:
    """Whether the run was on a hub, and this clone has one."""
    with suppress(NotFoundError):
        return _mark(repository, layout).exists() and bool(configured_hub(repository))
    return False


def _mark(repository: RepositoryReader, layout: RunLayout) -> Path:
    return repository.swarm_dir / "shared" / layout.run_id


def find_on_hub(repository: RepositoryReader, remote: Remote, text: str | None) -> RunLayout:
    """The run on the hub that a person means, as `find_run` does here: one of its archive, if no other.

    :raises NotFoundError: none, or several.
    """
    prefix = RunLayout("").branch
    names = (ref.removeprefix(prefix) for ref in remote.refs(f"{prefix}*"))
    runs = [RunLayout(name) for name in sorted(names, reverse=True) if RUN_ID.fullmatch(name)]
    here = repository.head_branch() if repository.checkout else None
    found = matching_runs(runs, text) if text else [*(run for run in runs if run.branch == here), *runs][:1]
    if text and not found:
        with archive_on_hub(repository, remote) as archive:
            found = matching_runs(archive.runs(), text) if archive is not None else []
    if len(found) == 1:
        return found[0]
    what = f"'{text}' matches {len(found)} runs on {remote.name}" if found else f"{remote.name} has no such run"
    raise NotFoundError(what, hint="git swarm list --hub")


def refs_here(repository: RepositoryReader, layout: RunLayout) -> dict[str, str]:
    """Every ref of the run, as the hub is to have it: id by name.

    :raises CorruptError: one is damaged.
    """
    refs = repository.refs
    names = (name for folder in layout.ref_patterns[1:] for name in refs.list(folder.removesuffix("*")))
    found = {name: refs.read(name) for name in (layout.branch, *names)}
    return {name: commit for name, commit in found.items() if commit is not None}


def refs_to_push(repository: RepositoryReader, state: RunState) -> dict[str, str]:
    """Those, and what a fork needs of the runs that it was forked from."""
    found = refs_here(repository, state.layout)
    for run in {record.execution.run_id for record in state.steps[: state.shared]}:
        decisions = repository.refs.read(RunLayout(run).routing_notes)
        if decisions is not None:
            found[state.layout.origin_ref(run)] = decisions
    return found


class OnHub(Struct, frozen=True):
    """What the hub has: ids by ref, and the leases among them by run, newest run first. `unreadable`: why others are
    missing."""

    refs: Mapping[str, str]
    leases: Mapping[str, Lease]
    unreadable: tuple[SwarmError, ...]


def look_at_hub(
    repository: RepositoryReader, remote: Remote, layout: RunLayout | None = None, *, everything: bool = False
) -> OnHub:
    """All leases, or everything that the hub has of one run. Of runs nothing is fetched but their leases.

    :param everything: all refs of all runs, too, and the archive's.
    :raises GitFailedError: it cannot be reached.
    """
    patterns: tuple[str, ...] = (RunLayout("*").lease_ref, ARCHIVE_REF)
    if everything or layout is not None:
        patterns = (*(layout or RunLayout("*")).ref_patterns, *([ARCHIVE_REF] if everything else []))
    for left in reversed(range(_LOOKS)):
        listed = remote.refs(*patterns)  # git takes a pattern for the end of a name
        refs = {name: to for name, to in listed.items() if layout is None or is_of(layout, name)}
        commits = {
            run: to
            for name, to in refs.items()
            if name.endswith("/lease") and (run := run_of(name)) and name == RunLayout(run).lease_ref
        }
        found = lease_commits(repository, commits.values())
        missing = [to for to in commits.values() if to not in found]
        if not missing:
            break
        try:
            # By their ids: git looks for each name among all that the hub has.
            remote.fetch(missing)
        except GitFailedError:
            if not left:
                raise
        # A run that goes on has another one by now, and an old server may not give us the one before.
    leases: dict[str, Lease] = {}
    unreadable = []
    for run in sorted(commits, reverse=True):
        try:
            leases[run] = _parsed(run, found.get(commits[run], b""))
        except msgspec.DecodeError as error:
            hint = f"git ls-remote {remote.name} {RunLayout(run).lease_ref}"
            unreadable.append(CorruptError(f"the lease of {run} on {remote.name} cannot be read: {error}", hint=hint))
    return OnHub(refs, leases, tuple(unreadable))


def _parsed(run: str, commit: bytes) -> Lease:
    """
    :raises DecodeError: it is no lease.
    """
    lease = msgspec.json.decode(commit.partition(b"\n\n")[2].partition(b"\n\n")[2], type=Lease)
    return lease if lease.run_id == run else replace(lease, run_id=run)


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
    missing = missing_objects(scratch, dict.fromkeys(wanted))
    if missing:
        remote.fetch_some(missing, depth)


@contextmanager
def archived_on_hub(repository: RepositoryReader, remote: Remote, layout: RunLayout) -> Iterator[HubArchive | None]:
    """The archive, when the run is in it."""
    with archive_on_hub(repository, remote) as archive:
        yield archive if archive is not None and layout in archive.runs() else None
