"""Brings the worktree of an opened run in line with its tip; whatever is not in a commit is kept first.

What a step that was interrupted on purpose left stays in the worktree, with a note about it in the run.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import SwarmError
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.reading import live_journals, siblings
from gitswarm.ledger.spent import InterruptedExecution, usage_trailer
from gitswarm.ledger.state import RunState
from gitswarm.process_table import end_processes_with
from gitswarm.records.execution import Execution
from gitswarm.records.receipt import PartialHandoff
from gitswarm.records.record import timestamp
from gitswarm.runner.run_processes import MARKER, remove_ref_locks
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree, opened_side, prepare_worktree
from gitswarm.runner.step.examine import keep, quarantine_nested, search_since
from gitswarm.untrusted import files_below
from gitswarm.worktree import snapshot
from gitswarm.worktree.extra_worktrees import remove_landing, remove_step_worktree, step_worktrees
from gitswarm.worktree.repository_watch import IndexWatch
from gitswarm.worktree.search import Flagged, Staged
from gitswarm.worktree.shadow import Shadow, find_shadow, reattach


class Leftover(Struct, frozen=True):
    """What lies in the worktree and is not in the tip: the code as a tree, and journals without a commit.

    `flagged`: files with a secret, which the tree does not have.
    """

    code: str
    is_dirty: bool
    journals: tuple[OpenJournal, ...] = ()
    flagged: tuple[Flagged, ...] = ()

    @property
    def staged(self) -> Staged:
        return Staged(self.code, self.flagged)


def end_orphans(session: Session) -> None:
    """Ends what a killed owner left running, and removes the locks that only this run writes."""
    ended = end_processes_with(MARKER, session.mark)
    if ended:
        session.context.observer.notice(f"ended {ended} processes that an earlier owner left behind")
    shutil.rmtree(session.scratch, ignore_errors=True)
    remove_ref_locks(session.repository, session.layout)
    locks: list[Path] = []
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        locks.extend(shadow.git_dir / name for name in ("index.lock", "index.aligned.lock", "HEAD.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)


def restore_worktree(session: Session, state: RunState) -> RunWorktree:
    """The run's worktree, exactly as its tip says. What a killed owner left is set aside.

    :raises SetupFailedError: the worktree was gone and cannot be made again.
    """
    shadow = prepare_worktree(session)
    retire_sides(session, state)
    left = look(session, state, shadow)
    if left.journals or left.is_dirty:
        _set_interrupted_aside(session, state, shadow, left)
        snapshot.restore(shadow, state.tip_tree, session.layout.base)
    else:
        RunWorktree.of(session, shadow).folder.examine(state.tip_tree, frozenset())
        snapshot.align_index(shadow, state.tip_tree)
    for journal in left.journals:
        journal.path.unlink(missing_ok=True)
    return RunWorktree.of(session, shadow)


def retire_sides(session: Session, state: RunState) -> bool:
    """Removes the worktrees of parallel steps that nobody executes any more; unfinished work in them is kept. Whether
    there were any. What a landing left holds nobody's work."""
    remove_landing(session.repository, session.layout.run_id, session.locks)
    sides = step_worktrees(session.repository, session.layout.run_id)
    interrupted = {journal.step: journal for journal in drop_journals(session, state)} if sides else {}
    for side in sides:
        journal, shadow = interrupted.get(side.step), opened_side(session, side)
        if journal is not None and shadow is not None:
            keep_ended(session, state, shadow, journal)
            journal.path.unlink(missing_ok=True)
        remove_step_worktree(side, session.locks)
    return bool(sides)


def keep_ended(session: Session, state: RunState, shadow: Shadow, journal: OpenJournal) -> str:
    """Sets aside what a step that was cut off left in a worktree, with its journal. Returns the ref."""
    _quarantine_all(session, shadow)
    IndexWatch(shadow).repair(state.tip_tree)
    reason = interrupted([journal])
    start = session.repository.objects.commit(shadow.branch).tree if shadow.is_detached else state.tip_tree
    name = set_aside(session, state, shadow, _photograph(session, shadow, start), reason)
    session.context.observer.notice(f"{reason.title} was set aside: git show --stat {name}")
    return name


