"""What a run needs while a process owns it, and who watches it. An observer is notified, and answers nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState
from gitswarm.records.event import LoggedEvent
from gitswarm.records.guidance import Instructions, ScentTrail
from gitswarm.records.routing import Decision
from gitswarm.records.safety import Scrubber
from gitswarm.runner.run_processes import process_mark
from gitswarm.safety.sandbox.backends import Sandbox

if TYPE_CHECKING:
    from gitswarm.engines.base import EngineAccess
    from gitswarm.evidence.suite_run import Missing, SuiteRun
    from gitswarm.git.locks import Locks
    from gitswarm.git.repository import Repository
    from gitswarm.ledger.journal import Inbox
    from gitswarm.ledger.store import RunStore
    from gitswarm.records.record import Clock
    from gitswarm.records.run_spec import RunSpec
    from gitswarm.records.worklists import Feedback
    from gitswarm.runner.hub.leased_run import LeasedRun
    from gitswarm.runner.run_engines import Engines
    from gitswarm.runner.run_processes import RequestKind, Requests
    from gitswarm.runner.stored import StoredTests
    from gitswarm.safety.redact.redactor import Redactor
    from gitswarm.specs.flow import Flow
    from gitswarm.specs.fragments import Fragments, StepTemplate
    from gitswarm.specs.model_policy import ModelPolicy
    from gitswarm.specs.script import Script
    from gitswarm.specs.sidequest import Sidequest
    from gitswarm.specs.station import Station
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


class FrozenSpecs(Struct, frozen=True):
    """The specs of the run as its first commit holds them."""

    flows: Mapping[str, Flow]
    stations: Mapping[str, Station]
    templates: Mapping[str, StepTemplate]
    fragments: Fragments
    policy: ModelPolicy
    sidequests: Mapping[str, Sidequest]
    script: Script | None
    instructions: Instructions = field(default_factory=Instructions)
    trail: ScentTrail = field(default_factory=ScentTrail)
    feedback: Feedback | None = None


class Session(Struct, frozen=True):
    """One process's hold on one run. `reports`: what the project's tests said on other trees than the run's.
    `removing`: folders that go meanwhile."""

    repository: Repository
    layout: RunLayout
    locks: Locks
    store: RunStore
    inbox: Inbox
    requests: Requests
    spec: RunSpec
    specs: FrozenSpecs
    engines: Engines
    context: RunContext
    redactor: Redactor
    stored_tests: StoredTests
    sandbox: Sandbox = field(default_factory=Sandbox)
    reports: dict[tuple[str, str, str | None], SuiteRun | Missing] = field(default_factory=dict)
    removing: list[Thread] = field(default_factory=list)

    @property
    def mark(self) -> str:
        return process_mark(self.repository, self.layout)

    @property
    def scratch(self) -> Path:
        """The folder where engines keep what is theirs; it is empty while nobody executes the run."""
        return self.repository.swarm_dir / "sessions" / self.layout.run_id


def push_to_hub(session: Session, state: RunState, *, executes: bool = True) -> None:
    """Pushes the run, where it is leased. `executes`: this process continues it.

    :raises FencedError: another clone has taken it over: what only this one has is kept, and it stands where the hub
        stands.
    """
    leased = session.context.leased
    if leased is not None:
        from gitswarm.runner.hub.leased_run import push_leased  # noqa: PLC0415 - few runs are shared

        push_leased(session, state, leased, executes=executes)


class Observer:
    """Is told what happens in a run; by itself it says nothing."""

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
    """Tells another observer what it is told, without secrets: what is shown may go to a log.

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
