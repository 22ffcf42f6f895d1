"""How the branches of a fork come together: pure rules, from what became of each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from gitswarm.records.outcome import Result, Status, worse
from gitswarm.records.routing import JoinOutcome
from gitswarm.routing.situation import ForkBranch
from gitswarm.specs.flow import Fork, Join

_CAPPING = ("all_complete", "all_verified")
NOT_EXECUTED = "not executed"
"""What is said of a branch that was ended before it was through."""


def is_verified(branch: ForkBranch) -> bool:
    """Or waived: who skips a branch by hand decides that the run goes on without it."""
    return branch.waived or (branch.result is Result.SUCCEEDED and branch.status is Status.VERIFIED)


def is_complete(branch: ForkBranch) -> bool:
    """Neither failed nor BLOCKED. One that was skipped is complete."""
    return branch.result is not Result.FAILED and branch.status is not Status.BLOCKED


def wins(branch: ForkBranch) -> bool:
    """Whether `first_complete` is met by it: it did its work. One that was skipped did none."""
    return branch.result is Result.SUCCEEDED and is_complete(branch)


def is_over(fork: Fork, join: Join, branches: Mapping[str, ForkBranch]) -> bool:
    """Whether those that are still executed are to be ended: one has won, or has failed and takes the rest along."""
    if join.join_strategy == "first_complete" and any(wins(branch) for branch in branches.values()):
        return True
    return fork.on_failure == "cancel" and any(branch.result is Result.FAILED for branch in branches.values())


def judge(join: Join, branches: Mapping[str, ForkBranch]) -> JoinOutcome:
    """
    :param branches: those of `join_from` that were executed to their end.
    """
    known = {name: branches[name] for name in join.join_from if name in branches}
    met, reason = _strategy(join, known)
    return JoinOutcome(
        strategy=join.join_strategy,
        is_met=met,
        reason=f"{join.join_strategy}: {reason}",
        worst=worst_of(known.values()),
        statuses={name: said(known.get(name)) for name in join.join_from},
    )


def lacking(join: Join, branches: Mapping[str, ForkBranch]) -> tuple[str, ...]:
    """The branches that keep the strategy from being met: missing, failed, or not good enough."""
    strategy = join.join_strategy
    good = {"all_complete": is_complete, "first_complete": wins}.get(strategy, is_verified)
    return tuple(name for name in join.join_from if name not in branches or not good(branches[name]))


def cap_of(join: Join, outcome: JoinOutcome) -> Status | None:
    """The best status that the join itself can have; None: any.

    A join that a person lets go on in spite of a BLOCKED or failed branch is PARTIAL at best.
    """
    if join.join_strategy not in _CAPPING or outcome.worst is Status.VERIFIED:
        return None
    return Status.PARTIAL if outcome.worst is Status.BLOCKED else outcome.worst


def worst_of(branches: Iterable[ForkBranch]) -> Status:
    """A failed branch counts as BLOCKED, a skipped one as UNVERIFIED."""
    return reduce(worse, map(_standing, branches), Status.VERIFIED)


def said(branch: ForkBranch | None) -> str:
    """How a branch ended, in one word for people."""
    if branch is None:
        return NOT_EXECUTED
    return branch.status.value if branch.result is Result.SUCCEEDED else branch.result.value


def _standing(branch: ForkBranch) -> Status:
    if branch.result is Result.FAILED:
        return Status.BLOCKED
    return worse(branch.status, Status.UNVERIFIED) if branch.result is Result.SKIPPED else branch.status


def _strategy(join: Join, branches: Mapping[str, ForkBranch]) -> tuple[bool, str]:
    total = len(join.join_from)
    verified = sum(is_verified(branch) for branch in branches.values())
    if join.join_strategy == "all_complete":
        complete = sum(is_complete(branch) for branch in branches.values())
        return complete == total, f"{complete} of {total} complete"
    if join.join_strategy == "first_complete":
        winner = next((name for name, branch in branches.items() if wins(branch)), None)
        return winner is not None, f"{winner} was first" if winner else f"none of {total} complete"
    needed = {"all_verified": total, "any_verified": 1}.get(join.join_strategy, join.join_quorum or total)
    of_needed = f", {needed} needed" if needed != total else ""
    return verified >= needed, f"{verified} of {total} VERIFIED{of_needed}"
