"""The code of a run on another base: what landed, as real trailers in the history of branches say; what landing makes
of two codes; and copies of a run's chain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import SwarmError
from gitswarm.git.merge import Merged, merge_bases, merge_trees
from gitswarm.git.object_reader import Commit
from gitswarm.git.objects import Objects
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import LANDED
from gitswarm.ledger.state import ONTO, REBASED_FROM, RunState, copied_message, first_parents
from gitswarm.records.execution import RUNS_FOLDER

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40})\b", re.MULTILINE)
_FORMAT = f"--format=%H%x01%P%x01%ce%x01%(trailers:key={LANDED},valueonly,separator=%x02)%x00"


class Landing(Struct, frozen=True):
    """A commit that brought a run's approved commit to a branch. `before`: the branch's tip then, "" if there was
    none; `committer`: an address; `reverted_by`: the commit that reverted it, if that was not reverted too."""

    commit: str
    before: str
    approved: str
    committer: str = ""
    reverted_by: str | None = None


def recorded_landings(repository: Repository, where: Sequence[str], run: str, since: str) -> list[Landing]:
    """Every landing of a run, newest first, without what was reverted.

    :param where: revisions and options that choose the history, as `git log` takes them.
    :param since: a commit in whose history there can be none, for the run began there.
    :raises GitFailedError: git could not look.
    """
    words = ("--topo-order", "-z", _FORMAT, "--fixed-strings", f"--grep={LANDED}: {run} ")
    listed = repository.git.output("log", *words, *where, f"^{since}", "--")
    found = []
    for entry in listed.decode(errors="replace").split("\0"):
        commit, parents, committer, values = [*entry.strip("\n").split("\x01"), "", "", ""][:4]
        for value in values.split("\x02"):
            name, _blank, approved = value.strip().partition(" ")
            if name == run and approved:
                found.append(Landing(commit, [*parents.split(), ""][0], approved.strip(), committer))
    return found


def landings(repository: Repository, tip: str, run: str, since: str) -> list[Landing]:
    """Every landing of a run in the history of `tip`, newest first; `since` as in `recorded_landings`."""
    return [
        replace(found, reverted_by=_reverted_by(repository, found.commit, tip))
        for found in recorded_landings(repository, [tip], run, since)
        if found.before
    ]


def common_bases(repository: Repository, approved: str, earlier: Sequence[Landing], tip: str) -> tuple[str, ...]:
    """Commits from which a branch and a run went apart; one, if it is plain where that was.

    What landed before is common ground, unless it was reverted: then it counts as if it had never been there.

    :param earlier: the landings of the run in the history of `tip`, newest first.
    """
    newest = earlier[0] if earlier else None
    if newest is None:
        return merge_bases(repository, tip, approved)
    if newest.reverted_by is not None:
        return merge_bases(repository, newest.before, approved)
    known = repository.objects.has(newest.approved)
    return (newest.approved,) if known else merge_bases(repository, tip, approved)


def merged_code(repository: Repository, approved: str, tip: str, bases: tuple[str, ...]) -> Merged:
    """What lands: the code of `approved` merged onto `tip`, with the `.swarm/runs` of `tip`.

    :param bases: the common_bases of both.
    """
    objects = repository.objects
    onto = objects.commit(tip).tree
    runs = objects.entry(onto, RUNS_FOLDER)
    code = objects.with_subtree(objects.commit(approved).tree, RUNS_FOLDER, runs)
    if bases == (tip,):
        return Merged(code, ())
    # The same `.swarm/runs` on all three sides: what lies there is nothing to merge.
    base = objects.with_subtree(objects.commit(bases[0]).tree, RUNS_FOLDER, runs)
    return merge_trees(repository, base, onto, code)


def _reverted_by(repository: Repository, commit: str, tip: str) -> str | None:
    """The commit between `commit` and `tip` that reverted it, unless that was reverted itself; as git writes it."""
    listed = repository.git.output(
        "log", "--topo-order", "--format=%H%n%B%x00", "--grep=^This reverts commit ", f"{commit}..{tip}", "--"
    )
    reverts: dict[str, list[str]] = {}
    for entry in listed.decode(errors="replace").split("\0"):
        own, _newline, message = entry.lstrip("\n").partition("\n")
        for reverted in _REVERTS.findall(message):
            reverts.setdefault(reverted, []).append(own)

    def effective_revert(of: str) -> str | None:
        return next((own for own in reverts.get(of, []) if effective_revert(own) is None), None)

    return effective_revert(commit)


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


def settled_for(objects: Objects, merged: Merged, own: str) -> str:
    """The merged tree with what the tree `own` has in place of each conflict."""
    paths = dict.fromkeys(merged.conflicts)
    for path in merged.conflicts:
        # Where one side has a folder the file of the other one is called `name~side`, and what is in conflict may lie
        # below it.
        above = [path[:at] for at, letter in enumerate(path) if letter == "/"]
        renamed = [path.rpartition("~")[0]] if "~" in path and objects.entry(own, path) is None else []
        paths |= dict.fromkeys(
            each for each in (*above, *renamed) if objects.entry(own, each) and not objects.is_folder(own, each)
        )
    return objects.with_entries_of(merged.tree, own, paths)


def is_in(repository: Repository, commit: str, tip: str) -> bool:
    """Whether a commit is part of the history of another one."""
    return commit == tip or repository.git.run("merge-base", "--is-ancestor", commit, tip).returncode == 0


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
        chain = self._chain()
        settled = max(
            (index for index, (_commit, trailers) in enumerate(chain) if ONTO in trailers), default=len(chain)
        )
        parent, copies = self._state.base, dict[str, str]()
        for index, (commit, trailers) in enumerate(chain):
            code = commit.tree if index >= settled else self._code(commit.tree)
            message = copied_message(commit.message, trailers.get(REBASED_FROM, commit.id))
            parent = self._objects.copy_commit(commit.id, self._with_runs(code, commit.tree), parent, message)
            copies[commit.id] = parent
        return copies

    def _chain(self) -> list[tuple[Commit, Mapping[str, str]]]:
        """The run's own commits with their trailers, oldest first."""
        found: list[tuple[Commit, Mapping[str, str]]] = []
        for commit, message in first_parents(self._repository, self._state.tip):
            found.append((commit, message.trailers if message is not None else {}))
            if commit.id == self._state.run_commit:
                break
        return found[::-1]

    def _code(self, tree: str) -> str:
        """The code of a tree on the new base. Where the two are in conflict it is the run's own."""
        own = self._objects.with_subtree(tree, RUNS_FOLDER, None)
        if own not in self._merged:
            found = merged_onto(self._repository, self._state.bases.root, self._state.base, own)
            self._merged[own] = settled_for(self._objects, found, own)
        return self._merged[own]

    def _with_runs(self, code: str, tree: str) -> str:
        """A code with `.swarm/runs` of the new base, and the run's own folder of `tree`."""
        folder = self._state.layout.base
        moved = self._objects.with_subtree(code, RUNS_FOLDER, self._runs)
        return self._objects.with_subtree(moved, folder, self._objects.entry(tree, folder))
