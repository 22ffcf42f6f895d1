"""Creates a run, or plans one that forks from another: specs and instructions frozen, first commit, worktree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from posixpath import dirname, join, normpath

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.errors import SwarmError, UnsupportedRepositoryError, UsageError
from gitswarm.git.locks import Locks
from gitswarm.git.object_reader import DIRECTORY, GITLINK
from gitswarm.git.objects import Objects
from gitswarm.git.repository import Repository, refuse_unready
from gitswarm.ledger.finding import newest_run
from gitswarm.ledger.journal import Inbox
from gitswarm.ledger.layout import STORED_AS_THEY_ARE, RunLayout
from gitswarm.ledger.message import FORMAT, CommitMessage, Kind
from gitswarm.ledger.reading import decisions, run_spec
from gitswarm.ledger.spent import changed_limits
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import RunStore
from gitswarm.records.event import Event, EventKind, LoggedEvent, numbered
from gitswarm.records.execution import FORK_OF, new_run_id
from gitswarm.records.globs import gitignore
from gitswarm.records.guidance import Instruction, Instructions
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import timestamp
from gitswarm.records.run_spec import BudgetRules, FrozenSettings, RunSpec
from gitswarm.records.text import shorten
from gitswarm.runner.containing import mention_sandbox, sandbox_for
from gitswarm.runner.deciding.decision_facts import mention_navigator
from gitswarm.runner.deciding.route import decide_next, enter_at
from gitswarm.runner.run import carry_on, push_to_hub
from gitswarm.runner.run_context import DiscreetObserver, RunContext
from gitswarm.runner.run_engines import Engines, build_engines, engines_of, refuse_impossible
from gitswarm.runner.run_processes import MARKER, Requests, process_mark
from gitswarm.runner.run_session import FrozenSpecs, Session
from gitswarm.runner.run_worktree import RunWorktree, prepare_worktree
from gitswarm.runner.specs import frozen_files, read_frozen
from gitswarm.runner.stored import entry_at
from gitswarm.runner.stored_tests import StoredTests
from gitswarm.safety.redact.redactor import Redactor


class NewRun(Struct, frozen=True):
    """A run that was asked for and checked, but of which nothing exists yet. `format`: by which rules it is
    judged."""

    spec: RunSpec
    specs: FrozenSpecs
    first_step: str | None = None
    forked_at: StepRecord | None = None
    format: int = FORMAT


def open_session(repository: Repository, new: NewRun, context: RunContext) -> Session:
    layout = RunLayout(new.spec.run_id)
    repository.mark_processes(MARKER, process_mark(repository, layout))
    redactor = Redactor(new.spec.settings.secrets, context.env, [access.env for access in context.access.values()])
    return Session(
        repository=repository,
        layout=layout,
        locks=Locks(repository.common_dir),
        store=RunStore(repository, layout, context.clock, redactor),
        inbox=Inbox(repository.swarm_dir, layout.run_id),
        requests=Requests(repository, layout),
        spec=new.spec,
        specs=new.specs,
        engines=_engines(new, context),
        context=replace(context, observer=DiscreetObserver(context.observer, redactor)),
        redactor=redactor,
        stored_tests=StoredTests(repository.objects),
        sandbox=sandbox_for(new.spec.settings.policy, context.env),
    )


def start_run(
    repository: Repository, new: NewRun, context: RunContext, warnings: Sequence[str] | None = None
) -> RunState:
    """Creates the run and executes it until it ends.

    :param warnings: as in `create_run`.
    :raises SwarmError: it could not be created; nothing of it is left but, at worst, unreachable objects.
    """
    with create_run(repository, new, context, warnings) as (session, state):
        shadow = prepare_worktree(session)
        mention_sandbox(session)
        mention_navigator(session)
        session.context.observer.opened(state, str(shadow.path))
        worktree = RunWorktree.of(session, shadow)
        after = carry_on(session, worktree, state, decide_next(session, state))
        push_to_hub(session, after, executes=False)
        return after


def refuse_run(repository: Repository, new: NewRun, context: RunContext) -> list[str]:
    """What a person should know before the run begins.

    :raises SwarmError: what stands in the way of this run; nothing exists yet.
    """
    settings, specs = new.spec.settings, new.specs
    choices = engines_of(settings, specs.flows.values(), specs.sidequests.values())
    warnings = refuse_impossible(settings, choices, _engines(new, context), context)
    if new.spec.settings.policy.sandbox == "require":
        sandbox_for(new.spec.settings.policy, context.env)
    refuse_unready(repository, new.spec.base)
    _refuse_swarm_file(repository, new.spec.base)
    return warnings


def _engines(new: NewRun, context: RunContext) -> Engines:
    return build_engines(new.spec.settings, new.specs.policy, new.specs.script, context)


@contextmanager
def create_run(
    repository: Repository, new: NewRun, context: RunContext, warnings: Sequence[str] | None = None
) -> Iterator[tuple[Session, RunState]]:
    """The first commit, the branch, and the decision what comes first: from here on `resume` can take over.

    The run is owned by this process until the block ends.

    :param warnings: what `refuse_run` returned, which starts programs; None: it was not asked yet.
    :raises SwarmError: it could not be created.
    """
    session = open_session(repository, new, context)
    for line in refuse_run(repository, new, context) if warnings is None else warnings:
        context.observer.notice(line)
    with session.locks.own_run(session.layout.run_id, timestamp(context.clock())), repository.packed():
        state, events = _create(session, new)
        for event in events:
            session.context.observer.event(event)
        if new.first_step is not None:
            enter_at(session, state, new.first_step)
        else:
            decide_next(session, state)
        yield session, state


def _create(session: Session, new: NewRun) -> tuple[RunState, list[LoggedEvent]]:
    spec, layout, forked_at = session.spec, session.layout, new.forked_at
    objects = session.repository.objects
    events = _first_events(session)
    files = {
        layout.attributes: STORED_AS_THEY_ARE,
        layout.spec: spec.to_json(),
        **frozen_files(layout, session.specs),
        layout.run_events: b"".join(event.to_line() for event in events),
    }
    flows = ", ".join(spec.flows)
    task = f": {shorten(session.redactor.scrub(spec.task), 60)}" if spec.task else ""
    trailers = {"Swarm-Kind": Kind.RUN, "Swarm-Run": layout.run_id, "Swarm-Seq": str(len(events))}
    trailers["Swarm-Format"] = str(new.format)
    subject = f"run {flows}{task}"
    if forked_at is not None:
        origin = forked_at.execution.run_id
        trailers["Swarm-Forked-From"] = f"{origin} {forked_at.commit}"
        subject = f"run {flows}, forked after {forked_at.execution.name} of {origin}"
    parent = forked_at.commit if forked_at is not None else spec.base
    message = CommitMessage(subject, spec.task, trailers)
    session.store.create(parent, session.store.stage(message, objects.commit(parent).tree, files))
    return replay(session.repository, layout), events


def _first_events(session: Session) -> list[LoggedEvent]:
    spec = session.spec
    engine = spec.settings.default_engine
    created: dict[str, JsonValue] = {"flows": list(spec.flows), "backend": engine.engine}
    created |= {"initiator": spec.initiator, "stepwise": True}
    started: dict[str, JsonValue] = {"mode": "stepwise", "routing_enabled": True}
    started |= {"routing_mode": spec.routing_mode, "engine_mode": engine.mode}
    events = (Event(EventKind.RUN_CREATED, created), Event(EventKind.RUN_STARTED, started))
    return numbered(spec.run_id, spec.created_at, events)


def _refuse_swarm_file(repository: Repository, base: str) -> None:
    tree = repository.objects.commit(base).tree
    for path in (".swarm", ".swarm/runs"):
        if repository.objects.entry(tree, path) is not None and not repository.objects.is_folder(tree, path):
            raise UnsupportedRepositoryError(
                f"{base[:12]} has a file named {path}, where a run keeps its evidence",
                hint=f"git mv {path} somewhere-else && git commit -m 'make room for git-swarm'",
            )


_LINK = 0o120000
_DEPTH = 5
"""Of links and of imports: what Claude Code follows too."""

_IMPORT = re.compile(r"^[ \t]*(?:[-*][ \t]+)?@(?P<path>[^\s@]+)[ \t]*$", re.MULTILINE)
"""A line that is nothing but `@path`."""

_GLOB = re.compile(r"[*?\[]")


def read_instructions(repository: Repository, tree: str, patterns: Sequence[str]) -> Instructions:
    """
    :param patterns: paths and globs from the top (`docs/*.md`, `**/AGENTS.md`), the first one first.
    """
    found = _Collected(repository.objects, tree)
    for pattern in patterns:
        for path in _matching(repository, tree, pattern) if _GLOB.search(pattern) else (normpath(pattern),):
            found.add(path)
    return Instructions(files=tuple(found.by_blob.values()))


def _matching(repository: Repository, tree: str, pattern: str) -> list[str]:
    spec = gitignore(pattern if pattern.startswith("**/") else f"/{pattern.lstrip('/')}")
    return sorted(path for path, _blob in repository.objects.files(tree) if spec.match_file(path))


class _Collected(Struct):
    """Files in the order in which they were found; each content once."""

    objects: Objects
    tree: str
    by_blob: dict[str, Instruction] = field(default_factory=dict)

    def add(self, path: str, depth: int = 0) -> None:
        """The file at `path`, then what it imports; nothing where there is no file."""
        resolved = self._resolved(path)
        if resolved is None:
            return
        blob = resolved[1]
        known = self.by_blob.get(blob)
        if known is not None:
            if path != known.path and path not in known.also:
                self.by_blob[blob] = replace(known, also=(*known.also, path))
            return
        content = self.objects.file(self.tree, resolved[0])
        text = (content or b"").decode(errors="replace").replace("\0", "").strip()
        imported = list(_imports(resolved[0], text)) if depth < _DEPTH else []
        if _IMPORT.sub("", text).strip():
            self.by_blob[blob] = Instruction(path=path, blob=blob, text=text)
        for name in imported:
            self.add(name, depth + 1)

    def _resolved(self, path: str) -> tuple[str, str] | None:
        """Path and blob of the file that `path` names, links followed; None: there is none in the tree."""
        for _link in range(_DEPTH):
            is_outside = path.startswith(("/", "../")) or path in (".", "..")
            entry = None if is_outside else entry_at(self.objects, self.tree, path)
            if entry is None or entry[1] in (DIRECTORY, GITLINK):
                return None
            if entry[1] != _LINK:
                return path, entry[0]
            target = (self.objects.file(self.tree, path) or b"").decode(errors="replace")
            path = normpath(join(dirname(path), target))
        return None


def _imports(path: str, text: str) -> Iterator[str]:
    for found in _IMPORT.finditer(text):
        if not found["path"].startswith("~"):
            yield normpath(join(dirname(path), found["path"]))


class ForkOptions(Struct, frozen=True):
    """What is different in the fork. `engines`: settings that say which; None: as in the run it comes from; `entropy`
    for its id."""

    engines: FrozenSettings | None
    moment: datetime
    entropy: bytes


def plan_fork(repository: Repository, state: RunState, at: StepRecord | None, options: ForkOptions) -> NewRun:
    """The fork that would be made: same flows, settings and script, another id and, if asked, another engine.

    :param at: the last step that it shares; None: it shares none, but the base.
    """
    if at is not None and at.result == "failed":
        raise SwarmError(
            f"{at.execution.name} failed: there is nothing to build on",
            hint=f"fork at the step before it: git swarm log {state.layout.run_id}",
        )
    spec = run_spec(repository, state)
    settings, others = spec.settings, options.engines
    if others is not None:
        is_other = others.default_engine.engine != settings.default_engine.engine
        settings = replace(
            settings,
            default_engine=others.default_engine,
            flow_engines={},
            step_engines={},
            engines={**settings.engines, **others.engines},
            model=None if is_other else settings.model,
        )
    specs = read_frozen(repository, state.layout, repository.objects.commit(state.run_commit).tree)
    if others is not None and not engines_of(settings, specs.flows.values(), specs.sidequests.values()):
        raise UsageError(
            f"no step of {state.layout.run_id} has an agent: another engine changes nothing",
            hint=f"git swarm fork {at.step if at else 'STEP'} --run {state.layout.run_id}",
        )
    limits = settings.budget.limits.over(changed_limits(repository, state.layout))
    settings = replace(settings, budget=BudgetRules.of(limits))
    new = replace(
        spec,
        run_id=new_run_id(options.moment, options.entropy, newest_run(repository)),
        created_at=timestamp(options.moment),
        settings=settings,
        initiator=f"{FORK_OF}{state.layout.run_id}",
    )
    first = _first_step(repository, state, specs) if at is None else None
    return NewRun(new, specs, first_step=first, forked_at=at, format=state.format)


def _first_step(repository: Repository, state: RunState, specs: FrozenSpecs) -> str | None:
    """The step that a person had the first flow begin at; None: the flow's first one."""
    taken = decisions(repository, state.layout, state.run_commit)
    if state.shared or not taken:
        return None
    flow, first = specs.flows[taken[0].next_flow], taken[0].to_step or ""
    return first if flow.has_step(first) and first != flow.steps[0].id else None
