"""What the process that executes a run was given, and who watches the run. An observer is notified, and answers
nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.ledger.state import RunState
from gitswarm.records.event import LoggedEvent
from gitswarm.records.routing import Decision
from gitswarm.records.safety import Scrubber

if TYPE_CHECKING:
    from gitswarm.engines.base import EngineAccess
    from gitswarm.records.record import Clock
    from gitswarm.runner.hub.leased_run import LeasedRun
    from gitswarm.runner.run_processes import RequestKind
    from gitswarm.specs.script import Script
    from gitswarm.worktree.shadow import Placement


class RunContext(Struct, frozen=True):
    """What the process was given: nothing below the command line reads it by itself."""

    env: Mapping[str, str]
    clock: Clock
    placement: Placement
    observer: Observer
    stop_requested: Callable[[], bool] = field(default=lambda: False)
    access: Mapping[str, EngineAccess] = field(default_factory=dict)
    until: str | None = None
    """`step` or `flow/step`: the run stops in good order behind it."""
    script: Script | None = None
    """Played in place of the one that the run froze, which has no secrets, not even such as may be committed."""
    leased: LeasedRun | None = None
    """Where each step is pushed to."""
    cut_off_means: RequestKind = "pause"
    """How a run ends that a signal ended, and nobody asked for it."""


class Observer:
    """Gets notified of what happens in a run. This one prints nothing."""

    def opened(self, state: RunState, worktree: str) -> None:
        """The run has its branch and worktree and is about to execute."""

    def event(self, event: LoggedEvent) -> None:
        """Something happened; the event is on disk already."""

    def committed(self, state: RunState) -> None:
        """A step was committed."""

    def decided(self, decision: Decision) -> None:
        """Where it goes next was decided."""

    def notice(self, text: str) -> None:
        """Something that a person should know, in one line."""


class DiscreetObserver(Observer):
    """Passes notifications on to another observer, without secrets: what is shown may go to a log.

    Events, and states that are read from commits, have none.
    """

    def __init__(self, observer: Observer, scrubber: Scrubber) -> None:
        self.observer = observer
        self.scrubber = scrubber

    def opened(self, state: RunState, worktree: str) -> None:
        self.observer.opened(state, worktree)

    def event(self, event: LoggedEvent) -> None:
        self.observer.event(event)

    def committed(self, state: RunState) -> None:
        self.observer.committed(state)

    def decided(self, decision: Decision) -> None:
        self.observer.decided(decision)

    def notice(self, text: str) -> None:
        self.observer.notice(self.scrubber.scrub(text))
