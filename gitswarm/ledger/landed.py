"""What landed of a run: told by real trailers in the history of branches, and what landing makes of two codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.git.merge import Merged, merge_bases, merge_trees
from gitswarm.git.repository import Repository
from gitswarm.records.execution import RUNS_FOLDER

TRAILER = "Swarm-Landed"
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40})\b", re.MULTILINE)
_FORMAT = f"--format=%H%x01%P%x01%ce%x01%(trailers:key={TRAILER},valueonly,separator=%x02)%x00"


class Landing(Struct, frozen=True):
    """A commit that brought a run's approved commit to a branch. `before`: the branch's tip then, "" if there was
    none; `committer`: an address; `reverted_by`: the commit that took it back, if that was not taken back too."""

    commit: str
    before: str
    approved: str
    committer: str = ""
    reverted_by: str | None = None


def told_landings(repository: Repository, where: Sequence[str], run: str, since: str) -> list[Landing]:
    """Every landing of a run, newest first, without what was reverted.

    :param where: revisions and options that choose the history, as `git log` takes them.
    :param since: a commit in whose history there can be none, for the run began there.
    :raises GitFailedError: git could not look.
    """
    asked = ("--topo-order", "-z", _FORMAT, "--fixed-strings", f"--grep={TRAILER}: {run} ")
    listed = repository.git.output("log", *asked, *where, f"^{since}", "--")
    found = []
    for entry in listed.decode(errors="replace").split("\0"):
        commit, parents, committer, values = [*entry.strip("\n").split("\x01"), "", "", ""][:4]
        for value in values.split("\x02"):
            name, _blank, approved = value.strip().partition(" ")
            if name == run and approved:
                found.append(Landing(commit, [*parents.split(), ""][0], approved.strip(), committer))
    return found


def landings(repository: Repository, tip: str, run: str, since: str) -> list[Landing]:
    """Every landing of a run in the history of `tip`, newest first; `since` as in `told_landings`."""
    return [
        replace(found, reverted_by=_reverted_by(repository, found.commit, tip))
        for found in told_landings(repository, [tip], run, since)
        if found.before
    ]


def grounds(repository: Repository, approved: str, earlier: Sequence[Landing], tip: str) -> tuple[str, ...]:
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

    :param bases: the grounds of both.
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

    def standing_revert(of: str) -> str | None:
        return next((own for own in reverts.get(of, []) if standing_revert(own) is None), None)

    return standing_revert(commit)
