"""One step, from its first journal line to the moved branch (design section 4). The order is the guarantee."""

from __future__ import annotations

from msgspec.structs import replace

from gitswarm.engines.base import Emit, Engine, StepRequest, StepResult
from gitswarm.errors import StorageError, SwarmError
from gitswarm.ledger.finding import journal_folder
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.layout import expired_events
from gitswarm.ledger.state import RunState
from gitswarm.ledger.store import StagedCommit
from gitswarm.process_table import ending_strays
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Result
from gitswarm.records.receipt import EngineOutcome
from gitswarm.records.record import Clock, timestamp
from gitswarm.records.text import usd
from gitswarm.runner.containing import remove_copies
from gitswarm.runner.run_engines import OWN
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree
from gitswarm.runner.step.examine import examine
from gitswarm.runner.step.plan import OpenStep, StepOutcome, StepPlan
from gitswarm.runner.step.render import (
    changes_event,
    commit_message,
    concern_events,
    end_event,
    handoff_events,
    step_receipt,
    step_records,
)
from gitswarm.runner.step.request import copies_of, step_request
from gitswarm.runner.step.unfinished import (
    conversation_folder,
    drop_conversations,
    keep_conversation,
    restore_unfinished,
)
from gitswarm.runner.stored import route_event
from gitswarm.safety.sandbox.backends import watched
from gitswarm.untrusted import remove_tree
from gitswarm.worktree import snapshot


def execute_step(session: Session, worktree: RunWorktree, plan: StepPlan) -> RunState:
    """Executes a step and commits it; the state after it."""
    step = open_step(session, worktree, plan)
    try:
        engine = session.engines[plan.choice.key]
        with ending_strays():
            result = ask(engine, step.request, step.journal.append, session.context.clock)
        outcome = examine(session, step, result)
        commit = stage_commit(session, step, outcome)
        worktree.folder.write(commit.contents)
        worktree.folder.remove(path for path, blob in commit.files.items() if blob is None)
        if outcome.is_failed or conversation_folder(session, plan.execution).exists():
            tree = _left(session, plan, outcome, commit)
            keep_conversation(session, step, outcome.evidence, tree)
            commit = _without_work(session, plan, outcome, commit, tree) if outcome.is_failed else commit
        state = session.store.commit(plan.before, commit)
    finally:
        step.journal.close()
    close_step(session, step)
    drop_conversations(session, plan.execution)
    _settle(session, step, outcome, state, commit)
    return state


def open_step(session: Session, worktree: RunWorktree, plan: StepPlan) -> OpenStep:
    """Journals why the step is executed, and that it is now."""
    context = session.context
    folder = journal_folder(session.repository, session.layout)
    journal = Journal(folder, plan.execution, context.clock, context.observer.event, session.redactor)
    try:
        journal.append_all(_first_events(plan, "" if plan.choice == OWN else session.sandbox.containment.name))
        restore_unfinished(session, worktree, plan)
        worktree.leave()
        request = step_request(session, worktree, plan)
        return OpenStep(plan, worktree, journal, request, session.store.note_tips())
    except BaseException:
        journal.close()
        raise


def ask(engine: Engine, request: StepRequest, emit: Emit, clock: Clock) -> StepResult:
    """The border to an engine: whatever goes wrong behind it is a failed step, not the end of git-swarm."""
    started = timestamp(clock())
    try:
        # Its network is the same for all commands and sessions of the step.
        with request.containment.served(), watched(request.containment, request.env) as watch:
            result = engine.run(request, emit)
        if watch.reason:
            result = _ended(result, watch.reason)
    except StorageError:
        raise  # our own journal: not the engine's failure
    except Exception as error:  # noqa: BLE001 - the engine border
        reason = error.message if isinstance(error, SwarmError) else f"{type(error).__name__}: {error}"
        cost = None if engine.capabilities.session else 0.0
        result = StepResult(request.execution.step, Result.FAILED, output="", error=reason, cost_usd=cost)
    return replace(result, cost_usd=usd(result.cost_usd), started_at=started, completed_at=timestamp(clock()))


def _ended(result: StepResult, reason: str) -> StepResult:
    """Of a step that took too much of the machine."""
    outcome = EngineOutcome(kind="killed", detail=reason) if result.outcome is not None else None
    return replace(result, status=Result.FAILED, error=f"ended: {reason}", handoff=None, check=None, outcome=outcome)


