"""Creates a run: specs frozen, first commit, branch, worktree; then hands over to the loop."""

from __future__ import annotations

from dataclasses import dataclass

from gitswarm.errors import UnsupportedRepositoryError
from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository, refuse_unready
from gitswarm.ledger.inbox import Inbox
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, Message
from gitswarm.ledger.state import RunState
from gitswarm.ledger.store import Draft, RunStore
from gitswarm.records.base import shorten, timestamp
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.run_spec import RunSpec
from gitswarm.runner.engines import build_engines, refuse_impossible
from gitswarm.runner.route import decide_next
from gitswarm.runner.run import carry_on
from gitswarm.runner.session import FrozenSpecs, Session, Surroundings, Workplace
from gitswarm.runner.specs import frozen_files
from gitswarm.runner.workplace import prepare_worktree


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that was asked for and checked, but of which nothing exists yet."""

    spec: RunSpec
    specs: FrozenSpecs


def open_session(repository: Repository, new: NewRun, around: Surroundings) -> Session:
    layout = RunLayout(new.spec.run_id)
    return Session(
        repository=repository,
        layout=layout,
        locks=Locks(repository.common_dir),
        store=RunStore(repository, layout, around.clock),
        inbox=Inbox(repository.swarm_dir, layout.run_id),
        spec=new.spec,
        specs=new.specs,
        engines=build_engines(new.specs.script, around.clock),
        around=around,
    )


def start_run(repository: Repository, new: NewRun, around: Surroundings) -> RunState:
    """Creates the run and executes it until it ends.

    :raises SwarmError: it could not be created; nothing of it is left but, at worst, unreachable objects.
    """
    session = open_session(repository, new, around)
    refuse_impossible(new.spec.settings, session.engines)
    refuse_unready(repository)
    _refuse_swarm_file(repository, new.spec.base)
    with session.locks.own_run(session.layout.run_id, timestamp(around.clock())):
        state, events = _create(session)
        for event in events:
            around.observer.event(event)
        shadow = prepare_worktree(session)
        around.observer.opened(state, str(shadow.path))
        place = Workplace.of(session, shadow)
        return carry_on(session, place, state, decide_next(session, state), resumed=False)


def _create(session: Session) -> tuple[RunState, list[LoggedEvent]]:
    spec, layout = session.spec, session.layout
    objects = session.repository.objects
    events = _first_events(session)
    files = {
        layout.spec: spec.to_json(),
        **frozen_files(layout, session.specs),
        layout.run_events: b"".join(event.to_line() for event in events),
    }
    flows = ", ".join(spec.flows)
    task = f": {shorten(spec.task, 60)}" if spec.task else ""
    draft = Draft(
        message=Message(
            f"run {flows}{task}",
            spec.task,
            {"Swarm-Kind": Kind.RUN, "Swarm-Run": layout.run_id, "Swarm-Seq": str(len(events))},
        ),
        author="kernel",
        code_tree=objects.commit(spec.base).tree,
        files=session.store.stored(files),
        events_path=layout.run_events,
    )
    return session.store.create(spec.base, draft), events


def _first_events(session: Session) -> list[LoggedEvent]:
    spec = session.spec
    engine = spec.settings.default_engine
    created = Event(
        EventKind.RUN_CREATED,
        {
            "flows": list(spec.flows),
            "backend": engine.engine,
            "initiator": spec.initiator,
            "stepwise": True,
        },
    )
    started = Event(
        EventKind.RUN_STARTED,
        {
            "mode": "stepwise",
            "routing_enabled": True,
            "routing_mode": spec.routing_mode,
            "engine_mode": engine.mode,
        },
    )
    return [
        LoggedEvent(run_id=spec.run_id, seq=seq, ts=spec.created_at, kind=event.kind, payload=dict(event.payload))
        for seq, event in enumerate((created, started), start=1)
    ]


def _refuse_swarm_file(repository: Repository, base: str) -> None:
    tree = repository.objects.commit(base).tree
    for path in (".swarm", ".swarm/runs"):
        if repository.objects.file(tree, path) is not None:
            raise UnsupportedRepositoryError(
                f"{base[:12]} has a file named {path}, where a run keeps its evidence",
                hint=f"git mv {path} somewhere-else && git commit -m 'make room for git-swarm'",
            )
