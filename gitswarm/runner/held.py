"""Takes hold of an existing run: lock, orphans, what a dead owner left, worktree. Every command that changes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.reading import run_spec
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
def hold_run(repository: Repository, layout: RunLayout, around: Surroundings) -> Iterator[Held]:
    """
    :raises RunHeldError: a live process owns the run.
    :raises NotFoundError: no such run.
    """
    first = replay(repository, layout)
    specs = read_frozen(repository, layout, repository.objects.commit(first.run_commit).tree)
    session = open_session(repository, NewRun(run_spec(repository, first), specs), around)
    with session.locks.own_run(layout.run_id, timestamp(around.clock())):
        end_orphans(session)
        state = session.store.finish_next(replay(repository, layout))
        session.store.complete_creation(state)
        yield Held(session, state)