def interrupted(journals: Sequence[OpenJournal]) -> SetAsideReason:
    """Why work is set aside that a step left when it was cut off.

    :param journals: what is kept; the last one's step is named.
    """
    journal = journals[-1]
    trailers = {
        "Swarm-Reason": "interrupted",
        "Swarm-Flow": journal.flow,
        "Swarm-Step": journal.step,
        "Swarm-Iteration": str(journal.iteration),
    }
    return SetAsideReason(f"interrupted {journal.flow}/{journal.step}", trailers, tuple(journals))


def tidy_index(session: Session, state: RunState) -> None:
    """The last commit may have come home just now, without the index of a worktree that is still there."""
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        RunWorktree.of(session, shadow).folder.examine(state.tip_tree, frozenset())
        snapshot.align_index(shadow, state.tip_tree)


def look(session: Session, state: RunState, shadow: Shadow) -> Leftover:
    """Compares worktree and tip without changing either; nested repositories lose their `.git` first."""
    journals = drop_journals(session, state)
    reattach(shadow)
    _quarantine_all(session, shadow)
    IndexWatch(shadow).repair(state.tip_tree)
    now = _photograph(session, shadow, state.tip_tree)
    clean = session.store.code(state.tip_tree)
    return Leftover(now.tree, now.tree != clean or bool(now.flagged), tuple(journals), now.flagged)


def _photograph(session: Session, shadow: Shadow, before: str, also: Sequence[str] = ()) -> Staged:
    """The code in the worktree, without `.swarm/runs`."""
    now = snapshot.write_tree(shadow, search_since(session, before), also=also)
    return replace(now, tree=session.store.code(now.tree))


def _quarantine_all(session: Session, shadow: Shadow) -> None:
    for name, kept_as in quarantine_nested(session, RunWorktree.of(session, shadow)):
        session.context.observer.notice(f"{name} was a repository of its own: its .git is kept as {kept_as}")


def drop_journals(session: Session, state: RunState) -> list[OpenJournal]:
    """Deletes journals of steps that are committed, on the branch or beside it; returns those that are not."""
    committed = (*state.steps, *siblings(session.repository, session.layout))
    done = {(record.flow, record.step, record.execution.iteration) for record in committed}
    interrupted = []
    for journal in live_journals(session.repository, session.layout):
        if (journal.flow, journal.step, journal.iteration) not in done:
            interrupted.append(journal)
            continue
        session.inbox.delete([event.origin for event in journal.read() if event.origin])
        journal.path.unlink(missing_ok=True)
    return interrupted


class SetAsideReason(Struct, frozen=True):
    """Why work is set aside, for people and for whoever looks for it later. `journals`: of the executions that were
    cut off, kept with what they used."""

    title: str
    trailers: Mapping[str, str]
    journals: tuple[OpenJournal, ...] = ()


class Restoring(Struct, frozen=True):
    """The tree that the worktree is about to become, and why."""

    tree: str
    reason: SetAsideReason


def set_aside(session: Session, state: RunState, shadow: Shadow, code: Staged, reason: SetAsideReason) -> str:
    """Keeps the worktree as it is now, RUN_BASE included, under `rollback/<n>`; files with a secret apart from it.
    Returns the ref."""
    keep(session, shadow, code.flagged)
    events = journal_files(session, reason.journals)
    files = _run_files(shadow.path, session.layout.base) | {
        execution.events: raw for execution, raw in events.items()
    }
    blobs = session.store.write_blobs(session.store.scrubbed(files))
    tree = session.store.with_run_files(code.tree, state.tip_tree, blobs)
    used = (InterruptedExecution.of(each.flow, each.step, each.iteration, raw) for each, raw in events.items())
    return session.store.set_aside(state, tree, reason.title, {**reason.trailers, **usage_trailer(used)})


def set_aside_before(session: Session, state: RunState, shadow: Shadow, left: Leftover, before: Restoring) -> str:
    """As `set_aside`, with the journals, and with what git ignores but could not stay. Returns the ref."""
    lost = lost_to(shadow, session.store.code(before.tree))
    code = _photograph(session, shadow, state.tip_tree, lost) if lost else left.staged
    return set_aside(session, state, shadow, code, replace(before.reason, journals=left.journals))


