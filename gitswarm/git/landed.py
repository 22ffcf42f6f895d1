"""What a branch's history says of runs that landed on it: real trailers of its commits, and what was reverted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gitswarm.git.repository import Repository

TRAILER = "Swarm-Landed"
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40})\b", re.MULTILINE)
_FORMAT = f"--format=%H%x01%P%x01%(trailers:key={TRAILER},valueonly,separator=%x02)%x00"


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit that brought a run's approved commit to the branch. `before`: the branch's tip then; `reverted_by`:
    the commit that took it back, if that was not taken back too."""

    commit: str
    before: str
    approved: str
    reverted_by: str | None = None


def landings(repository: Repository, tip: str, run: str, since: str) -> list[Landing]:
    """Every landing of a run in the history of `tip`, newest first.

    :param since: a commit in whose history there can be none, for the run began there.
    """
    listed = repository.git.output(
        "log", "--topo-order", "-z", _FORMAT, "--fixed-strings", f"--grep={TRAILER}: {run} ", tip, f"^{since}", "--"
    )
    found = []
    for entry in listed.decode(errors="replace").split("\0"):
        commit, parents, values = [*entry.strip("\n").split("\x01"), "", ""][:3]
        for value in values.split("\x02"):
            name, _blank, approved = value.strip().partition(" ")
            if name == run and approved and parents:
                taken_back = _reverted_by(repository, commit, tip)
                found.append(Landing(commit, parents.split()[0], approved.strip(), taken_back))
    return found


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
