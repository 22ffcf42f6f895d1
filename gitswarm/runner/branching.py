"""Executes a fork: its targets in parallel on one commit, then replayed on the branch one after the other.

Threads only run engines: their events are written by the caller's thread, which is the only one that touches git and
the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.engines.base import StepEndedError, StepResult
from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.process_table import end_processes_with, ending_strays
from gitswarm.records.budget import BudgetLimits
from gitswarm.records.event import Event
from gitswarm.records.record import Clock
from gitswarm.records.routing import Decision, ForkState
from gitswarm.routing.choices import ForkBranch
from gitswarm.routing.forks import current_branches, fork_of, is_decided, join_at
from gitswarm.runner.deciding.preflight import allowance
from gitswarm.runner.onto_branch import bring_onto_branch, finished, fork_commit, state_at
from gitswarm.runner.run_engines import Engines
from gitswarm.runner.run_processes import SIBLING_MARKER
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import RunWorktree, off_branch, prepare_side
from gitswarm.runner.step.examine import examine, examine_shared
from gitswarm.runner.step.execute import ask, close_step, open_step, stage_commit
from gitswarm.runner.step.plan import OpenStep, Parallel, Resumption, StepOutcome, plan_step
from gitswarm.runner.stored import branch_of, newest_at, step_at
from gitswarm.runner.undo.recovery import keep_ended
from gitswarm.specs.flow import Flow
from gitswarm.specs.station import writes_code
from gitswarm.worktree.extra_worktrees import StepWorktree, remove_step_worktree

_ENDING_S = 20.0
_POLL_S = 0.05


class ReturnedStep(Struct, frozen=True):
    """A step whose engine has returned."""

    step: OpenStep
    result: StepResult


class _Emitted(Struct, frozen=True):
    """An event that waits to be written."""

    step: OpenStep
    event: Event
    written: threading.Event = field(default_factory=threading.Event)


class _Broken(Struct, frozen=True):
    """Our own fault, to be raised where it can be dealt with."""

    error: BaseException


class ParallelSteps:
    """Steps in execution. Iterating gives each as soon as it is done; the caller may end the others meanwhile."""

    def __init__(self, steps: Sequence[OpenStep], engines: Engines, clock: Clock) -> None:
        self._clock = clock
        self._engines = engines
        self._queue: SimpleQueue[_Emitted | ReturnedStep | _Broken] = SimpleQueue()
        self._threads = {
            step.name: threading.Thread(target=self._work, args=(step,), name=step.name, daemon=True)
            for step in steps
        }
        self.running = {step.name: step for step in steps}

    def __iter__(self) -> Iterator[ReturnedStep]:
        for thread in self._threads.values():
            thread.start()
        while self.running:
            try:
                # With a timeout: a signal that comes just before Python waits here is handled only when it wakes up.
                item = self._queue.get(timeout=_POLL_S)
            except Empty:
                continue
            if isinstance(item, _Emitted):
                self._write(item)
            elif isinstance(item, _Broken):
                raise item.error
            elif self.running.pop(item.step.name, None) is not None:
                yield item

    def end(self) -> Collection[OpenStep]:
        """Ends all that are still executed: their waiting, their processes, their threads. From here on none of them
        touches anything."""
        ended = list(self.running.values())
        self.running = {}
        for step in ended:
            step.request.ended.set()
        deadline = time.monotonic() + _ENDING_S
        left = ended
        while left and time.monotonic() < deadline:
            left = [step for step in left if not self._joined(step)]
            for step in left:
                end_processes_with(SIBLING_MARKER, step.plan.mark)
        return ended

    def _joined(self, step: OpenStep) -> bool:
        thread = self._threads[step.name]
        if thread.ident is not None:
            thread.join(_POLL_S)
        return not thread.is_alive()

    def _write(self, emitted: _Emitted) -> None:
        if not emitted.step.request.ended.is_set():
            emitted.step.journal.append(emitted.event)
        emitted.written.set()

    def _work(self, step: OpenStep) -> None:
        ended = step.request.ended

        def emit(event: Event) -> None:
            emitted = _Emitted(step, event)
            if not ended.is_set():
                self._queue.put(emitted)
                while not (emitted.written.wait(_POLL_S) or ended.is_set()):  # who should write it may be interrupted
                    pass
            if ended.is_set():
                raise StepEndedError

        try:
            result = ask(self._engines[step.plan.choice.key], step.request, emit, self._clock)
            self._queue.put(ReturnedStep(step, result))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._queue.put(_Broken(error))


class Branched(Struct, frozen=True):
    """`executed`: the targets that were executed now; others had been before."""

    state: RunState
    executed: tuple[str, ...]


class _Forking(Struct, frozen=True):
    """What all targets have in common. `start`: the run at the fork."""

    session: Session
    worktree: RunWorktree
    state: RunState
    decision: Decision
    fork: ForkState
    start: RunState
    resumption: Resumption | None

    @property
    def flow(self) -> Flow:
        return self.session.specs.flows[self.decision.next_flow]

    @property
    def is_fresh(self) -> bool:
        """Whether the run's own worktree is as it was at the fork."""
        return len(self.start.steps) == len(self.state.steps)