def lost_to(shadow: Shadow, code: str) -> list[str]:
    """Ignored files that could not stay beside this code.

    :raises SwarmError: a whole repository is among them.
    """
    names = snapshot.in_the_way(shadow, code)
    for name in names:
        if name.endswith("/"):
            raise SwarmError(
                f"{name} is a repository that git ignores, in the way of a file: it would be deleted",
                hint=f"mv {shlex.quote(str(shadow.path / name))} somewhere-else",
            )
    return names


def _set_interrupted_aside(session: Session, state: RunState, shadow: Shadow, left: Leftover) -> None:
    """Steps that were executed in parallel are kept one by one."""
    kept: list[tuple[OpenJournal, ...]] = [(journal,) for journal in left.journals]
    for journals in kept or [()]:
        dirty = SetAsideReason("uncommitted work", {"Swarm-Reason": "worktree differed from the tip"})
        reason = interrupted(journals) if journals else dirty
        before = Restoring(state.tip_tree, reason)
        name = set_aside_before(session, state, shadow, replace(left, journals=journals), before)
        session.context.observer.notice(f"{reason.title} was set aside: git show --stat {name}")


def journal_files(session: Session, journals: Sequence[OpenJournal]) -> dict[Execution, bytes]:
    """The events of executions that were cut off."""
    files: dict[Execution, bytes] = {}
    for journal in journals:
        execution = Execution(session.layout.run_id, journal.flow, journal.step, journal.iteration, "interrupted")
        with contextlib.suppress(FileNotFoundError):
            files[execution] = journal.path.read_bytes()
    return files


def _run_files(worktree: Path, base: str) -> dict[str, bytes]:
    """Regular files in RUN_BASE as they lie on disk."""
    found = files_below(worktree / base)
    return {path.relative_to(worktree).as_posix(): path.read_bytes() for path, _about in found}


def keep_partial(session: Session, worktree: RunWorktree, state: RunState) -> PartialHandoff | None:
    """Keeps what an interrupted step left; the worktree stays as it is. None when no step was executing."""
    left = look(session, state, worktree.shadow)
    if not left.journals:
        return None
    reason = interrupted(left.journals)
    kept = set_aside(session, state, worktree.shadow, left.staged, reason)
    clean = session.store.code(state.tip_tree)
    files = tuple(delta.path for delta in session.repository.diffs.between(clean, left.code))
    for open_journal in left.journals:
        open_journal.path.unlink(missing_ok=True)
    stays = "1 changed file stays" if len(files) == 1 else f"{len(files)} changed files stay"
    return replace(
        _partial(session, state, left.journals[-1], kept),
        summary=f"{reason.title}, {stays} in the worktree",
        files=files,
    )


def partial_fork(session: Session, state: RunState) -> PartialHandoff | None:
    """A note about parallel steps that were interrupted; None when none was executing. Nothing is kept by it."""
    journals = drop_journals(session, state)
    if not journals:
        return None
    names = tuple(journal.step for journal in journals)
    summary = f"interrupted {', '.join(names)}, in parallel: what they left is kept"
    partial = _partial(session, state, journals[0], session.layout.rollback_prefix)
    return replace(partial, summary=summary, siblings=names)


def _partial(session: Session, state: RunState, journal: OpenJournal, kept: str) -> PartialHandoff:
    return PartialHandoff(
        run_id=session.layout.run_id,
        flow_key=journal.flow,
        step_id=journal.step,
        iteration=journal.iteration,
        end=state.ends + 1,
        interrupted_at=timestamp(session.context.clock()),
        summary="",
        files=(),
        kept=kept,
    )


def partial_path(session: Session, flow: str) -> str:
    return f"{session.layout.base}/{flow}/handoff_partial.json"


def current_partial(session: Session, state: RunState) -> PartialHandoff | None:
    """The interrupted work that the run continues from, if its last end was such an interruption."""
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


def restore_partial(session: Session, worktree: RunWorktree, state: RunState, partial: PartialHandoff) -> None:
    """Puts kept work back into a worktree that does not have it any more."""
    kept = session.repository.refs.read(partial.kept)
    if kept is None:
        return
    snapshot.restore(worktree.shadow, session.repository.objects.commit(kept).tree, session.layout.base)
    snapshot.align_index(worktree.shadow, state.tip_tree)
    worktree.folder.examine(state.tip_tree, frozenset())
