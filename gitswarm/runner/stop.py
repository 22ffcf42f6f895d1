"""Ends a run that nobody executes."""

from __future__ import annotations

from gitswarm.git.repository import Repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.runner.control import Request
from gitswarm.runner.held import hold_run
from gitswarm.runner.run import end_run, ending_at
from gitswarm.runner.session import Surroundings
from gitswarm.runner.undo.recovery import take_place


def end_unowned(repository: Repository, layout: RunLayout, around: Surroundings, request: Request) -> RunState:
    """A run that was cut off gets its `end` commit; one that has ended already stays as it is.

    :raises RunHeldError: somebody took it over in between.
    """
    with hold_run(repository, layout, around) as held:
        if held.state.end is not None:
            return held.state
        place = take_place(held.session, held.state)
        return end_run(held.session, place, held.state, ending_at(held.session, held.state, request))