def execute_fork(
    session: Session, worktree: RunWorktree, state: RunState, decision: Decision, resumption: Resumption | None
) -> Branched:
    """Executes the pending targets that have no commit yet, and replays the first one that has one on the branch.

    The next decision is about the others, so a process that takes over finds each boundary as it was.
    """
    fork = decision.fork
    if fork is None:
        raise ValueError("there is nothing to fork")
    done = finished(session, fork)
    missing = tuple(target for target in fork.pending if target not in done)
    executed: tuple[str, ...] = ()
    if missing and not _is_over(session, state, decision, fork, done):
        start = state_at(session, state, fork_commit(fork))
        _execute(_Forking(session, worktree, state, decision, fork, start, resumption), missing)
        executed, done = missing, finished(session, fork)
    target = next(target for target in fork.pending if target in done)
    return Branched(bring_onto_branch(session, worktree, state, done[target]), executed)


def _is_over(
    session: Session, state: RunState, decision: Decision, fork: ForkState, done: Mapping[str, StepRecord]
) -> bool:
    flow = session.specs.flows[decision.next_flow]
    on_branch = newest_at(state, flow.id, fork.targets, fork_commit(fork))
    branches = {name: branch_of(record) for name, record in on_branch.items()}
    known = current_branches(fork, branches) | {name: branch_of(record) for name, record in done.items()}
    return is_decided(fork_of(flow, fork), join_at(flow, fork.join), known)


def _execute(forking: _Forking, targets: Sequence[str]) -> None:
    """Until each target has a commit on the fork's commit, or the fork is over and the others were ended."""
    forking.worktree.leave()
    steps: list[OpenStep] = []
    try:
        steps.extend(_opened(forking, targets))
        with ending_strays():
            _attend(forking, steps)
    finally:
        for step in steps:
            step.journal.close()


def _opened(forking: _Forking, targets: Sequence[str]) -> Iterator[OpenStep]:
    """Each with its worktree, its plan and its first events; none is executed before all are open."""
    iterations = off_branch(forking.session)
    wanted = dict.fromkeys(targets, forking.decision)
    allowed = allowance(forking.session, forking.state, forking.flow.id, wanted)
    for target in targets:
        yield _open(forking, target, iterations, allowed[target])


def _open(
    forking: _Forking, target: str, iterations: Mapping[tuple[str, str], int], allowed: BudgetLimits
) -> OpenStep:
    session, decision, fork, state = forking.session, forking.decision, forking.fork, forking.state
    step = step_at(session, forking.flow.id, target, decision.stack)
    station = session.specs.stations.get(step.station or "")
    is_shared = forking.is_fresh and not writes_code(forking.flow, step, station)
    worktree = replace(forking.worktree, interrupted=iterations)
    if not is_shared:
        side = prepare_side(session, forking.worktree.shadow, target, fork_commit(fork))
        worktree = replace(RunWorktree.of(session, side), interrupted=iterations)
    is_first = target == fork.pending[0]
    own = replace(decision, to_step=target, events=decision.events if is_first else ())
    plan = plan_step(session, worktree, _before(forking, target), own, forking.resumption)
    parallel = Parallel(state.tip, state.tip_tree if is_shared else None)
    resumption = forking.resumption if is_first else None
    plan = replace(plan, parallel=parallel, resumption=resumption, allowed=allowed)
    return open_step(session, worktree, plan)


def _before(forking: _Forking, target: str) -> RunState:
    """The run at the fork; the step also knows its own later executions, and what was found in them."""
    key, now, tally = (forking.flow.id, target), forking.state.tally, forking.start.tally
    own = now.steps.get(key)
    if own is None or forking.start is forking.state:
        return forking.start
    found = {name: concern for name, concern in now.concerns.items() if concern.is_of(*key)}
    known = replace(tally, steps={**tally.steps, key: own}, concerns={**tally.concerns, **found})
    return replace(forking.start, tally=known)


def _attend(forking: _Forking, steps: Sequence[OpenStep]) -> None:
    session, fork = forking.session, forking.fork
    fork_spec, join = fork_of(forking.flow, fork), join_at(forking.flow, fork.join)
    declared = frozenset(path for step in steps for path in step.declared)
    parallel = ParallelSteps(steps, session.engines, session.context.clock)
    try:
        for done in parallel:
            step = done.step
            outcome = examine(session, step, done.result)
            over = is_decided(fork_spec, join, {step.name: ForkBranch(outcome.result.status, outcome.status)})
            ended = parallel.end() if over else ()
            if step.shared_tree is not None:
                is_last = not any(other.shared_tree for other in parallel.running.values())
                outcome = examine_shared(session, step, outcome, declared if is_last else None)
            _commit(forking, step, outcome)
            for other in ended:
                _keep(forking, other)
    finally:
        parallel.end()


def _commit(forking: _Forking, step: OpenStep, outcome: StepOutcome) -> None:
    session = forking.session
    session.store.commit_parallel(fork_commit(forking.fork), step.name, stage_commit(session, step, outcome))
    close_step(session, step)
    _leave(session, step)


def _keep(forking: _Forking, step: OpenStep) -> None:
    """Sets aside the work of a step that was ended because the others do not need it."""
    execution = step.plan.execution
    journal = OpenJournal(step.journal.path, execution.flow, execution.step, execution.iteration)
    step.journal.close()
    keep_ended(forking.session, forking.state, step.worktree.shadow, journal)
    step.journal.delete()
    _leave(forking.session, step)


def _leave(session: Session, step: OpenStep) -> None:
    if step.shared_tree is None:
        shadow = step.worktree.shadow
        remove_step_worktree(StepWorktree(step.name, shadow.path, shadow.git_dir), session.locks)
