"""Opens an existing run for a command that changes it: lock, orphans, what a dead owner left, worktree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import CorruptError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import follow_approval
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.reading import is_corrupt, live_journals, run_spec
from gitswarm.ledger.rescue import find_orphaned_commits
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.record import timestamp
from gitswarm.runner.begin import NewRun, open_session
from gitswarm.runner.landing.approve import allowed_so_far
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_end import end_run, ending_at
from gitswarm.runner.run_processes import Request
from gitswarm.runner.run_session import FrozenSpecs, Session
from gitswarm.runner.specs import read_frozen
from gitswarm.runner.undo.recovery import end_orphans, restore_worktree
from gitswarm.runner.undo.rollback import keep_rolled_back, move_to_new_base
from gitswarm.specs.fragments import Fragments
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.worktree.shadow import checked_out_elsewhere

_ID = re.compile(r"[0-9a-f]{40}")


class OpenRun(Struct, frozen=True):
    """A run that this process owns; what was paid for is finished, what was not is still open.

    `settled`: other commits than the run's own stood on its branch, and are off it now.
    """

    session: Session
    state: RunState
    settled: bool = False


@contextmanager
def open_run(
    repository: Repository, layout: RunLayout, context: RunContext, *, adopt: bool = False, executes: bool = True
) -> Iterator[OpenRun]:
    """
    :param adopt: commits that people put on the branch become uncommitted edits, to be adopted as a step.
    :param executes: without it specs that cannot be read are none: nothing keeps such a run from being discarded.
    :raises CorruptError: its specs are not what git-swarm wrote there.
    :raises SwarmError: there are such commits and they are not to be adopted.
    :raises RunHeldError: a live process owns the run.
    :raises NotFoundError: no such run.
    """
    repository.refuse_old_git()
    first = _first_look(repository, layout)
    try:
        specs = read_frozen(repository, layout, repository.objects.commit(first.run_commit).tree)
    except CorruptError:
        if executes:
            raise
        specs = FrozenSpecs({}, {}, {}, Fragments({}), ModelPolicy(categories={}, engines={}), {}, None)
    specs = replace(specs, script=context.script or specs.script)
    session = open_session(repository, NewRun(run_spec(repository, first), specs), context)
    with session.locks.own_run(layout.run_id, timestamp(context.clock())), repository.packed():
        _refuse_foreign_checkout(session)
        end_orphans(session)
        _bring_branch_back(session)
        state = move_to_new_base(session, session.store.finish_next(replay(repository, layout)))
        found = repository.refs.read(layout.branch)
        _settle_foreign_commits(session, state, adopt=adopt)
        state = move_to_new_base(session, _settle_strayed(session, state, adopt=adopt))
        session.store.complete_creation(state)
        _mend_notes(session, state)
        follow_approval(repository, state)
        session.redactor.allow(allowed_so_far(session, state))
        yield OpenRun(session, state, settled=state.tip != found)


def _refuse_foreign_checkout(session: Session) -> None:
    """Moving a branch that a person has checked out would turn their files into uncommitted changes."""
    folder = checked_out_elsewhere(session.repository, session.layout.branch)
    if folder is not None:
        raise SwarmError(
            f"{session.layout.branch.removeprefix('refs/heads/')} is checked out in {folder}",
            hint=f"git -C {shlex.quote(str(folder))} checkout --detach && git swarm resume {session.layout.run_id}",
        )


def _first_look(repository: Repository, layout: RunLayout) -> RunState:
    """Where the run's specs are to be read: below a branch that was rewritten, the commits that were there before."""
    state = replay(repository, layout)
    found = find_orphaned_commits(repository, layout, state.tip)
    return state if found is None or found.moved_back else replay(repository, layout, found.newest)


def _bring_branch_back(session: Session) -> None:
    """Undoes what an interrupted agent did to the branch: its journal says where the branch was."""
    repository, layout = session.repository, session.layout
    tip = repository.refs.read(layout.branch)
    for journal in live_journals(repository, layout):
        before = _commit_before(repository, layout, journal)
        if before is None or tip in (None, before, repository.refs.read(layout.next_ref)):
            continue
        if tip is not None and _is_that_step(repository, tip, before, journal):
            continue
        session.store.move_branch(tip or "", before, "an interrupted step had moved it")
        session.context.observer.notice(
            f"{journal.step} had moved the branch: what it left there was {str(tip)[:12]}"
        )
        tip = before


