"""What was landed of a run against what was approved in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.git.scratch import scratch_repository
from gitswarm.ledger.approval import ApprovalKind
from gitswarm.ledger.landed import TRAILER, Landing, grounds, landings, merged_code, told_landings
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.verify.approval import Statement
from gitswarm.ledger.verify.chain import Chain
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.records.run_id import BRANCH_PREFIX

_GITHUB = "noreply@github.com"


def landings_anywhere(repository: Repository, layout: RunLayout, branch: str | None, base: str) -> list[Landing]:
    """Landings of a run, newest first.

    :param branch: where to look, a full name; None, or one that is not here: on every local branch.
    :param base: where the run branched off; before that there can be none.
    :raises GitFailedError: git could not look.
    """
    exists = branch is not None and repository.refs.read(branch) is not None
    where = [branch] if branch is not None and exists else [f"--exclude={BRANCH_PREFIX}*", "--branches"]
    return told_landings(repository, where, layout.run_id, base)


def check_landings(
    repository: Repository, layout: RunLayout, found: Sequence[Landing], said: Iterable[Statement], chain: Chain
) -> Iterator[Mismatch]:
    """Each names a commit of the chain that was approved, and has the code that merging it makes."""
    approved = {statement.about for statement in said if statement.word is ApprovalKind.APPROVES}
    for landing in found:
        if landing.approved not in chain.ids:
            found_aside = _is_kept(repository, layout, landing.approved)
            what = "was rolled back since" if found_aside else "is not on the run's branch"
            finding = _finding(landing, f"{TRAILER} names {landing.approved}, which {what}")
            yield finding.model_copy(update={"severity": "warning"}) if found_aside else finding
            continue
        if landing.approved not in approved:
            yield _finding(landing, f"{TRAILER} names {landing.approved}, which nobody approved")
        yield from _tree(repository, layout, landing, chain.base or "")


def _is_kept(repository: Repository, layout: RunLayout, commit: str) -> bool:
    """Whether a rollback has set a commit aside."""
    kept = repository.refs.list(layout.rollback_prefix)
    return any(repository.git.run("merge-base", "--is-ancestor", commit, name).returncode == 0 for name in kept)


def _tree(repository: Repository, layout: RunLayout, landing: Landing, base: str) -> Iterator[Mismatch]:
    try:
        with scratch_repository(repository) as scratch:
            expected = _expected(scratch, layout, landing, base)
            actual = scratch.objects.commit(landing.commit).tree
    except SwarmError as error:
        yield _not_computable(landing, error.message)
        return
    if isinstance(expected, str):
        yield _not_computable(landing, expected)
    elif actual in expected:
        return
    elif landing.committer == _GITHUB:
        yield _not_computable(landing, "it was merged on GitHub")
    else:
        yield _finding(landing, f"its tree is not what merging {landing.approved} into the branch makes")


def _not_computable(landing: Landing, why: str) -> Mismatch:
    found = _finding(landing, f"its tree cannot be recomputed: {why}")
    return found.model_copy(update={"severity": "warning"})


def _expected(scratch: Repository, layout: RunLayout, landing: Landing, base: str) -> tuple[str, str] | str:
    """The merged tree, and the same with the run's evidence; or why it cannot be said what they would be."""
    objects = scratch.objects
    earlier = landings(scratch, landing.before, layout.run_id, base)
    bases = grounds(scratch, landing.approved, earlier, landing.before)
    if len(bases) != 1:
        return f"the run and the branch parted at {len(bases)} commits"
    merged = merged_code(scratch, landing.approved, landing.before, bases)
    if merged.conflicts:
        return "its code and the branch conflict"
    evidence = objects.entry(objects.commit(landing.approved).tree, layout.base)
    return merged.tree, objects.with_subtree(merged.tree, layout.base, evidence)


def _finding(landing: Landing, message: str) -> Mismatch:
    return Mismatch(commit=landing.commit, check="approval", message=message)
