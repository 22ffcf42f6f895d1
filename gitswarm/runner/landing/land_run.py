"""`land`: brings the approved code of a run to its target, once; again from the start if that moves meanwhile."""

from __future__ import annotations

import os
import shlex
import time
from itertools import chain, count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import RefMovedError, StorageError, SwarmError
from gitswarm.git.as_user import output_of
from gitswarm.git.merge import Merged
from gitswarm.ledger.approval import LANDING, ApprovalKind, LandedAs, last_landing
from gitswarm.ledger.layout import KERNEL
from gitswarm.ledger.next_command import LAND, command_after_conflict
from gitswarm.ledger.state import RunState
from gitswarm.ledger.verify.commit_reader import Mismatch
from gitswarm.ledger.verify.verifier import verify_run
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Status
from gitswarm.records.record import readable
from gitswarm.runner.human_steps import OutOfBandStep, execute_out_of_band
from gitswarm.runner.landing.approve import uncommitted_edits
from gitswarm.runner.landing.landed_commit import describe, make_commit, needs_test, shape_of
from gitswarm.runner.landing.landing_plan import (
    LandedBefore,
    LandingPlan,
    LandingRequest,
    Refused,
    ahead,
    landing_decision,
    merged,
    short,
    users_git,
)
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.operation import handed_off
from gitswarm.worktree.target_checkouts import Checkout, InTheWay, checkouts_of, fast_forward, in_the_way


def push_target(session: Session, target: str) -> str | Refused:
    """Pushes the target where a team asked for it; where to. Pushing what is there already does nothing.

    :param target: full name of the branch.
    """
    users, name = users_git(session), short(target)
    remote, upstream = users.config(f"branch.{name}.remote"), users.config(f"branch.{name}.merge")
    if remote in (None, ".") or remote is None or upstream is None:
        return Refused(f"{name} is not pushed: it has no upstream", f"git push --set-upstream REMOTE {name}")
    done = users.run("push", "--", remote, f"{target}:{upstream}")
    if done.returncode != 0:
        hint = f"git swarm land {session.layout.run_id}   (pushes again, once that is fixed)"
        return Refused(f"{name} is not pushed: {remote} or a hook refused", hint, output=output_of(done))
    return f"{remote} {short(upstream)}"


_MOVED = 5
"""Files that one hint moves."""
_ATTEMPTS = 5
"""How often a target may move while we land on it."""

_FINDINGS_NAMED = 5


class LandingOutcome(Struct, frozen=True):
    """How a landing went. `tested`: what the tests said meanwhile."""

    landed: LandedAs | Refused
    summary: str
    tested: StepResult | None = None


class LandingAttempt(Struct):
    """One landing, again from the start whenever the target moved meanwhile. `state`: the run before the step that
    lands."""

    session: Session
    state: RunState
    plan: LandingPlan
    request: StepRequest
    emit: Emit
    _tested: StepResult | None = None

    def outcome(self) -> LandingOutcome:
        try:
            return self._until_done()
        except StorageError:
            raise  # our own journal, or a disk that takes no step either
        except SwarmError as error:
            return LandingOutcome(Refused(error.message, error.hint), error.message)

    def _until_done(self) -> LandingOutcome:
        for _attempt in range(_ATTEMPTS):
            landed = self._once()
            if isinstance(landed, LandedAs):
                return LandingOutcome(landed, describe(self.plan, landed.commit, self._tested), self._tested)
            if landed is not None:
                return LandingOutcome(landed, landed.reason, self._tested)
        why = f"{short(self.plan.target)} kept moving: {_ATTEMPTS} attempts to land on it failed"
        return LandingOutcome(Refused(why, f"git swarm land {self.session.layout.run_id}"), why, self._tested)

    def _once(self) -> LandedAs | Refused | None:
        """None: the target moved, and nothing has happened."""
        session, plan = self.session, self.plan
        tip = session.repository.refs.read(plan.target)
        if tip is None:
            return Refused(f"{short(plan.target)} was deleted just now", f"git swarm land {session.layout.run_id}")
        onto = ahead(session, self.state, tip)
        found = merged(session, plan, onto)
        if found.conflicts:
            return conflict(session, self.state, plan, found)
        test = needs_test(session, plan, found.tree)
        shape = shape_of(session, self.state, plan, onto, found.tree)
        made, self._tested = make_commit(session, shape, self.request, self.emit, test=test)
        if isinstance(made, Refused):
            return made
        key = f"land {session.layout.run_id} {plan.approval.about}"
        self.emit(Event(EventKind.INTENT, {"key": key, "target": plan.target, "onto": tip, "commit": made}))
        moved = move_target(session, plan.target, tip, made)
        return moved if isinstance(moved, Refused) else LandedAs(made, plan.target) if moved else None


