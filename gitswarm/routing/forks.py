"""Parallel steps, and how their branches are joined: pure rules, by the outcome of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from msgspec.structs import replace

from gitswarm.records.execution import Result, Status, worse
from gitswarm.records.routing import Action, Candidate, Continuation, ForkState, JoinOutcome
from gitswarm.routing.choices import ForkBranch, Situation, Transitions, advance, end, escalate, pause, resumed
from gitswarm.routing.stack import on_failure
from gitswarm.specs.flow import Flow, Fork, Join

_CAPPING = ("all_complete", "all_verified")
NOT_EXECUTED = "not executed"
"""What is said of a branch that was ended before it was through."""


def is_verified(branch: ForkBranch) -> bool:
    """Whether a branch is verified, or waived: a person who skips it decides that the run continues without it."""
    return branch.waived or (branch.result is Result.SUCCEEDED and branch.status is Status.VERIFIED)


def is_complete(branch: ForkBranch) -> bool:
    """Neither failed nor BLOCKED. One that was skipped is complete."""
    return branch.result is not Result.FAILED and branch.status is not Status.BLOCKED


def satisfies_first(branch: ForkBranch) -> bool:
    """Whether a branch meets `first_complete`: it did its work. One that was skipped did none."""
    return branch.result is Result.SUCCEEDED and is_complete(branch)


def is_decided(fork: Fork, join: Join, branches: Mapping[str, ForkBranch]) -> bool:
    """Whether branches that are still executed are to be ended: one has won, or its failure takes the rest along."""
    if join.join_strategy == "first_complete" and any(satisfies_first(branch) for branch in branches.values()):
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
        worst=reduce(worse, map(_status_of, known.values()), Status.VERIFIED),
        statuses={name: branch_outcome(known.get(name)) for name in join.join_from},
    )


def unmet(join: Join, branches: Mapping[str, ForkBranch]) -> tuple[str, ...]:
    """The branches that keep the strategy from being met: missing, failed, or not good enough."""
    strategy = join.join_strategy
    good = {"all_complete": is_complete, "first_complete": satisfies_first}.get(strategy, is_verified)
    return tuple(name for name in join.join_from if name not in branches or not good(branches[name]))


def cap_of(join: Join, outcome: JoinOutcome) -> Status | None:
    """The best status that the join itself can have; None: any.

    A join that a person lets continue in spite of a BLOCKED or failed branch is PARTIAL at best.
    """
    if join.join_strategy not in _CAPPING or outcome.worst is Status.VERIFIED:
        return None
    return Status.PARTIAL if outcome.worst is Status.BLOCKED else outcome.worst


def branch_outcome(branch: ForkBranch | None) -> str:
    """How a branch ended, in one word for people."""
    if branch is None:
        return NOT_EXECUTED
    return branch.status.value if branch.result is Result.SUCCEEDED else branch.result.value


def _status_of(branch: ForkBranch) -> Status:
    """A failed branch counts as BLOCKED, a skipped one as UNVERIFIED at best."""
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
        winner = next((name for name, branch in branches.items() if satisfies_first(branch)), None)
        return winner is not None, f"{winner} was first" if winner else f"none of {total} complete"
    needed = {"all_verified": total, "any_verified": 1}.get(join.join_strategy, join.join_quorum or total)
    of_needed = f", {needed} needed" if needed != total else ""
    return verified >= needed, f"{verified} of {total} VERIFIED{of_needed}"


def at_fork(situation: Situation, routing: Fork) -> Transitions:
    """After the step before a fork: all targets at once, on the commit where this is recorded."""
    join = situation.flow.join_of(situation.step_id)
    if join is None:
        raise ValueError(f"no join names the targets of {situation.step_id}")
    targets = routing.fork_targets
    option = into_fork(situation, ForkState(targets=targets, pending=targets, join=join.id), "in parallel")
    return Transitions(option, (option,), option.reason, is_obvious=True)


def after_branch(situation: Situation) -> Transitions:
    """After a target of a fork came onto the branch: the others, or, when nothing is left to wait for, the join."""
    fork = situation.progress.fork
    if fork is None:
        raise ValueError(f"{situation.step_id} is no branch of a fork")
    join = join_at(situation.flow, fork.join)
    branches = current_branches(fork, situation.progress.branches)
    rest = _rest(situation, fork, branches)
    if rest:
        continued = replace(fork, pending=rest)
        option = into_fork(situation, continued, f"{len(branches)} of {len(fork.targets)} are through")
        return Transitions(option, (option,), option.reason, is_obvious=True)
    return _joined(situation, fork, judge(join, branches), unmet(join, branches))


def _rest(situation: Situation, fork: ForkState, branches: Mapping[str, ForkBranch]) -> tuple[str, ...]:
    """The targets that are still to come."""
    rest = tuple(target for target in fork.pending if target not in branches)
    if is_decided(fork_of(situation.flow, fork), join_at(situation.flow, fork.join), branches):
        return tuple(target for target in rest if target in situation.progress.finished)
    return rest


def retried_fork(situation: Situation, steps: tuple[str, ...]) -> ForkState | None:
    """The fork with these targets to be executed again, where it started. None: some are still to come, or one has
    failed or is BLOCKED, which comes first."""
    fork = situation.progress.fork
    branches = current_branches(fork, situation.progress.branches) if fork is not None else {}
    if fork is None or _rest(situation, fork, branches) or not all(map(is_complete, branches.values())):
        return None
    return _voided(fork, situation.progress.branches, steps)


def _voided(fork: ForkState, branches: Mapping[str, ForkBranch], steps: tuple[str, ...]) -> ForkState:
    commits = (branches[name].commit for name in steps if name in branches)
    return replace(fork, pending=steps, void=tuple(dict.fromkeys((*fork.void, *commits))))


def fork_of(flow: Flow, fork: ForkState) -> Fork:
    """What the flow says about a fork that was decided."""
    found = (step.routing for step in flow.steps if isinstance(step.routing, Fork))
    return next(routing for routing in found if routing.fork_targets == fork.targets)


def join_at(flow: Flow, step: str) -> Join:
    routing = flow.step(step).routing
    if not isinstance(routing, Join):
        raise TypeError(f"{step} joins nothing")
    return routing


def current_branches(fork: ForkState, branches: Mapping[str, ForkBranch]) -> dict[str, ForkBranch]:
    """The branches that nobody took back."""
    return {name: branch for name, branch in branches.items() if branch.commit not in fork.void}


def _joined(situation: Situation, fork: ForkState, outcome: JoinOutcome, unmet: tuple[str, ...]) -> Transitions:
    if outcome.is_met:
        option = replace(advance(situation, fork.join, outcome.reason), join=outcome)
        return Transitions(option, (option,), outcome.reason, is_obvious=True)
    branches = situation.progress.branches
    voided = _voided(fork, branches, unmet)
    what = ", ".join(f"{name} {outcome.statuses[name]}" for name in unmet)
    resume_at = continuation_into(voided, situation.flow.id, f"again: {', '.join(unmet)}")
    if any(branch.result is Result.FAILED for branch in current_branches(fork, branches).values()):
        reason = f"{outcome.reason} ({what})"
        ending = _on_failure(situation, voided) or end(reason, priority=100, failed=True, resume_at=resume_at)
        return Transitions(ending, (ending,), reason)
    reason = f"{outcome.reason} ({what}): waiting for your decision"
    waiting = pause(reason, situation.stack, "progress.branches", resume_at=resume_at)
    regardless = replace(advance(situation, fork.join, "continue regardless"), join=outcome)
    handed_over = replace(escalate("hand the run to a person", situation.stack), resume_at=resume_at)
    return Transitions(waiting, (waiting, handed_over, regardless), reason, is_open=True)


def _on_failure(situation: Situation, voided: ForkState) -> Candidate | None:
    """The flow to run then, if there is one; it knows where the run continues when it is resumed."""
    option = on_failure(situation)
    if option is None:
        return None
    *outer, frame = option.stack
    back = replace(frame.back, fork=voided)
    return replace(option, stack=(*outer, replace(frame, back=back)))


def continuation_into(fork: ForkState, flow: str, reason: str) -> Continuation:
    """Into the pending targets of a fork."""
    return Continuation(
        decision=Action.FORK,
        flow=flow,
        step=fork.pending[0],
        candidate_id=f"fork:{'+'.join(fork.pending)}",
        reason=reason,
        fork=fork,
    )


def into_fork(situation: Situation, fork: ForkState, reason: str) -> Candidate:
    return resumed(continuation_into(fork, situation.flow.id, reason), situation, situation.stack, reason)
