"""Steps that are executed at the same time, and how they come together."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.records.outcome import Result
from gitswarm.records.routing import Action, Candidate, Continuation, ForkState, JoinOutcome
from gitswarm.routing.joins import is_complete, is_over, judge, lacking
from gitswarm.routing.options import Transitions, advance, end, escalate, pause
from gitswarm.routing.situation import ForkBranch, Situation
from gitswarm.routing.stack import on_failure
from gitswarm.specs import flow as specs
from gitswarm.specs.flow import Flow


def at_fork(situation: Situation, routing: specs.Fork) -> Transitions:
    """After the step before a fork: all targets at once, on the commit where this is recorded."""
    join = situation.flow.join_of(situation.step_id)
    if join is None:
        raise ValueError(f"no join names the targets of {situation.step_id}")
    targets = routing.fork_targets
    option = side_by_side(situation, ForkState(targets=targets, pending=targets, join=join.id), "in parallel")
    return Transitions(option, (option,), option.reason, is_obvious=True)


def after_branch(situation: Situation) -> Transitions:
    """After a target of a fork came onto the branch: the others, or, when nothing is left to wait for, the join."""
    fork = situation.progress.fork
    if fork is None:
        raise ValueError(f"{situation.step_id} is no branch of a fork")
    join = join_at(situation.flow, fork.join)
    there = standing_branches(fork, situation.progress.branches)
    rest = _rest(situation, fork, there)
    if rest:
        going_on = fork.model_copy(update={"pending": rest})
        option = side_by_side(situation, going_on, f"{len(there)} of {len(fork.targets)} are through")
        return Transitions(option, (option,), option.reason, is_obvious=True)
    return _together(situation, fork, judge(join, there), lacking(join, there))


def _rest(situation: Situation, fork: ForkState, there: Mapping[str, ForkBranch]) -> tuple[str, ...]:
    """The targets that are still to come."""
    rest = tuple(target for target in fork.pending if target not in there)
    if is_over(fork_of(situation.flow, fork), join_at(situation.flow, fork.join), there):
        return tuple(target for target in rest if target in situation.progress.finished)
    return rest


def once_more(situation: Situation, steps: tuple[str, ...]) -> ForkState | None:
    """The fork with these targets to be executed again, where it started. None: some are still to come, or one has
    failed or is BLOCKED, which comes first."""
    fork = situation.progress.fork
    there = standing_branches(fork, situation.progress.branches) if fork is not None else {}
    if fork is None or _rest(situation, fork, there) or not all(map(is_complete, there.values())):
        return None
    return _taken_back(fork, situation.progress.branches, steps)


def _taken_back(fork: ForkState, branches: Mapping[str, ForkBranch], steps: tuple[str, ...]) -> ForkState:
    commits = (branches[name].commit for name in steps if name in branches)
    return fork.model_copy(update={"pending": steps, "void": tuple(dict.fromkeys((*fork.void, *commits)))})


def fork_of(flow: Flow, fork: ForkState) -> specs.Fork:
    """What the flow says about a fork that was decided."""
    found = (step.routing for step in flow.steps if isinstance(step.routing, specs.Fork))
    return next(routing for routing in found if routing.fork_targets == fork.targets)


def join_at(flow: Flow, step: str) -> specs.Join:
    routing = flow.step(step).routing
    if not isinstance(routing, specs.Join):
        raise TypeError(f"{step} joins nothing")
    return routing


def standing_branches(fork: ForkState, branches: Mapping[str, ForkBranch]) -> dict[str, ForkBranch]:
    """Those of the branches that nobody took back."""
    return {name: branch for name, branch in branches.items() if branch.commit not in fork.void}


def _together(situation: Situation, fork: ForkState, outcome: JoinOutcome, unmet: tuple[str, ...]) -> Transitions:
    joining = advance(situation, fork.join, outcome.reason)
    if outcome.is_met:
        option = _with_join(joining, outcome)
        return Transitions(option, (option,), outcome.reason, is_obvious=True)
    branches = situation.progress.branches
    again = _taken_back(fork, branches, unmet)
    what = ", ".join(f"{name} {outcome.statuses[name]}" for name in unmet)
    way = continuation_into(again, situation.flow.id, f"again: {', '.join(unmet)}")
    there = standing_branches(fork, branches)
    if any(branch.result is Result.FAILED for branch in there.values()):
        reason = f"{outcome.reason} ({what})"
        ending = _on_failure(situation, again) or end(reason, priority=100, failed=True, resume_at=way)
        return Transitions(ending, (ending,), reason)
    reason = f"{outcome.reason} ({what}): waiting for your decision"
    waiting = pause(reason, situation.stack, "progress.branches", resume_at=way)
    regardless = _with_join(advance(situation, fork.join, "continue regardless"), outcome)
    handed_over = escalate("hand the run to a person", situation.stack).model_copy(update={"resume_at": way})
    return Transitions(waiting, (waiting, handed_over, regardless), reason, is_open=True)


def _on_failure(situation: Situation, again: ForkState) -> Candidate | None:
    """The flow to run then, if there is one; it knows into what the run goes on when it is resumed."""
    option = on_failure(situation)
    if option is None:
        return None
    *outer, frame = option.stack
    back = frame.back.model_copy(update={"fork": again})
    return option.model_copy(update={"stack": (*outer, frame.model_copy(update={"back": back}))})


def continuation_into(fork: ForkState, flow: str, reason: str) -> Continuation:
    """Into the pending targets of a fork."""
    return Continuation(
        decision=Action.FORK,
        flow=flow,
        step=fork.pending[0],
        candidate_id=_candidate_id(fork),
        reason=reason,
        fork=fork,
    )


def _with_join(option: Candidate, outcome: JoinOutcome) -> Candidate:
    return option.model_copy(update={"join": outcome})


def side_by_side(situation: Situation, fork: ForkState, reason: str) -> Candidate:
    return Candidate(
        candidate_id=_candidate_id(fork),
        action=Action.FORK,
        target=fork.pending[0],
        reason=reason,
        priority=80,
        stack=situation.stack,
        fork=fork,
    )


def _candidate_id(fork: ForkState) -> str:
    return f"fork:{'+'.join(fork.pending)}"