def move_target(session: Session, target: str, old: str, new: str) -> bool | Refused:
    """Moves a branch forward, with the files of the checkout that stands on it. False: it is no more at `old`."""
    repository = session.repository
    checkouts = checkouts_of(repository, target)
    if not checkouts:
        try:
            repository.refs.swap(target, old, new, why=f"land {session.layout.run_id}")
        except RefMovedError:
            return False
        return True
    objects = repository.objects
    refused = occupied(session, checkouts, objects.commit(old).tree, objects.commit(new).tree)
    if refused is not None:
        return refused
    refusal = fast_forward(repository, checkouts[0], new)
    if refusal is None:
        return True
    if repository.refs.read(target) != old:
        return False
    return Refused(
        f"git would not move {short(target)} in {checkouts[0].path}",
        f"git -C {shlex.quote(str(checkouts[0].path))} status",
        output=refusal,
    )


def occupied(session: Session, checkouts: list[Checkout], before: str, after: str) -> Refused | None:
    """Why a checkout cannot follow from one tree to the other without anything of the user's being touched."""
    changed = session.repository.diffs.between(before, after)
    paths = sorted({path for delta in changed for path in (delta.path, delta.old_path) if path is not None})
    for checkout in checkouts:
        if checkout.busy is not None:
            what = f"{checkout.path} is in the middle of a {checkout.busy}"
            return Refused(what, f"git -C {shlex.quote(str(checkout.path))} status")
        found = in_the_way(session.repository, checkout, paths)
        if found.paths:
            return Refused(
                f"{checkout.path} has uncommitted changes in files that the landing changes",
                _out_of_the_way(checkout.path, found),
                tuple(map(readable, found.paths)),
            )
    return None


def _out_of_the_way(folder: Path, found: InTheWay) -> str:
    """What to type: edits are stashed; a file that git does not track is moved, as no stash brings it back over one
    that has landed."""
    files = [folder / name for name in found.untracked[:_MOVED]]
    endings = chain([".mine"], (f".mine{number}" for number in count(2)))
    ending = next(each for each in endings if not any(os.path.lexists(f"{file}{each}") for file in files))
    commands = [f"git -C {shlex.quote(str(folder))} stash"] * found.is_edited
    commands += [f"mv {shlex.quote(str(file))} {shlex.quote(f'{file}{ending}')}" for file in files]
    return f"{' && '.join(commands)}   (then land{', then: git stash pop' * found.is_edited})"


def unsound(session: Session) -> Refused | None:
    """Why a run is not sound: an approval is worth as much as the commits that say it."""
    run = session.layout.run_id
    found = [one for one in verify_run(session.repository, session.layout).findings if one.severity == "error"]
    if not found:
        return None
    count = len(found)
    return Refused(
        f"{run} is not what git-swarm wrote: {count} finding{'' if count == 1 else 's'}",
        f"git swarm verify {run}",
        output="\n".join(map(_named, found[:_FINDINGS_NAMED])),
    )


def _named(finding: Mismatch) -> str:
    where = " ".join(text for text in (finding.commit and finding.commit[:8], finding.step, finding.check) if text)
    return f"{where}: {finding.message}"


def conflict(session: Session, state: RunState, plan: LandingPlan, found: Merged) -> Refused:
    run = session.layout.run_id
    count = len(found.conflicts)
    return Refused(
        f"{short(plan.target)} and {run} conflict in {count} file{'' if count == 1 else 's'}: the approval is void",
        command_after_conflict(state, session.spec.flows, short(plan.target)),
        found.paths,
        voids=True,
    )


