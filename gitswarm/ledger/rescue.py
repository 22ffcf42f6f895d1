"""A run whose branch was deleted or renamed: its notes still know its commits."""

from __future__ import annotations

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message

_PREFIX = "refs/swarm/"
_BASE = "/base"


def runs_without_branch(repository: Repository) -> list[RunLayout]:
    names = [name for name in repository.refs.list(_PREFIX) if name.endswith(_BASE) and "/trash/" not in name]
    layouts = [RunLayout(name.removeprefix(_PREFIX).removesuffix(_BASE)) for name in names]
    return [layout for layout in layouts if repository.refs.read(layout.branch) is None]


def rescue_branch(repository: Repository, text: str) -> RunLayout | None:
    """Makes the branch again for the one lost run that `text` names; None when there is none.

    Its tip is the commit of the run that no other of its commits has as a parent.
    """
    lost = [layout for layout in runs_without_branch(repository) if text.removeprefix("shadow/") in layout.run_id]
    if len(lost) != 1:
        return None
    layout = lost[0]
    tip = _newest(repository, layout)
    if tip is None:
        return None
    repository.refs.swap(layout.branch, None, tip, why="branch was gone")
    return layout


def _newest(repository: Repository, layout: RunLayout) -> str | None:
    noted = set(repository.notes(layout.events_notes).noted())
    own: dict[str, tuple[str, ...]] = {}
    for commit_id in noted:
        if not repository.objects.has(commit_id):
            continue
        commit = repository.objects.commit(commit_id)
        message = parse_message(commit.message)
        if message is not None and message.trailers.get("Swarm-Run") == layout.run_id:
            own[commit_id] = commit.parents
    kept = _set_aside_tips(repository, layout)
    parents = {parent for found in own.values() for parent in found}
    ends = [commit_id for commit_id in own if commit_id not in parents and commit_id not in kept]
    return max(ends, key=repository.objects.when, default=None)


def _set_aside_tips(repository: Repository, layout: RunLayout) -> set[str]:
    """Tips that a rollback left: not where the run stands."""
    tips = set()
    for name in repository.refs.list(layout.rollback_prefix):
        kept = repository.refs.read(name)
        commit = repository.objects.commit(kept) if kept else None
        if commit and "Swarm-Reason: rollback\n" in commit.message and commit.parents:
            tips.add(commit.parents[0])
    return tips
