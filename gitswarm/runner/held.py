"""Takes hold of an existing run: lock, orphans, what a dead owner left, worktree. Every command that changes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.reading import live_journals, run_spec
from gitswarm.ledger.state import RunState, replay
from gitswarm.records.base import timestamp
from gitswarm.runner.begin import NewRun, open_session
from gitswarm.runner.orphans import end_orphans
from gitswarm.runner.session import Session, Surroundings
from gitswarm.runner.specs import read_frozen


@dataclass(frozen=True, slots=True)
class Held:
    """A run that this process owns; what was paid for is finished, what was not is still open."""

    session: Session
    state: RunState


@contextmanager
def hold_run(
    repository: Repository, layout: RunLayout, around: Surroundings, *, adopt: bool = False
) -> Iterator[Held]:
    """
    :param adopt: commits that people put on the branch become uncommitted edits, to be adopted as a step.
    :raises SwarmError: there are such commits and they are not to be adopted.
    :raises RunHeldError: a live process owns the run.
    :raises NotFoundError: no such run.
    """
    first = replay(repository, layout)
    specs = read_frozen(repository, layout, repository.objects.commit(first.run_commit).tree)
    session = open_session(repository, NewRun(run_spec(repository, first), specs), around)
    with session.locks.own_run(layout.run_id, timestamp(around.clock())):
        end_orphans(session)
        _bring_branch_back(session)
        state = session.store.finish_next(replay(repository, layout))
        session.store.complete_creation(state)
        _settle_foreign_commits(session, state, adopt=adopt)
        yield Held(session, state)


def _bring_branch_back(session: Session) -> None:
    """Undoes what an interrupted agent did to the branch: its journal says where the branch was."""
    repository, layout = session.repository, session.layout
    tip = repository.refs.read(layout.branch)
    for journal in live_journals(repository, layout):
        before = next((str(e.payload.get("commit_before")) for e in journal.read() if e.kind == "step_start"), None)
        if before is None or tip in (None, before, repository.refs.read(layout.next_ref)):
            continue
        if tip is not None and _is_that_step(repository, tip, before, journal):
            continue
        session.store.move_branch(tip or "", before, "an interrupted step had moved it")
        session.around.observer.notice(f"{journal.step} had moved the branch: what it left there was {str(tip)[:12]}")
        tip = before


def _is_that_step(repository: Repository, tip: str, before: str, journal: OpenJournal) -> bool:
    commit = repository.objects.commit(tip)
    message = parse_message(commit.message)
    said = message.trailers if message else {}
    wanted = (journal.flow, journal.step, str(journal.iteration))
    return commit.parents[:1] == (before,) and wanted == tuple(
        said.get(name) for name in ("Swarm-Flow", "Swarm-Step", "Swarm-Iteration")
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
