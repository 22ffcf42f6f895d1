"""Goes on from the tip of a run, whatever ended it."""

from __future__ import annotations

from dataclasses import dataclass

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.records.outcome import RunStatus
from gitswarm.runner.held import hold_run
from gitswarm.runner.recovery import drop_journals, take_place
from gitswarm.runner.route import decide_next, decide_resumed
from gitswarm.runner.run import carry_on
from gitswarm.runner.session import Surroundings


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
    with hold_run(repository, layout, around) as held:
        session, state = held.session, held.state
        if state.end is RunStatus.SUCCEEDED:
            drop_journals(session, state)
            return Resumed(state, was_complete=True)
        place = take_place(session, state)
        around.observer.opened(state, str(place.shadow.path))
        decision = decide_next(session, state) if state.end is None else decide_resumed(session, state)
        return Resumed(carry_on(session, place, state, decision, resumed=True), was_complete=False)
