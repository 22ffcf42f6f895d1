"""Who watches a run. An observer is told, and answers nothing."""

from __future__ import annotations

from typing import Protocol

from gitswarm.ledger.state import RunState
from gitswarm.records.event import LoggedEvent
from gitswarm.records.routing import Decision


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
