"""A recorded run played once more, step by step, and compared with what it was."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.names import DEFAULT, STUB
from gitswarm.engines.registry import adapter_of
from gitswarm.engines.stub import put_files
from gitswarm.errors import SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import code_tree
from gitswarm.ledger.journal import read_lines
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.next_command import is_played
from gitswarm.ledger.reading import routing_entries, run_spec
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.evidence import Evidence
from gitswarm.records.execution import REPLAY_OF, Result
from gitswarm.records.routing import Action, Decision, Superseded
from gitswarm.records.run_spec import EngineChoice, RunSpec
from gitswarm.runner.begin import ForkOptions, NewRun, plan_fork, start_run
from gitswarm.runner.human_steps import ADOPT, ResumeOptions
from gitswarm.runner.recorded_script import left_files, recorded_script
from gitswarm.runner.resuming import resume_run
from gitswarm.runner.run_context import Observer, RunContext
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.specs.flow import Operation
from gitswarm.specs.sidequest import NODE_PREFIX
from gitswarm.worktree.shadow import find_shadow

_WITHIN: frozenset[Operation] = frozenset({"verify", "scan_secrets", "record_not_deployed"})
_ON_A_FORGE: frozenset[Operation] = frozenset({"publish", "harvest", "watch_ci"})
_SKIPPED = "skipped by hand: "


class Recording(Struct, frozen=True):
    """A run that is to be played. `stops`: after how many of its own steps it had ended, each time, the last one
    included; `until`: how many are played; `ends_at`: why no more are, empty: all are. `left_out`: what no script can
    say."""

    state: RunState
    spec: RunSpec
    new: NewRun
    stops: frozenset[int]
    until: int
    ends_at: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        return self.state.own_steps[: self.until]


class StepFacts(Struct, frozen=True):
    """What of a step is compared. `route`: the decision after it."""

    step: str
    tree: str
    status: str
    route: str


class ComparedStep(Struct, frozen=True):
    """The n-th step of both; None: there is none."""

    n: int
    recorded: StepFacts | None
    replayed: StepFacts | None

    @property
    def equal(self) -> bool:
        return self.recorded == self.replayed


def plan_replay(repository: Repository, state: RunState, moment: datetime, entropy: bytes) -> Recording:
    """The same flows, base and settings, with the stub in the place of every engine.

    :raises SwarmError: nothing of the run can be played.
    """
    run, spec = state.layout.run_id, run_spec(repository, state)
    if any(record.rebased_from for record in state.steps):
        raise SwarmError(
            f"{run} was moved onto another base by a reset: its steps no longer follow on each other",
            hint=f"git swarm log {run}",
        )
    at = state.steps[state.shared - 1] if state.shared else None
    fork, recorded = (
        plan_fork(repository, state, at, ForkOptions(None, moment, entropy)),
        recorded_script(repository, state),
    )
    settings = spec.settings
    stubs = {
        "default_engine": _stub_of(settings.default_engine),
        "flow_engines": {name: _stub_of(choice) for name, choice in settings.flow_engines.items()},
        "step_engines": {name: _stub_of(choice) for name, choice in settings.step_engines.items()},
    }
    reach = {  # also of who resumes it behind the last step that is played
        "deploy": replace(settings.deploy, target=None),
        "review": replace(settings.review, forge="none"),
    }
    new = replace(
        fork.spec,
        settings=replace(fork.spec.settings, **stubs, **reach),
        base_ref=None,
        scripted=True,
        initiator=f"{REPLAY_OF}{run}",
    )
    outside = [_outside(spec, fork.specs, state, record) for record in state.own_steps]
    until = next((number for number, why in enumerate(outside) if why), len(outside))
    if not until:
        raise SwarmError(f"{run} has no step that can be played", hint=f"git swarm log {run}")
    return Recording(
        state=state,
        spec=spec,
        new=replace(fork, spec=new, specs=replace(fork.specs, script=recorded.script)),
        stops=frozenset({*_stops(repository, state), until}),
        until=until,
        ends_at=outside[until] if until < len(outside) else "",
        left_out=recorded.left_out,
    )


def _stub_of(choice: EngineChoice) -> EngineChoice:
    """The same engine without its model; of one that is not here, the default one."""
    try:
        adapter = adapter_of(choice.engine)
    except SwarmError:
        adapter = adapter_of(DEFAULT)
    return EngineChoice(engine=adapter.engine_id, mode=STUB, provider=choice.provider, model=adapter.stub_model)


def _outside(spec: RunSpec, specs: FrozenSpecs, state: RunState, record: StepRecord) -> str:
    """Why a step is not played: it acts on what is not the run's, or a person typed it. Empty: it is."""
    name = record.execution.name
    if record.by_command:
        return "" if record.step == "accept" else f"{name} was typed by hand"
    if record.engine != KERNEL or record.by_human:
        return ""
    operation = specs.flows[record.flow].step(record.step).operation
    if operation in _WITHIN or (operation in _ON_A_FORGE and spec.settings.review.forge == "none"):
        return ""
    if operation == "approve" and (spec.scripted or is_played(state)):
        return ""
    return f"{name} ({operation}) acts outside of the run"


