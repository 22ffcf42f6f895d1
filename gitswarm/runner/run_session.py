"""What a run needs while a process owns it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.spent import KnownUses
from gitswarm.records.guidance import Instructions, ScentTrail
from gitswarm.runner.run_context import RunContext
from gitswarm.runner.run_processes import process_mark
from gitswarm.safety.sandbox.backends import Sandbox

if TYPE_CHECKING:
    from gitswarm.evidence.suite_run import Missing, SuiteRun
    from gitswarm.git.locks import Locks
    from gitswarm.git.repository import Repository
    from gitswarm.ledger.journal import Inbox
    from gitswarm.ledger.store import RunStore
    from gitswarm.records.run_spec import RunSpec
    from gitswarm.records.worklists import Feedback
    from gitswarm.runner.run_engines import Engines
    from gitswarm.runner.run_processes import Requests
    from gitswarm.runner.stored_tests import StoredTests
    from gitswarm.safety.redact.redactor import Redactor
    from gitswarm.specs.flow import Flow
    from gitswarm.specs.fragments import Fragments, StepTemplate
    from gitswarm.specs.model_policy import ModelPolicy
    from gitswarm.specs.script import Script
    from gitswarm.specs.sidequest import Sidequest
    from gitswarm.specs.station import Station


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
    """One process's hold on one run. `known_uses`: what its budget was counted from. `reports`: results of
    the project's tests on other trees than the run's. `removing`: folders that go meanwhile."""

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
    known_uses: KnownUses = field(default_factory=KnownUses)
    reports: dict[tuple[str, str, str | None], SuiteRun | Missing] = field(default_factory=dict)
    removing: list[Thread] = field(default_factory=list)

    @property
    def mark(self) -> str:
        return process_mark(self.repository, self.layout)

    @property
    def scratch(self) -> Path:
        """The folder where engines keep what is theirs; it is empty while nobody executes the run."""
        return self.repository.swarm_dir / "sessions" / self.layout.run_id
