"""A step that was interrupted on purpose: what it left stays in the worktree, and a note about it in the run."""

from __future__ import annotations

from gitswarm.ledger.finding import parsed
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.state import RunState
from gitswarm.records.base import timestamp
from gitswarm.records.partial import PartialHandoff
from gitswarm.runner.session import Session, Workplace
from gitswarm.runner.undo.recovery import drop_journals, interrupted, look, set_aside
from gitswarm.worktree import snapshot


def keep_partial(session: Session, place: Workplace, state: RunState) -> PartialHandoff | None:
    """Keeps what an interrupted step left; the worktree stays as it is. None when no step was executing."""
    left = look(session, state, place.shadow)
    if not left.journals:
        return None
    reason = interrupted(left.journals)
    kept = set_aside(session, state, place.shadow, left.staged, reason)
    clean = session.store.code(state.tip_tree)
    files = tuple(delta.path for delta in session.repository.diffs.between(clean, left.code))
    for open_journal in left.journals:
        open_journal.path.unlink(missing_ok=True)
    return _partial(session, state, left.journals[-1], kept).model_copy(
        update={"summary": f"{reason.title}, {len(files)} changed files stay in the worktree", "files": files}
    )


def partial_fork(session: Session, state: RunState) -> PartialHandoff | None:
    """A note about parallel steps that were interrupted; None when none was executing. Nothing is kept by it."""
    journals = drop_journals(session, state)
    if not journals:
        return None
    names = tuple(journal.step for journal in journals)
    summary = f"interrupted {', '.join(names)}, in parallel: what they left is kept"
    partial = _partial(session, state, journals[0], session.layout.rollback_prefix)
    return partial.model_copy(update={"summary": summary, "siblings": names})


def _partial(session: Session, state: RunState, journal: OpenJournal, kept: str) -> PartialHandoff:
    return PartialHandoff(
        run_id=session.layout.run_id,
        flow_key=journal.flow,
        step_id=journal.step,
        iteration=journal.iteration,
        end=state.ends + 1,
        interrupted_at=timestamp(session.around.clock()),
        summary="",
        files=(),
        kept=kept,
    )


def partial_path(session: Session, flow: str) -> str:
    return f"{session.layout.base}/{flow}/handoff_partial.json"


def standing_partial(session: Session, state: RunState) -> PartialHandoff | None:
    """The interrupted work that the run goes on from, if its last end was such an interruption."""
    if state.end is None:
        return None
    for flow in session.spec.flows:
        content = session.repository.objects.file(state.tip_tree, partial_path(session, flow))
        if content is None:
            continue
        found = parsed(PartialHandoff.from_json, content, state.layout, partial_path(session, flow))
        if found.end == state.ends and not found.siblings:
            return found
    return None


def lay_out(session: Session, place: Workplace, state: RunState, partial: PartialHandoff) -> None:
    """Puts kept work back into a worktree that does not have it any more."""
    kept = session.repository.refs.read(partial.kept)
    if kept is None:
        return
    snapshot.restore(place.shadow, session.repository.objects.commit(kept).tree, session.layout.base)
    snapshot.align_index(place.shadow, state.tip_tree)
    place.folder.examine(state.tip_tree, frozenset())