def _commit_before(repository: Repository, layout: RunLayout, journal: OpenJournal) -> str | None:
    """Where the branch was when the step started; None when its journal does not say so in a way that can be true."""
    start = next((event.payload for event in journal.read() if event.kind == "step_start"), {})
    # A parallel step starts at its fork; the branch may have moved on from there.
    commit_id = str(start.get("branch_tip", start.get("commit_before")))
    if not _ID.fullmatch(commit_id) or not repository.objects.has(commit_id):
        return None
    message = parse_message(repository.objects.commit(commit_id).message)
    return commit_id if message is not None and message.trailers.get("Swarm-Run") == layout.run_id else None


def _is_that_step(repository: Repository, tip: str, before: str, journal: OpenJournal) -> bool:
    commit = repository.objects.commit(tip)
    message = parse_message(commit.message)
    trailers = message.trailers if message else {}
    wanted = (journal.flow, journal.step, str(journal.iteration))
    return commit.parents[:1] == (before,) and wanted == tuple(
        trailers.get(name) for name in ("Swarm-Flow", "Swarm-Step", "Swarm-Iteration")
    )


def _settle_foreign_commits(session: Session, state: RunState, *, adopt: bool) -> None:
    branch = session.layout.branch
    tip = session.repository.refs.read(branch)
    if tip in (None, state.tip):
        return
    if not adopt:
        run = session.layout.run_id
        name = branch.removeprefix("refs/heads/")
        raise SwarmError(
            f"{name} has commits that no step made: {str(tip)[:12]} on {state.tip[:12]}",
            hint=f"git swarm resume {run} --adopt   (makes them a step of yours)",
        )
    session.store.move_branch(tip or "", state.tip, "commits by hand are adopted")


def _settle_strayed(session: Session, state: RunState, *, adopt: bool) -> RunState:
    """Commits of the run that somebody took off the branch: they are kept, or come back."""
    repository, layout, store = session.repository, session.layout, session.store
    found = find_orphaned_commits(repository, layout, state.tip)
    if found is None:
        return state
    name = layout.branch.removeprefix("refs/heads/")
    if found.moved_back:
        kept = keep_rolled_back(session, replace(state, tip=found.newest), state.tip)
        session.context.observer.notice(f"{name} was moved back by hand: what followed is kept in {kept}")
        return state
    codes = {store.code(repository.objects.commit(commit_id).tree) for commit_id in found.commits}
    if store.code(state.tip_tree) not in codes and not adopt:
        raise SwarmError(
            f"{name} was rewritten by hand: {state.tip[:12]} replaced the run's own {found.newest[:12]}",
            hint=f"git swarm resume {layout.run_id} --adopt   (makes your edits a step of yours)",
        )
    store.move_branch(state.tip, found.newest, "the run's own commits are back")
    session.context.observer.notice(f"{name} was rewritten by hand: {found.newest[:12]} is back for {state.tip[:12]}")
    return replay(repository, layout)


def _mend_notes(session: Session, state: RunState) -> None:
    """Notes are views: what the trees hold is made again, what cannot be read is said."""
    made = session.store.rebuild_events_notes(state)
    if made:
        session.context.observer.notice(f"events notes that were missing or changed are made again: {made}")
    for commit_id in (state.tip, *session.repository.objects.commit(state.tip).parents):
        note = session.repository.notes(session.layout.routing_notes).read(commit_id)
        if note is not None and is_corrupt(note):
            session.context.observer.notice(f"the routing note of {commit_id[:12]} has a line that is not a decision")


def end_unowned(repository: Repository, layout: RunLayout, context: RunContext, request: Request) -> RunState:
    """A run that was cut off gets its `end` commit; one that has ended already stays as it is.

    :raises RunHeldError: somebody took it over in between.
    """
    with open_run(repository, layout, context) as opened:
        if opened.state.end is not None:
            return opened.state
        worktree = restore_worktree(opened.session, opened.state)
        return end_run(opened.session, worktree, opened.state, ending_at(opened.session, opened.state, request))
