"""A run whose branch somebody deleted, renamed, moved or rewrote: its notes still know its commits."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import TYPE_CHECKING

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import archived_runs
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import CommitMessage, Kind, parse_message
from gitswarm.ledger.state import first_parents
from gitswarm.records.execution import BRANCH_PREFIX, RUN_ID

if TYPE_CHECKING:
    from gitswarm.git.repository import Repository


_PREFIX = "refs/swarm/"
_BASE = "/base"


def runs_without_branch(
    repository: RepositoryReader, text: str = "", *, seen: Collection[str] = (), reads_commits: bool = True
) -> list[RunLayout]:
    """Runs whose name holds `text` and of which no branch holds a commit any more; archived ones have none.

    :param seen: runs whose commits were read on their branches just now.
    :param reads_commits: False: a branch that is there is taken for the run's, wherever it was moved.
    """
    branches = repository.refs.values(f"refs/heads/{BRANCH_PREFIX}")
    names = (name.removeprefix(_PREFIX).removesuffix(_BASE) for name in repository.refs.list(_PREFIX))
    layouts = [RunLayout(name) for name in names if text in name and name not in seen and RUN_ID.fullmatch(name)]
    lost = [
        layout
        for layout in layouts
        if layout.branch not in branches or (reads_commits and not _is_on_branch(repository, layout))
    ]
    archived = archived_runs(repository) if lost else []
    return [layout for layout in lost if layout not in archived]


def _is_on_branch(repository: RepositoryReader, layout: RunLayout) -> bool:
    tip = repository.refs.read(layout.branch)
    return any(_is_own(layout, message) for _commit, message in first_parents(repository, tip))


def _is_own(layout: RunLayout, message: CommitMessage | None) -> bool:
    return message is not None and message.trailers.get("Swarm-Run") == layout.run_id


def rescue_branch(repository: Repository, text: str) -> RunLayout | None:
    """Makes the branch again for the one lost run that `text` names; None when there is none.

    Its tip is the commit of the run that no other of its commits has as a parent.
    """
    lost = runs_without_branch(repository, text.removeprefix(BRANCH_PREFIX))
    if len(lost) != 1:
        return None
    layout = lost[0]
    tip = _newest(repository, layout, _kept(repository, layout, set()))
    if tip is None:
        return None
    old = repository.refs.read(layout.branch)
    repository.refs.swap(layout.branch, old, tip, why="the run's commits were not on the branch")
    return layout


class OrphanedCommits(Struct, frozen=True):
    """`newest` was the run's tip, and is neither on the branch nor kept; `commits` are those of the run up to it.

    `moved_back`: the branch only lost commits; otherwise it holds others in their place.
    """

    newest: str
    commits: frozenset[str]
    moved_back: bool


def find_orphaned_commits(repository: Repository, layout: RunLayout, tip: str) -> OrphanedCommits | None:
    """Whether somebody took commits of the run off its branch; `rollback` does it and keeps them.

    :param tip: the newest commit on the branch that reads as the run's own.
    """
    newest = _newest(repository, layout, _kept(repository, layout, _chain(repository, layout, tip)))
    if newest is None:
        return None
    commits = _chain(repository, layout, newest)
    return OrphanedCommits(newest, frozenset(commits), moved_back=tip in commits)


def _newest(repository: Repository, layout: RunLayout, known: set[str]) -> str | None:
    """The end of those of the run's noted commits that are not known."""
    own: dict[str, tuple[str, ...]] = {}
    for commit_id in repository.notes(layout.events_notes).blobs().keys() - known:
        if not repository.objects.has(commit_id):
            continue
        commit = repository.objects.commit(commit_id)
        if _is_own(layout, parse_message(commit.message)):
            own[commit_id] = commit.parents
    parents = {parent for found in own.values() for parent in found}
    ends = [commit_id for commit_id in own if commit_id not in parents]
    return max(ends, key=repository.objects.when, default=None)


def _kept(repository: Repository, layout: RunLayout, known: set[str]) -> set[str]:
    """The `known` commits and those that were set aside: not where the run stands."""
    for name in repository.refs.list(layout.rollback_prefix):
        kept = repository.refs.read(name)
        for parent in repository.objects.commit(kept).parents[:1] if kept else ():
            known |= _chain(repository, layout, parent, known)
    return known


def _chain(repository: Repository, layout: RunLayout, tip: str | None, known: Container[str] = ()) -> set[str]:
    """The run's commits from `tip` down to its first one, or one that is `known`, by first parents; those that others
    put on top left out."""
    found: set[str] = set()
    for commit, message in first_parents(repository, tip):
        if commit.id in known:
            break
        if message is not None and _is_own(layout, message):
            found.add(commit.id)
            if message.trailers.get("Swarm-Kind") == Kind.RUN:
                break
    return found
