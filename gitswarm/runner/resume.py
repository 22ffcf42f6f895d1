"""Goes on from the tip of a run: finishes what was paid for, sets aside what was not, decides, executes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from gitswarm.git.repository import Repository
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.layout import RUNS_FOLDER, Execution, RunLayout
from gitswarm.ledger.reading import live_journals, run_spec
from gitswarm.ledger.state import RunState, replay
from gitswarm.processes import end_processes_with
from gitswarm.records.base import timestamp
from gitswarm.records.outcome import RunStatus
from gitswarm.runner.begin import NewRun, open_session
from gitswarm.runner.examine import quarantine_nested
from gitswarm.runner.route import decide_next, decide_resumed
from gitswarm.runner.run import carry_on
from gitswarm.runner.session import MARKER, Session, Surroundings, Workplace
from gitswarm.runner.specs import read_frozen
from gitswarm.runner.workplace import prepare_worktree
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import Shadow, find_shadow, reattach


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where the run stands afterwards. `was_complete`: there was nothing to do."""

    state: RunState
    was_complete: bool


def resume_run(repository: Repository, layout: RunLayout, around: Surroundings) -> Resumed:
    """
    :raises RunHeldError: a live process owns the run.
    :raises NotFoundError: no such run.
    """
    first = replay(repository, layout)
    spec = run_spec(repository, first)
    specs = read_frozen(repository, layout, repository.objects.commit(first.run_commit).tree)
    session = open_session(repository, NewRun(spec, specs), around)
    with session.locks.own_run(layout.run_id, timestamp(around.clock())):
        _end_orphans(session)
        state = session.store.finish_next(replay(repository, layout))
        session.store.complete_creation(state)
        if state.end is RunStatus.SUCCEEDED:
            _drop_journals(session, state)
            _tidy_index(session, state)
            return Resumed(state, was_complete=True)
        shadow = prepare_worktree(session)
        _recover_worktree(session, state, shadow)
        around.observer.opened(state, str(shadow.path))
        place = Workplace.of(session, shadow)
        decision = decide_next(session, state) if state.end is None else decide_resumed(session, state)
        return Resumed(carry_on(session, place, state, decision, resumed=True), was_complete=False)


def _end_orphans(session: Session) -> None:
    """Ends what a killed owner left running, and removes the locks that only this run writes."""
    ended = end_processes_with(MARKER, session.layout.run_id)
    if ended:
        session.around.observer.notice(f"ended {ended} processes that an earlier owner left behind")
    common = session.repository.common_dir
    locks = [common / f"{session.layout.branch}.lock"]
    for folder in (f"refs/swarm/{session.layout.run_id}", f"refs/notes/swarm/{session.layout.run_id}"):
        locks.extend((common / folder).rglob("*.lock"))
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        locks.extend(shadow.git_dir / name for name in ("index.lock", "HEAD.lock", "index.swarm"))
    for lock in locks:
        lock.unlink(missing_ok=True)


def _tidy_index(session: Session, state: RunState) -> None:
    """The last commit may have come home just now, without the index of a worktree that is still there."""
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        Workplace.of(session, shadow).folder.examine(state.tip_tree, frozenset())
        snapshot.align_index(shadow, state.tip_tree)


def _drop_journals(session: Session, state: RunState) -> list[OpenJournal]:
    """Deletes journals of steps that are committed; returns those that are not."""
    done = {(record.flow, record.step, record.execution.iteration) for record in state.steps}
    interrupted = []
    for journal in live_journals(session.repository, session.layout):
        if (journal.flow, journal.step, journal.iteration) not in done:
            interrupted.append(journal)
            continue
        session.inbox.delete([event.origin for event in journal.read() if event.origin])
        journal.path.unlink(missing_ok=True)
    return interrupted


def _recover_worktree(session: Session, state: RunState, shadow: Shadow) -> None:
    """Makes the worktree what the tip says; anything else in it, and open journals, go to `rollback/<n>` first."""
    interrupted = _drop_journals(session, state)
    reattach(shadow)
    place = Workplace.of(session, shadow)
    for name, kept_as in quarantine_nested(session, place):
        session.around.observer.notice(f"{name} was a repository of its own: its .git is kept as {kept_as}")
    if not (shadow.git_dir / "index").exists():
        snapshot.align_index(shadow, state.tip_tree)
    left = snapshot.photograph(shadow)
    objects = session.repository.objects
    code = objects.with_subtree(left, RUNS_FOLDER, None)
    dirty = code != objects.with_subtree(state.tip_tree, RUNS_FOLDER, None)
    if interrupted or dirty:
        _set_aside(session, state, code, interrupted)
        snapshot.restore(shadow, state.tip_tree, session.layout.base)
    else:
        place.folder.examine(state.tip_tree, frozenset())
        snapshot.align_index(shadow, state.tip_tree)
    for journal in interrupted:
        journal.path.unlink(missing_ok=True)


def _set_aside(session: Session, state: RunState, code: str, interrupted: list[OpenJournal]) -> None:
    files: dict[str, bytes] = {}
    trailers = {"Swarm-Reason": "worktree differed from the tip"}
    for journal in interrupted:
        execution = Execution(session.layout, journal.flow, journal.step, journal.iteration, "interrupted")
        with contextlib.suppress(FileNotFoundError):
            files[execution.events] = journal.path.read_bytes()
        trailers = {
            "Swarm-Reason": "interrupted",
            "Swarm-Flow": journal.flow,
            "Swarm-Step": journal.step,
            "Swarm-Iteration": str(journal.iteration),
        }
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is not None:
        files = _run_files(shadow.path, session.layout.base) | files
    tree = session.store.with_run_files(code, state.tip_tree, session.store.stored(files))
    what = f"interrupted {interrupted[-1].flow}/{interrupted[-1].step}" if interrupted else "uncommitted work"
    name = session.store.set_aside(state, tree, what, trailers)
    session.around.observer.notice(f"{what} was set aside: git show --stat {name}")


def _run_files(worktree: Path, base: str) -> dict[str, bytes]:
    """Regular files in RUN_BASE as they lie on disk."""
    found = (worktree / base).rglob("*") if (worktree / base).is_dir() else ()
    return {
        path.relative_to(worktree).as_posix(): path.read_bytes()
        for path in found
        if path.is_file() and not path.is_symlink()
    }
