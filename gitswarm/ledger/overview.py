"""Answers "how does this run stand?" in the fields that `status --json` promises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.discovery import SETUP_FAILED, LinkedWorktree
from gitswarm.git.owners import owner_of, starting_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import (
    ApprovalKind,
    current_approval,
    is_code,
    latest_approval,
    newest_landing,
)
from gitswarm.ledger.finding import journal_files, journal_folder
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.next_command import (
    LandingConflict,
    current_conflict,
    decision_at_end,
    failed_landing,
    never_lands,
    newest_decision,
    next_command,
)
from gitswarm.ledger.spent import Payments, changed_limits, payments, uses
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.stored_json import (
    ConcernFields,
    DecisionFields,
    EnvelopeFields,
    FrameFields,
    LastTests,
    ReceiptFields,
    SpecFields,
    concern_fields,
    decision_after,
    last_tests,
    spec_fields,
    step_fields,
)
from gitswarm.records.budget import spent_words, total
from gitswarm.records.execution import REPLAY_OF, Result, RunStatus, Status

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue


class OpenInterruption(Struct, frozen=True):
    """What the next step belongs to. `back_to`: `flow/step`; None when the flow is at its end then."""

    kind: str
    id: str
    back_to: str | None


class ApprovalFields(Struct, frozen=True):
    """The latest approval, or rejection, of the code. `valid`: it is about the code that the run has now."""

    commit: str
    by: str
    valid: bool


class LandedOn(Struct, frozen=True):
    """Where the run landed last, as it records it: the commit, and the branch as people name it."""

    commit: str
    target: str


class BudgetFields(Struct, frozen=True):
    """The run's limits, None: no such limit, and what counts against them. `cost_usd`, `tokens`: what is known;
    `reserved_usd`, `reserved_tokens`: what may have been used beside that, at worst; `time_s`: in which something was
    executed, None where no limit asks for it. `told`: in words."""

    max_cost_usd: float | None
    max_tokens: int | None
    max_time: float | None
    cost_usd: float
    tokens: int
    time_s: float | None
    reserved_usd: float
    reserved_tokens: int
    told: str


class RunOverview(Struct, frozen=True):
    """`status --json` (design section 8). `worktree` is None when it is gone; `stack`: the outermost first.
    `tokens`, `cost_usd`: all that the run spent; None: a part of it is unknown. `steps_completed` counts each step of
    the flow once, `steps_executed` each time, as people are shown it. `rehearsal`: it never lands.
    `sandbox`: what confined its last step; None: nobody asked. `budget` None: it has no limit. `conflict`: why the
    code that it has now could not land. `starting`: its process was started, and has not begun yet. `replay_of`: the
    run that it executes once more, without a model."""

    run_id: str
    state: RunStatus
    flow: str
    current_step: str | None
    next_step: str | None
    steps_completed: int
    branch: str
    base: str
    tip: str
    worktree: str | None
    cost_usd: float | None
    tokens: int
    last_error: str | None
    hint: str
    stack: tuple[OpenInterruption, ...] = ()
    approved: ApprovalFields | None = None
    rejected: ApprovalFields | None = None
    landed: LandedOn | None = None
    question: str | None = None
    open_concerns: tuple[ConcernFields, ...] = ()
    task: str = ""
    tests: LastTests | None = None
    steps_executed: int = 0
    rehearsal: bool = False
    sandbox: str | None = None
    budget: BudgetFields | None = None
    conflict: LandingConflict | None = None
    starting: bool = False
    replay_of: str | None = None

    def to_plain(self) -> dict[str, JsonValue]:
        plain: dict[str, JsonValue] = to_builtins(self)
        return plain


def overview(repository: RepositoryReader, layout: RunLayout, state: RunState | None = None) -> RunOverview:
    """
    :param state: where the run stands, for who knows it.
    :raises NotFoundError: no such run.
    """
    state = state or replay(repository, layout)
    announced = starting_of(repository.common_dir, layout.run_id) is not None  # first: the owner takes it away
    live = owner_of(repository.common_dir, layout.run_id) is not None
    journals = journal_files(journal_folder(repository, layout)) if live else []
    starting = announced and not live and state.end is None
    executing = starting or (live and (state.end is None or journals))
    status = RunStatus.RUNNING if executing else state.end or RunStatus.INTERRUPTED
    decided = decision_after(repository, layout, state.tip)
    following = _next_step(repository, state, decided)
    worktree = repository.worktree_made_for(layout.branch)
    paid = payments(repository, state)
    used = paid.spent
    spec = spec_fields(repository, state)
    question = _question(repository, state) if status is RunStatus.PAUSED else None
    landed = newest_landing(repository, state)
    return RunOverview(
        run_id=layout.run_id,
        state=status,
        flow=state.steps[-1].flow if state.steps else spec.flows[0],
        current_step=journals[-1].step if journals else None,
        next_step=following.step,
        steps_completed=len({(r.flow, r.step) for r in state.steps if r.result is not Result.FAILED}),
        branch=layout.branch.removeprefix("refs/heads/"),
        base=state.base,
        tip=state.tip,
        worktree=str(worktree.path) if worktree else None,
        cost_usd=used.cost_usd,
        tokens=used.tokens,
        last_error=failed_setup(worktree) or _last_error(repository, state),
        hint=next_command(repository, state, status, question),
        stack=tuple(map(_interruption, following.stack)),
        approved=_approval(repository, state, ApprovalKind.APPROVES),
        rejected=_approval(repository, state, ApprovalKind.REJECTS),
        landed=LandedOn(landed.commit, landed.target.removeprefix("refs/heads/")) if landed else None,
        question=question,
        open_concerns=concern_fields(repository, state),
        task=spec.task,
        tests=last_tests(repository, state),
        steps_executed=state.executed,
        rehearsal=never_lands(spec, state),
        sandbox=_sandbox(repository, state),
        budget=_budget(repository, state, spec, paid),
        conflict=current_conflict(repository, state),
        starting=starting,
        replay_of=spec.initiator.removeprefix(REPLAY_OF) if spec.initiator.startswith(REPLAY_OF) else None,
    )


def _budget(repository: RepositoryReader, state: RunState, spec: SpecFields, paid: Payments) -> BudgetFields | None:
    limits = spec.budget.over(changed_limits(repository, state.layout))
    if not limits:
        return None
    used = total(uses(repository, state, timed=limits.time_s is not None, paid=paid))
    return BudgetFields(
        max_cost_usd=limits.cost_usd,
        max_tokens=limits.tokens,
        max_time=limits.time_s,
        cost_usd=used.cost_usd,
        tokens=used.tokens,
        time_s=used.time_s if limits.time_s is not None else None,
        reserved_usd=used.reserved_usd,
        reserved_tokens=used.reserved_tokens,
        told=spent_words(limits, used),
    )


def _approval(repository: RepositoryReader, state: RunState, wanted: ApprovalKind) -> ApprovalFields | None:
    latest = latest_approval(repository, state)
    if latest is None or latest.kind is not wanted:
        return None
    return ApprovalFields(commit=latest.commit, by=latest.by, valid=is_code(repository, latest.code, state.tip_tree))


def _question(repository: RepositoryReader, state: RunState) -> str | None:
    """What a paused run waits for: what blocks its last step, else why the run was paused."""
    last = state.last_step
    if last is not None and last.status is Status.BLOCKED:
        envelope = step_fields(repository, state, last, last.execution.envelope, EnvelopeFields)
        return "; ".join(envelope.blockers) or last.summary
    taken = decision_at_end(repository, state)
    return taken.reason if taken is not None and taken.to_step is None else None


class Listed(Struct, frozen=True):
    """The runs that can be read, and why the others cannot."""

    runs: tuple[RunOverview, ...]
    unreadable: tuple[SwarmError, ...]


def overviews(
    repository: RepositoryReader,
    runs: list[RunLayout],
    of: Callable[[RepositoryReader, RunLayout], RunOverview] = overview,
) -> Listed:
    found: list[RunOverview] = []
    unreadable: list[SwarmError] = []
    for layout in runs:
        try:
            found.append(of(repository, layout))
        except NotFoundError:
            continue  # deleted while we were reading
        except SwarmError as error:
            unreadable.append(error)
    return Listed(tuple(found), tuple(unreadable))


class _NextStep(Struct, frozen=True):
    """What would be executed next, and the interruptions that it belongs to."""

    step: str | None
    stack: tuple[FrameFields, ...] = ()


def _next_step(repository: RepositoryReader, state: RunState, decided: DecisionFields | None) -> _NextStep:
    """What `resume` would execute in a run that ended early or was rolled back."""
    if state.end is RunStatus.SUCCEEDED or (decided is not None and decided.to_step is not None):
        return _after(decided)
    if state.end is None:
        return _after(newest_decision(repository, state, state.tip))
    if state.end is RunStatus.UNPROVEN and state.blocking:
        about = state.blocking[0].opened_by
        return _NextStep(
            None if about.engine == "command" else about.step
        )  # only the flow knows where red tests send it
    last = state.last_step
    before = decision_at_end(repository, state)
    if last is None or (before is not None and (before.to_step or before.resume_at)):
        return _after(before)
    incoming = newest_decision(repository, state, last.parent)
    return _NextStep(last.step, incoming.stack if incoming else ())


def _after(decision: DecisionFields | None) -> _NextStep:
    if decision is None:
        return _NextStep(None)
    if decision.to_step is None and decision.resume_at is not None:
        return _NextStep(decision.resume_at.step, decision.stack)
    return _NextStep(decision.to_step, decision.stack if decision.to_step else ())


def _interruption(frame: FrameFields) -> OpenInterruption:
    back = f"{frame.back.flow}/{frame.back.step}" if frame.back.step else None
    return OpenInterruption(kind=frame.kind, id=frame.id, back_to=back)


def failed_setup(worktree: LinkedWorktree | None) -> str | None:
    """Why the worktree could not be set up, when that was tried last."""
    with suppress(OSError):
        return (worktree.git_dir / SETUP_FAILED).read_text(encoding="utf-8") if worktree is not None else None
    return None


def _last_error(repository: RepositoryReader, state: RunState) -> str | None:
    """What keeps the run from continuing, or from landing: its last step failed, or met a usage limit."""
    refused = failed_landing(state)
    if refused is not None and current_approval(repository, state) is not None:
        return refused.summary
    last = state.last_step
    if last is None:
        return None
    if last.result is Result.FAILED:
        return last.summary
    if state.end is not RunStatus.PAUSED:
        return None
    receipt = step_fields(repository, state, last, last.execution.receipt, ReceiptFields)
    return last.summary if receipt.limited_until is not None else None


def _sandbox(repository: RepositoryReader, state: RunState) -> str | None:
    last = next((step for step in reversed(state.steps) if step.engine not in (KERNEL, "human")), None)
    if last is None:
        return None
    return step_fields(repository, state, last, last.execution.receipt, ReceiptFields).sandbox