def landing_result(plan: LandingPlan | None, outcome: LandingOutcome) -> StepResult:
    """The result of a step that lands; a refusal is a step that is BLOCKED, with what stood in the way."""
    tested, landed = outcome.tested, outcome.landed
    trailers: dict[str, str] = {}
    if isinstance(landed, LandedAs):
        handoff = Handoff(status=Status.VERIFIED, summary=outcome.summary)
        trailers[LANDING] = f"{landed.commit} {landed.target}"
    else:
        lines = tuple(text for text in (*landed.paths, landed.output) if text)
        handoff = Handoff(status=Status.BLOCKED, summary=outcome.summary, blockers=lines)
        if landed.voids and plan is not None:
            trailers[ApprovalKind.VOIDS] = plan.approval.commit
    result = handed_off(LAND, handoff, trailers=trailers)
    if tested is None:
        return result
    return replace(
        result,
        check=tested.check,
        transcript=tested.transcript,
        tool_calls=tested.tool_calls,
        report_text=tested.report_text,
    )


class LandedRun(Struct, frozen=True):
    """`is_new`: it has landed just now; `reverted_by`: the commit of the target that took it back since."""

    landed: LandedAs
    summary: str
    state: RunState
    is_new: bool
    reverted_by: str | None = None


def plan_land(session: Session, state: RunState, request: LandingRequest) -> LandingPlan | LandedBefore | Refused:
    """What `land_run` would do. Nothing changes, but that git may learn merged trees."""
    decided = landing_decision(session, state, request)
    return (
        unsound(session) or _foreseen(session, state, decided) or decided
        if isinstance(decided, LandingPlan)
        else decided
    )


def land_run(session: Session, state: RunState, request: LandingRequest) -> LandedRun | Refused:
    """Lands what was approved, as a `land` step of the run. What has landed before is recorded, if it was not yet.

    :param state: a run that has ended.
    """
    decided = landing_decision(session, state, request)
    if isinstance(decided, Refused):
        return decided
    if isinstance(decided, LandedBefore):
        return _landed_before(session, state, decided)
    refused = unsound(session) or uncommitted_edits(session, state) or _foreseen(session, state, decided)
    if refused is not None and not refused.voids:
        return refused
    outcomes: list[LandingOutcome] = []

    def operation(request: StepRequest, emit: Emit) -> StepResult:
        started = time.monotonic()
        outcomes.append(LandingAttempt(session, state, decided, request, emit).outcome())
        return replace(landing_result(decided, outcomes[-1]), duration_ms=int((time.monotonic() - started) * 1000))

    after = execute_out_of_band(session, state, OutOfBandStep(LAND, KERNEL, operation))
    if not outcomes:
        raise SwarmError("the landing did not end", hint=f"git swarm show {LAND} --run {after.layout.run_id}")
    landed = outcomes[-1].landed
    return landed if isinstance(landed, Refused) else LandedRun(landed, outcomes[-1].summary, after, is_new=True)


def _foreseen(session: Session, state: RunState, plan: LandingPlan) -> Refused | None:
    """What is known without a step: a conflict, a target that has the code already, work in the way."""
    repository = session.repository
    tip = repository.refs.read(plan.target)
    if tip is None:
        return None
    found = merged(session, plan, tip)
    if found.conflicts:
        return conflict(session, state, plan, found)
    onto = repository.objects.commit(tip).tree
    if found.tree == onto:
        run = session.layout.run_id
        return Refused(f"{short(plan.target)} has all the code of {run} already", f"git swarm diff {run}")
    return occupied(session, checkouts_of(repository, plan.target), onto, found.tree)


def _landed_before(session: Session, state: RunState, found: LandedBefore) -> LandedRun:
    """Friendly, and complete: a crash may have come between the target and the run's own record."""
    landed = LandedAs(found.landing.commit, found.target)
    summary = f"landed on {short(found.target)} as {landed.commit[:12]}"
    recorded = last_landing(session.repository, state)
    if recorded is None or (recorded.commit, recorded.target) != (landed.commit, landed.target):
        result = landing_result(None, LandingOutcome(landed, f"{summary}, recorded afterwards"))
        state = execute_out_of_band(session, state, OutOfBandStep(LAND, KERNEL, lambda _request, _emit: result))
    return LandedRun(landed, summary, state, is_new=False, reverted_by=found.landing.reverted_by)
