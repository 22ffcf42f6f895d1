"""One step, from its first journal line to the moved branch (design section 4). The order is the guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitswarm.engines.base import Emit, Engine, StepRequest, StepResult
from gitswarm.errors import StorageError
from gitswarm.ledger.journal import Journal
from gitswarm.ledger.reading import journal_folder
from gitswarm.ledger.state import RunState
from gitswarm.ledger.store import Draft
from gitswarm.records.event import Event, EventKind
from gitswarm.records.outcome import Result, Status
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.step.examine import Answer, Worked, examine
from gitswarm.runner.step.papers import draft_commit, kernel_files, said_events, write_envelope, write_receipt
from gitswarm.runner.step.plan import StepPlan
from gitswarm.runner.step.position import route_event, told_events
from gitswarm.runner.step.request import step_request
from gitswarm.worktree import snapshot


def execute_step(session: Session, place: Workplace, plan: StepPlan) -> RunState:
    """Executes a step and commits it; the state after it."""
    journal = open_journal(session, plan)
    try:
        announce(plan, journal)
        place.index.leave()
        started = session.around.clock()
        request = step_request(session, place, plan)
        result = ask(session.engines[plan.choice.key], request, journal.append)
        answer = Answer(result, started, session.around.clock())
        worked = examine(session, place, plan, answer, journal)
        written = write_papers(session, plan, worked, journal)
        place.folder.write(written.papers)
        place.folder.remove(written.expired)
        if worked.result.status is Result.FAILED:
            _set_failed_work_aside(session, plan, worked, written.blobs)
        state = session.store.commit(plan.before, written.draft)
    finally:
        journal.close()
    # The journal last: as long as it is there, a new owner knows which letters were taken.
    session.inbox.delete(written.letters)
    journal.delete()
    _settle(session, place, state, worked, written.blobs)
    return state


def open_journal(session: Session, plan: StepPlan) -> Journal:
    folder = journal_folder(session.repository, session.layout)
    around = session.around
    return Journal(folder, plan.execution, around.clock, around.observer.event, session.redactor)


@dataclass(frozen=True, slots=True)
class Written:
    """The papers of an execution and those of its artifacts that held a secret, path → content as stored; `expired`
    paths go; `blobs`: all of it as stored, with the step's
    artifacts; `letters`: what came from the inbox."""

    papers: Mapping[str, bytes]
    expired: Sequence[str]
    blobs: Mapping[str, str | None]
    letters: list[str]
    draft: Draft


def write_papers(session: Session, plan: StepPlan, worked: Worked, journal: Journal) -> Written:
    """Ends the journal and stores everything that the commit will hold; nothing in the worktree changes."""
    letters = _take_inbox(session, journal)
    envelope = write_envelope(plan, worked)
    receipt = write_receipt(plan, worked, envelope)
    journal.append_all(said_events(envelope))
    _report_end(plan, worked, journal)
    papers = kernel_files(plan, worked, envelope, receipt)
    events = {plan.execution.events: journal.content}
    expired = _expired_events(session, plan)
    stored = session.store.stored({**worked.artifacts, **papers}, events)
    blobs = {**stored.blobs, **dict.fromkeys(expired)}
    changed = {path for path, content in worked.artifacts.items() if stored.contents[path] != content}
    written = {path: stored.contents[path] for path in (*papers, *events, *changed)}
    draft = draft_commit(plan, worked, envelope, blobs, len(journal.events))
    return Written(written, expired, blobs, letters, draft)


def ask(engine: Engine, request: StepRequest, emit: Emit) -> StepResult:
    """The border to an engine: whatever goes wrong behind it is a failed step, not the end of git-swarm."""
    try:
        return engine.run(request, emit)
    except StorageError:
        raise  # our own journal: not the engine's failure
    except Exception as error:  # noqa: BLE001 - the engine border
        said = f"{type(error).__name__}: {error}"
        return StepResult(step_id=request.step_id, status=Result.FAILED, output="", error=said, cost_usd=None)


def announce(plan: StepPlan, journal: Journal) -> None:
    """How the step came to be executed, and that it is now."""
    events = [route_event(plan.decision), *told_events(plan.decision)]
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
                **({"branch_tip": plan.branch_tip} if plan.beside else {}),
            },
        )
    )
    journal.append_all(events)


def _take_inbox(session: Session, journal: Journal) -> list[str]:
    received = session.inbox.waiting()
    for item in received:
        journal.append(item.event, origin=item.origin)
    return [item.origin for item in received]


def _report_end(plan: StepPlan, worked: Worked, journal: Journal) -> None:
    result = worked.result
    common = {
        "status": result.status.value,
        "duration_ms": result.duration_ms,
        "engine": plan.choice.engine,
        "tokens": result.tokens.total,
        "cost_usd": result.cost_usd,
    }
    if result.status is Result.FAILED:
        journal.append(Event(EventKind.STEP_ERROR, {**common, "error": result.error or "failed"}))
    else:
        handed = result.handoff.status.value if result.handoff else Status.UNVERIFIED.value
        journal.append(Event(EventKind.STEP_END, {**common, "handoff_status": handed}))


def _set_failed_work_aside(session: Session, plan: StepPlan, worked: Worked, blobs: Mapping[str, str | None]) -> None:
    """The code that a failed step left is not lost: it is kept beside the chain."""
    if worked.code_tree == plan.before.tip_tree and not worked.artifacts:
        return
    tree = session.store.with_run_files(worked.code_tree, plan.before.tip_tree, blobs)
    trailers = {"Swarm-Step": plan.step.id, "Swarm-Flow": plan.flow.id, "Swarm-Reason": "failed"}
    session.store.set_aside(plan.before, tree, f"work of the failed step {plan.step.id}", trailers)


def _settle(
    session: Session, place: Workplace, state: RunState, worked: Worked, blobs: Mapping[str, str | None]
) -> None:
    """Makes the worktree and its index what the commit says, so that `git status` there is clean.

    The index may still be written when this returns: `place.index.leave()` waits for it.
    """
    if worked.result.status is Result.FAILED:
        snapshot.restore(place.shadow, state.tip_tree, session.layout.base)
        return
    place.folder.committed(state.tip_tree, blobs)
    place.index.begin_aligning(state.tip_tree, None if worked.index_strayed else blobs)


def _expired_events(session: Session, plan: StepPlan) -> list[str]:
    objects, execution = session.repository.objects, plan.execution
    return execution.expired_events(objects.names(plan.before.tip_tree, execution.events_folder))
