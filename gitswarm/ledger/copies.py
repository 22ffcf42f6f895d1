"""Copies of a run's chain on another base, and the commits of steps that were executed beside each other."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.errors import SwarmError
from gitswarm.git.merge import Merged, merge_trees
from gitswarm.git.object_reader import Commit
from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.state import ONTO, REBASED_FROM, RunState, copied_message, step_record
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import RUNS_FOLDER


def merged_onto(repository: Repository, before: str, onto: str, code: str) -> Merged:
    """What a change since one base is on another one, without `.swarm/runs`.

    :param before: the base, a commit; `onto`: the other one.
    :param code: a tree of the run.
    :raises GitFailedError: git could not say.
    """
    objects = repository.objects
    trees = (objects.commit(before).tree, objects.commit(onto).tree, code)
    base, upstream, own = (objects.with_subtree(tree, RUNS_FOLDER, None) for tree in trees)
    return merge_trees(repository, base, upstream, own)


def write_copies(repository: Repository, state: RunState) -> dict[str, str]:
    """Copies of the run's commits, oldest first, on the base that it belongs on; commit → its copy. No ref moves.

    Whoever repeats it gets the same ones.

    :raises SwarmError: the run shares commits with another one.
    """
    if state.shared:
        raise SwarmError(
            f"{state.layout.run_id} was forked from another run, whose commits cannot be moved with it",
            hint=f"git swarm log {state.layout.run_id}",
        )
    return _Copies(repository, state).write()


class _Copies:
    """One writing. A code that many commits have is merged once."""

    def __init__(self, repository: Repository, state: RunState) -> None:
        self._repository = repository
        self._objects = repository.objects
        self._state = state
        self._runs = self._objects.entry(self._objects.commit(state.base).tree, RUNS_FOLDER)
        self._merged: dict[str, str] = {}

    def write(self) -> dict[str, str]:
        chain = own_chain(self._repository, self._state)
        of_chain = [_trailers(commit) for commit in chain]
        settled = max((index for index, trailers in enumerate(of_chain) if ONTO in trailers), default=len(chain))
        parent, copies = self._state.base, dict[str, str]()
        for index, (commit, trailers) in enumerate(zip(chain, of_chain, strict=True)):
            code = commit.tree if index >= settled else self._code(commit.tree)
            message = copied_message(commit.message, trailers.get(REBASED_FROM, commit.id))
            parent = self._objects.copy_commit(commit.id, self._with_runs(code, commit.tree), parent, message)
            copies[commit.id] = parent
        return copies

    def _code(self, tree: str) -> str:
        """The code of a tree on the new base. Where the two are in conflict it is the run's own."""
        own = self._objects.with_subtree(tree, RUNS_FOLDER, None)
        if own not in self._merged:
            found = merged_onto(self._repository, self._state.ground.root, self._state.base, own)
            self._merged[own] = self._objects.with_entries_of(found.tree, own, found.conflicts)
        return self._merged[own]

    def _with_runs(self, code: str, tree: str) -> str:
        """A code with `.swarm/runs` of the new base, and the run's own folder of `tree`."""
        folder = self._state.layout.base
        moved = self._objects.with_subtree(code, RUNS_FOLDER, self._runs)
        return self._objects.with_subtree(moved, folder, self._objects.entry(tree, folder))


def _trailers(commit: Commit) -> Mapping[str, str]:
    message = parse_message(commit.message)
    return message.trailers if message is not None else {}


def own_chain(repository: Repository, state: RunState) -> list[Commit]:
    """The run's own commits, oldest first."""
    found = [repository.objects.commit(state.tip)]
    while found[-1].id != state.run_commit:
        found.append(repository.objects.commit(found[-1].parents[0]))
    return found[::-1]


def siblings(repository: Repository, layout: RunLayout, fork: str | None = None) -> list[StepRecord]:
    """Commits of steps that were executed beside others, of one step the newest first; `number` is 0: they are on no
    branch.

    :param fork: only those that started there.
    """
    prefix = layout.sibling_ref(fork, "") if fork else layout.fork_prefix
    found = []
    for name in repository.refs.list(prefix):
        commit_id = repository.refs.read(name)
        record = _record(repository, layout, commit_id) if commit_id else None
        if record is not None and (fork is None or record.fork == fork):
            found.append(record)
    return found


def _record(repository: Repository, layout: RunLayout, commit_id: str) -> StepRecord | None:
    """None for what a person may have put there."""
    commit = repository.objects.commit(commit_id)
    message = parse_message(commit.message)
    if message is None or not commit.parents:
        return None
    try:
        record = step_record(layout, 0, commit, message)
    except (KeyError, ValueError):
        return None
    return record if record.fork == record.parent else None
