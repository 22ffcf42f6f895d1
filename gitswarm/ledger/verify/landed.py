"""What was landed of a run against what was approved in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitswarm.errors import SwarmError
from gitswarm.git.merge import merge_trees
from gitswarm.git.repository import Repository
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.layout import RUNS_FOLDER, RunLayout
from gitswarm.ledger.verify.approval import APPROVES, Word
from gitswarm.ledger.verify.finding import Finding
from gitswarm.records.run_spec import BRANCH_PREFIX

LANDED = "Swarm-Landed"
_GITHUB = "noreply@github.com"
_FORMAT = f"%H%x01%P%x01%ce%x01%(trailers:key={LANDED},valueonly=true,separator=%x02)"


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit on a branch that says that it brings `approved` of the run home."""

    commit: str
    parents: tuple[str, ...]
    approved: str
    committer: str

    def finding(self, message: str) -> Finding:
        return Finding(commit=self.commit, check="approval", message=message)


def landings(repository: Repository, layout: RunLayout, branch: str | None, base: str) -> list[Landing]:
    """Landings of a run, newest first.

    :param branch: where to look, a full name; None, or one that is not here: on every local branch.
    :param base: where the run branched off; before that there can be none.
    :raises GitFailedError: git could not look.
    """
    exists = branch is not None and repository.refs.read(branch) is not None
    where = [branch] if branch is not None and exists else [f"--exclude={BRANCH_PREFIX}*", "--branches"]
    asked = ("--fixed-strings", f"--grep={LANDED}: {layout.run_id} ")
    listed = repository.git.output("log", "-z", f"--format={_FORMAT}", *asked, *where, f"^{base}", "--")
    found = []
    for entry in filter(None, listed.decode(errors="replace").split("\0")):
        commit, parents, committer, values = entry.strip("\n").split("\x01")
        for value in values.split("\x02"):
            run, _blank, approved = value.strip().partition(" ")
            if run == layout.run_id:
                found.append(Landing(commit, tuple(parents.split()), approved, committer))
    return found


def check_landings(
    repository: Repository, layout: RunLayout, found: Sequence[Landing], said: Iterable[Word], chain: Sequence[str]
) -> Iterator[Finding]:
    """Each names a commit of the chain that was approved, and has the code that merging it makes."""
    approved = {word.about for word in said if word.word == APPROVES}
    for landing in found:
        if landing.approved not in chain:
            yield landing.finding(f"{LANDED} names {landing.approved}, which is not on the run's branch")
            continue
        if landing.approved not in approved:
            yield landing.finding(f"{LANDED} names {landing.approved}, which nobody approved")
        yield from _tree(repository, layout, landing)


def _tree(repository: Repository, layout: RunLayout, landing: Landing) -> Iterator[Finding]:
    try:
        with scratch_repository(repository) as scratch:
            expected = _expected(scratch, layout, landing)
            actual = scratch.objects.commit(landing.commit).tree
    except SwarmError as error:
        yield _not_computable(landing, error.message)
        return
    if expected is None:
        yield _not_computable(landing, "its code and the branch conflict")
    elif actual in expected:
        return
    elif landing.committer == _GITHUB:
        yield _not_computable(landing, "it was merged on GitHub")
    else:
        yield landing.finding(f"its tree is not what merging {landing.approved} into the branch makes")


def _not_computable(landing: Landing, why: str) -> Finding:
    found = landing.finding(f"its tree cannot be recomputed: {why}")
    return found.model_copy(update={"severity": "warning"})


def _expected(scratch: Repository, layout: RunLayout, landing: Landing) -> tuple[str, str] | None:
    """The merged tree, and the same with the run's evidence; None: a conflict."""
    objects = scratch.objects
    target = landing.parents[0] if landing.parents else ""
    parted = scratch.git.output("merge-base", target, landing.approved).decode().split()[0]
    base_tree, approved = objects.commit(parted).tree, objects.commit(landing.approved).tree
    code = objects.with_subtree(approved, RUNS_FOLDER, objects.entry(base_tree, RUNS_FOLDER))
    merged = merge_trees(scratch, base_tree, objects.commit(target).tree, code)
    if merged.conflicts:
        return None
    return merged.tree, objects.with_subtree(merged.tree, layout.base, objects.entry(approved, layout.base))