def _stops(repository: Repository, state: RunState) -> set[int]:
    """After how many own steps the run had ended, or a person did the next one."""
    found = {number for number, record in enumerate(state.own_steps) if record.by_human or record.by_command}
    left, cursor = list(state.own_steps), state.tip
    while cursor != state.run_commit:
        commit = repository.objects.commit(cursor)
        message = parse_message(commit.message)
        if left and left[-1].commit == cursor:
            left.pop()
        elif message is not None and message.trailers.get("Swarm-Kind") == Kind.END:
            found.add(len(left))
        cursor = commit.parents[0]
    return found


class _Follower(Observer):
    """Tells another observer everything, and knows where the replay stands."""

    def __init__(self, observer: Observer, recording: Recording) -> None:
        self._observer = observer
        self._recording = recording
        self._next: Decision | None = None
        self.done: tuple[StepRecord, ...] = ()
        self.passed: set[int] = set()

    def opened(self, state: RunState, worktree: str) -> None:
        self.done = state.own_steps
        self._observer.opened(state, worktree)

    def event(self, event: LoggedEvent) -> None:
        self._observer.event(event)

    def committed(self, state: RunState) -> None:
        self.done = state.own_steps
        self._observer.committed(state)

    def decided(self, decision: Decision) -> None:
        self._next = decision
        self._observer.decided(decision)

    def notice(self, text: str) -> None:
        self._observer.notice(text)

    @property
    def is_at_end(self) -> bool:
        """Whether the recorded run had ended here, or went another way: no step is executed that it does not have."""
        count = len(self.done)
        if count in self._recording.stops - self.passed or count >= self._recording.until or self._next is None:
            return True
        following, taken = self._recording.steps[count], self._next
        targets = taken.fork.pending if taken.fork is not None else (taken.to_step,)
        return taken.next_flow != following.flow or following.step not in targets


def play(repository: Repository, recording: Recording, context: RunContext) -> RunState:
    """Executes the new run as far as the recorded one goes, or up to the first step that would be another one; a
    person's part in it is repeated where it was."""
    layout, follower = RunLayout(recording.new.spec.run_id), _Follower(context.observer, recording)

    def is_enough() -> bool:
        return context.stop_requested() or follower.is_at_end

    watched = replace(context, observer=follower, stop_requested=is_enough, script=recording.new.specs.script)
    state = start_run(repository, recording.new, watched)
    while not context.stop_requested():
        done = len(state.own_steps)
        if done >= recording.until or done not in recording.stops:
            break
        follower.passed.add(done)
        try:
            state = resume_run(repository, layout, watched, _persons_part(repository, recording, layout, done)).state
        except SwarmError as error:
            context.observer.notice(f"not continued after step {done}: {error.message}")
            break
        if len(state.own_steps) == done:
            break
    return state


def _persons_part(repository: Repository, recording: Recording, layout: RunLayout, done: int) -> ResumeOptions:
    """What a person added when the recorded run was resumed after so many steps."""
    following, objects = recording.steps[done], repository.objects
    if following.by_command:
        evidence = Evidence.from_json(objects.file(following.tree, following.execution.evidence) or b"")
        return ResumeOptions(accept={each.id: each.why for each in evidence.accepted})
    if following.by_human and following.result is Result.SKIPPED:
        why = following.summary.removeprefix(_SKIPPED) if following.summary.startswith(_SKIPPED) else ""
        return ResumeOptions(why, skip=following.execution.name)
    if following.step == ADOPT and following.by_human:
        shadow = find_shadow(repository, layout.branch)
        if shadow is not None:
            put_files(shadow.path, dict(left_files(repository, following, [])))
        return ResumeOptions(adopt=True)
    events = read_lines(objects.file(following.tree, following.execution.events) or b"")
    answers = (str(event.payload.get("answer") or "") for event in events if event.kind == EventKind.RUN_RESUMED)
    waited = _decided(repository, recording.state.layout, recording.steps[done - 1]) if done else None
    proposed = waited is not None and waited.proposal is not None and waited.decision is Action.PAUSE
    return ResumeOptions(next(answers, ""), approve=proposed and following.step.startswith(NODE_PREFIX))


def compare_steps(repository: Repository, recording: Recording, played: RunState) -> list[ComparedStep]:
    recorded = [_facts(repository, recording.state, record) for record in recording.steps]
    replayed = [_facts(repository, played, record) for record in played.own_steps]
    if recorded and not recorded[-1].route:  # it was cut off before it decided
        last = len(recorded) - 1
        replayed[last:] = [replace(each, route="") for each in replayed[last:]]
    return [
        ComparedStep(number, one, other)
        for number, (one, other) in enumerate(zip_longest(recorded, replayed), start=recording.state.shared + 1)
    ]


def _facts(repository: Repository, state: RunState, record: StepRecord) -> StepFacts:
    status = record.status.value if record.result is Result.SUCCEEDED else record.result.value
    route = _decided(repository, state.layout, record)
    return StepFacts(
        step=record.execution.name,
        tree=code_tree(repository, state, record.tree),
        status=status,
        route=route.candidate_id if route is not None else "",
    )


def _decided(repository: Repository, layout: RunLayout, record: StepRecord) -> Decision | None:
    """What the run itself decided after the step: not what a person, a budget or a rollback made of that later."""
    found = None
    for entry in routing_entries(repository, layout, record.commit):
        if isinstance(entry, Superseded):
            found = None
        elif found is None:
            found = entry
    return found
