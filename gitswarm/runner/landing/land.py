"""`land`: brings the approved code of a run to its target branch, once, whatever happens on the way."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import SwarmError
from gitswarm.ledger.approval import LandedAs, last_landing
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.state import RunState
from gitswarm.runner.landing.approve import uncommitted_edits
from gitswarm.runner.landing.attempt import (
    LAND,
    Outcome,
    conflict,
    landing_operation,
    landing_result,
    occupied,
    unsound,
)
from gitswarm.runner.landing.look import facts_of, merged
from gitswarm.runner.landing.out_of_band import OutOfBandStep, execute_out_of_band
from gitswarm.runner.landing.plan import Landed, Refused, Way, Wish, decide_landing, short
from gitswarm.runner.session import Session
from gitswarm.worktree.land import checkouts_of


class Delivered(Struct, frozen=True):
    """`is_new`: it has landed just now; `reverted_by`: the commit of the target that took it back since."""

    landed: LandedAs
    summary: str
    state: RunState
    is_new: bool
    reverted_by: str | None = None


def plan_land(session: Session, state: RunState, wish: Wish) -> Way | Landed | Refused:
    """What `land_run` would do. Nothing changes, but that git may learn merged trees."""
    decided = decide_landing(facts_of(session, state, wish), wish, session.spec.settings.deploy.strategy)
    return unsound(session) or _foreseen(session, state, decided) or decided if isinstance(decided, Way) else decided


def land_run(session: Session, state: RunState, wish: Wish) -> Delivered | Refused:
    """Lands what was approved, as a `land` step of the run. What has landed before is recorded, if it was not yet.

    :param state: a run that has ended.
    """
    decided = decide_landing(facts_of(session, state, wish), wish, session.spec.settings.deploy.strategy)
    if isinstance(decided, Refused):
        return decided
    if isinstance(decided, Landed):
        return _landed_before(session, state, decided)
    refused = unsound(session) or uncommitted_edits(session, state) or _foreseen(session, state, decided)
    if refused is not None and not refused.voids:
        return refused
    outcomes: list[Outcome] = []
    operation = landing_operation(session, state, decided, outcomes.append)
    after = execute_out_of_band(session, state, OutOfBandStep(LAND, KERNEL, operation))
    if not outcomes:
        raise SwarmError("the landing did not end", hint=f"git swarm show {LAND} --run {after.layout.run_id}")
    outcome = outcomes[-1]
    if isinstance(outcome.what, Refused):
        return outcome.what
    return Delivered(outcome.what, outcome.summary, after, is_new=True)


def _foreseen(session: Session, state: RunState, way: Way) -> Refused | None:
    """What can be told without a step: a conflict, a target that has the code already, work in the way."""
    repository = session.repository
    tip = repository.refs.read(way.target)
    if tip is None:
        return None
    found = merged(session, way, tip)
    if found.conflicts:
        return conflict(session, state, way, found)
    onto = repository.objects.commit(tip).tree
    if found.tree == onto:
        run = session.layout.run_id
        return Refused(f"{short(way.target)} has all the code of {run} already", f"git swarm diff {run}")
    return occupied(session, checkouts_of(repository, way.target), onto, found.tree)


def _landed_before(session: Session, state: RunState, found: Landed) -> Delivered:
    """Friendly, and complete: a crash may have come between the target and the run's own record."""
    landed = LandedAs(found.landing.commit, found.target)
    summary = f"landed on {short(found.target)} as {landed.commit[:12]}"
    recorded = last_landing(session.repository, state)
    if recorded is None or (recorded.commit, recorded.target) != (landed.commit, landed.target):
        outcome = Outcome(landed, f"{summary}, recorded afterwards")

        def operation(_request: StepRequest, _emit: Emit) -> StepResult:
            return landing_result(None, outcome)

        state = execute_out_of_band(session, state, OutOfBandStep(LAND, KERNEL, operation))
    return Delivered(landed, summary, state, is_new=False, reverted_by=found.landing.reverted_by)
