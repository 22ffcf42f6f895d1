"""Who watches a run. An observer is told, and answers nothing."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from gitswarm.ledger.state import RunState
from gitswarm.records.event import LoggedEvent
from gitswarm.records.routing import Decision
from gitswarm.records.secrets import Scrubber


class Observer(Protocol):
    def opened(self, state: RunState, worktree: str) -> None:
        """The run has its branch and worktree and is about to execute."""

    def event(self, event: LoggedEvent) -> None:
        """Something happened; the event is on disk already."""

    def committed(self, state: RunState) -> None:
        """A step was committed."""

    def decided(self, decision: Decision) -> None: ...

    def notice(self, text: str) -> None:
        """Something that a person should know, in one line."""


class DiscreetObserver(Struct, frozen=True):
    """Tells another observer what it is told, without secrets: what is shown may go to a log.

    Events, and states that are read from commits, have none.
    """

    told: Observer
    scrubber: Scrubber

    def opened(self, state: RunState, worktree: str) -> None:
        self.told.opened(state, worktree)

    def event(self, event: LoggedEvent) -> None:
        self.told.event(event)

    def committed(self, state: RunState) -> None:
        self.told.committed(state)

    def decided(self, decision: Decision) -> None:
        self.told.decided(decision)

    def notice(self, text: str) -> None:
        self.told.notice(self.scrubber.scrub(text))


class SilentObserver:
    """Watches and says nothing."""

    def opened(self, state: RunState, worktree: str) -> None:
        pass

    def event(self, event: LoggedEvent) -> None:
        pass

    def committed(self, state: RunState) -> None:
        pass

    def decided(self, decision: Decision) -> None:
        pass

    def notice(self, text: str) -> None:
        pass