def stage_commit(session: Session, step: OpenStep, outcome: StepOutcome) -> StagedCommit:
    """Ends the journal and stores everything that the commit will hold; nothing in the worktree changes."""
    plan, journal, store = step.plan, step.journal, session.store
    receipt = step_receipt(step, outcome)
    journal.append_all(
        (
            changes_event(outcome),
            *session.inbox.waiting(),
            *handoff_events(outcome.envelope),
            *concern_events(outcome.evidence),
            end_event(plan, receipt, outcome),
        )
    )
    contents = store.scrubbed({**outcome.artifacts, **step_records(plan, receipt, outcome)})
    contents[plan.execution.events] = journal.content
    expired = expired_events(
        plan.execution, session.repository.objects.names(plan.before.tip_tree, plan.execution.events_folder)
    )
    as_they_are = {path for path, content in outcome.artifacts.items() if contents[path] == content}
    return StagedCommit(
        message=commit_message(plan, receipt, outcome, len(journal.events)),
        author=plan.execution.agent,
        code_tree=outcome.code_tree,
        files={**store.write_blobs(contents), **dict.fromkeys(expired)},
        contents={path: content for path, content in contents.items() if path not in as_they_are},
        make=plan.out_of_band.make if plan.out_of_band is not None else None,
    )


def close_step(session: Session, step: OpenStep) -> None:
    """The journal last: as long as it is there, a new owner knows which inbox events were taken."""
    session.inbox.delete([event.origin for event in step.journal.events if event.origin is not None])
    step.journal.delete()
    remove_copies(session, copies_of(step.plan))
    order = step.request.command
    if order is not None and order.reports is not None:
        remove_tree(order.reports)


def _first_events(plan: StepPlan, sandbox: str) -> list[Event]:
    events = [route_event(plan.decision), *plan.decision.events]
    if plan.resumption is not None:
        answer = plan.resumption.answer or None
        events.append(Event(EventKind.RUN_RESUMED, {"step": plan.step.id, "answer": answer}))
    events.append(
        Event(
            EventKind.STEP_START,
            {
                "role": plan.step.objective or plan.step.id,
                "agents": [plan.step.agent],
                "step_index": plan.flow.index(plan.step.id) + 1 if plan.flow.has_step(plan.step.id) else 0,
                "engine": plan.choice.engine,
                "mode": plan.choice.mode,
                "commit_before": plan.before.tip,
                **({"branch_tip": plan.branch_tip} if plan.parallel else {}),
                **({"sandbox": sandbox} if sandbox else {}),
                **({"budget": dict(plan.allowed.plain)} if plan.allowed else {}),
            },
        )
    )
    return events


def _left(session: Session, plan: StepPlan, outcome: StepOutcome, commit: StagedCommit) -> str:
    """Tree of the worktree, with what is stored about the step; the one before it where it changed nothing."""
    before = plan.before.tip_tree
    if outcome.code_tree == before and not outcome.artifacts:
        return before
    return session.store.with_run_files(outcome.code_tree, before, commit.files)


def _without_work(
    session: Session, plan: StepPlan, outcome: StepOutcome, commit: StagedCommit, tree: str
) -> StagedCommit:
    """The commit of a failed step has its evidence only; the work is kept under `rollback/<n>`."""
    if tree != plan.before.tip_tree:
        trailers = {"Swarm-Step": plan.step.id, "Swarm-Flow": plan.flow.id, "Swarm-Reason": "failed"}
        session.store.set_aside(plan.before, tree, f"work of the failed step {plan.step.id}", trailers)
    files = {path: blob for path, blob in commit.files.items() if path not in outcome.artifacts}
    return replace(commit, code_tree=plan.before.tip_tree, files=files)


def _settle(session: Session, step: OpenStep, outcome: StepOutcome, state: RunState, commit: StagedCommit) -> None:
    """Makes the worktree and its index what the commit says, so that `git status` there is clean.

    The index may still be written when this returns: `worktree.index.leave()` waits for it.
    """
    if outcome.is_failed:
        snapshot.restore(step.worktree.shadow, state.tip_tree, session.layout.base)
        return
    step.worktree.folder.committed(state.tip_tree, commit.files)
    step.worktree.index.begin_aligning(state.tip_tree, None if outcome.is_index_stale else commit.files)
