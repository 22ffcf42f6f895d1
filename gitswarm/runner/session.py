"""Everything that a run needs while a process owns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.ledger.copies import siblings
from gitswarm.ledger.layout import AGENT_DOMAIN, RunLayout, agent_identity
from gitswarm.records.instructions import Instructions
from gitswarm.records.wisdom import ScentTrail
from gitswarm.runner.run_processes import process_mark
from gitswarm.safety.environment import walled
from gitswarm.safety.guard import is_installed_hook
from gitswarm.safety.sandbox.trial import Sandbox
from gitswarm.worktree.repository_watch import IndexWatch, RepositoryWatch
from gitswarm.worktree.run_folder import RunFolder
from gitswarm.worktree.submodules import NestedFinder

if TYPE_CHECKING:
    from gitswarm.engines.base import EngineAccess
    from gitswarm.evidence.suite_run import Missing, SuiteRun
    from gitswarm.git.locks import Locks
    from gitswarm.git.repository import Repository
    from gitswarm.ledger.journal import Inbox
    from gitswarm.ledger.store import RunStore
    from gitswarm.records.base import Clock
    from gitswarm.records.review import Feedback
    from gitswarm.records.run_spec import RunSpec
    from gitswarm.runner.hub.leased_run import LeasedRun
    from gitswarm.runner.observer import Observer
    from gitswarm.runner.run_engines import Engines
    from gitswarm.runner.run_processes import Requests, Wish
    from gitswarm.runner.stored import StoredTests
    from gitswarm.safety.redact.redactor import Redactor
    from gitswarm.specs.flow import Flow
    from gitswarm.specs.fragments import Fragments, StepTemplate
    from gitswarm.specs.model_policy import ModelPolicy
    from gitswarm.specs.script import Script
    from gitswarm.specs.sidequest import Sidequest
    from gitswarm.specs.station import Station
    from gitswarm.worktree.shadow import Placement, Shadow


class Surroundings(Struct, frozen=True):
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
    cut_off_means: Wish = "pause"
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
    around: Surroundings
    redactor: Redactor
    stored_tests: StoredTests
    sandbox: Sandbox = field(default_factory=Sandbox)
    reports: dict[str, SuiteRun | Missing] = field(default_factory=dict)
    removing: list[Thread] = field(default_factory=list)

    @property
    def mark(self) -> str:
        return process_mark(self.repository, self.layout)

    @property
    def scratch(self) -> Path:
        """The folder where engines keep what is theirs; it is empty while nobody executes the run."""
        return self.repository.swarm_dir / "sessions" / self.layout.run_id


class Workplace(Struct, frozen=True):
    """The run's worktree and what watches over it while this process lives."""

    shadow: Shadow
    folder: RunFolder
    nested: NestedFinder
    index: IndexWatch
    watch: RepositoryWatch
    interrupted: Mapping[tuple[str, str], int]
    """Highest iteration per (flow, step) of executions that need not be on the branch."""

    @classmethod
    def of(cls, session: Session, shadow: Shadow) -> Workplace:
        folder = RunFolder(shadow.path, session.layout.base, session.repository.objects)
        # Filters run on what agents wrote: with what an agent could do itself.
        shadow = replace(shadow, git=replace(shadow.git, env=_walled_git(shadow.git.env)))
        interrupted = off_branch(session)
        watch = _watch(session, shadow)
        return cls(shadow, folder, NestedFinder(shadow.path), IndexWatch(shadow), watch, interrupted)

    def leave(self) -> None:
        """From here on whatever changes is the step's."""
        self.index.leave()
        self.watch.leave()


def _walled_git(env: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in env.items() if name.startswith("GIT_")}
    return {**walled(env, agent_identity("git")), **ours}


def _watch(session: Session, shadow: Shadow) -> RepositoryWatch:
    home, repository = session.around.env.get("HOME", ""), session.repository
    config_home = session.around.env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    outside = (Path(home, ".gitconfig"), Path(config_home, "git", "config")) if home else ()
    return RepositoryWatch(shadow, repository.common_dir, repository.refs, outside, is_installed_hook, AGENT_DOMAIN)


def off_branch(session: Session) -> dict[tuple[str, str], int]:
    """Highest iteration per (flow, step) of executions that need not be on the branch: interrupted ones, and those
    beside others."""
    highest: dict[tuple[str, str], int] = {}
    found = [
        (kept["Swarm-Flow"], kept["Swarm-Step"], int(kept["Swarm-Iteration"]))
        for _name, kept in session.store.kept_work()
        if "Swarm-Iteration" in kept
    ]
    records = siblings(session.repository, session.layout)
    found += [(record.flow, record.step, record.execution.iteration) for record in records]
    for flow, step, iteration in found:
        highest[flow, step] = max(highest.get((flow, step), 0), iteration)
    return highest
