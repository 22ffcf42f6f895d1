"""Carries a fork out: its targets at the same time on one commit, then one after the other onto the branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gitswarm.ledger.journal import OpenJournal
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.outcome import Status
from gitswarm.records.routing import Decision, Fork
from gitswarm.routing.forks import fork_of, join_at, standing_branches
from gitswarm.routing.joins import is_over
from gitswarm.routing.situation import Branch
from gitswarm.runner.forks.onto_branch import bring_onto_branch
from gitswarm.runner.forks.siblings import finished, fork_commit, state_at
from gitswarm.runner.forks.side_by_side import Done, Sibling, SideBySide
from gitswarm.runner.session import Session, Workplace, off_branch
from gitswarm.runner.step.branches import branch_of, newest_at
from gitswarm.runner.step.examine import Answer, Shared, declared_paths, examine
from gitswarm.runner.step.execute import announce, open_journal, write_papers
from gitswarm.runner.step.plan import Beside, Resumption, plan_step
from gitswarm.runner.step.position import step_at
from gitswarm.runner.step.request import step_request
from gitswarm.runner.undo.recovery import keep_ended
from gitswarm.runner.workplace import prepare_side
from gitswarm.specs.artifacts import CodePattern, parse_artifact
from gitswarm.specs.flow import Flow, Step
from gitswarm.worktree.side import Side, remove_side


@dataclass(frozen=True, slots=True)
class Branched:
    """`executed`: the targets that were executed now; others had been before."""

    state: RunState
    executed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Forking:
    """What all targets have in common. `start`: the run at the fork."""

    session: Session
    place: Workplace
    state: RunState
    decision: Decision
    fork: Fork
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
    session: Session, place: Workplace, state: RunState, decision: Decision, resumption: Resumption | None
) -> Branched:
    """Executes the pending targets that have no commit yet, and brings the first one that has one onto the branch.

    The decision after that is about the others. So a process that takes over finds each boundary as it was.
    """
    fork = decision.fork
    if fork is None:
        raise ValueError("there is nothing to fork")
    done = finished(session, fork)
    missing = tuple(target for target in fork.pending if target not in done)
    executed: tuple[str, ...] = ()
    if missing and not _is_over(session, state, decision, fork, done):
        start = state_at(session, state, fork_commit(fork))
        _execute(_Forking(session, place, state, decision, fork, start, resumption), missing)
        executed, done = missing, finished(session, fork)
    target = next(target for target in fork.pending if target in done)
    return Branched(bring_onto_branch(session, place, state, done[target]), executed)


def _is_over(
    session: Session, state: RunState, decision: Decision, fork: Fork, done: Mapping[str, StepRecord]
) -> bool:
    flow = session.specs.flows[decision.next_flow]
    on_branch = newest_at(state, flow.id, fork.targets, fork_commit(fork))
    there = {name: branch_of(record) for name, record in on_branch.items()}
    known = standing_branches(fork, there) | {name: branch_of(record) for name, record in done.items()}
    return is_over(fork_of(flow, fork), join_at(flow, fork.join), known)


def _execute(forking: _Forking, targets: Sequence[str]) -> None:
    """Until each target is committed beside the branch; or the fork is over, and the others are ended."""
    forking.place.index.leave()
    siblings: list[Sibling] = []
    try:
        siblings.extend(_prepared(forking, targets))
        _attend(forking, siblings)
    finally:
        for sibling in siblings:
            sibling.journal.close()


def _prepared(forking: _Forking, targets: Sequence[str]) -> Iterator[Sibling]:
    """Each with its place, its plan and its first events; none is executed before all are prepared."""
    iterations = off_branch(forking.session)
    for target in targets:
        yield _sibling(forking, target, iterations)


def _sibling(forking: _Forking, target: str, iterations: Mapping[tuple[str, str], int]) -> Sibling:
    session, decision, fork = forking.session, forking.decision, forking.fork
    step = step_at(session, forking.flow.id, target, decision.stack)
    is_shared = forking.is_fresh and not _writes_code(session, forking.flow, step)
    place = replace(forking.place, interrupted=iterations)
    if not is_shared:
        side = prepare_side(session, forking.place.shadow, target, fork_commit(fork))
        place = replace(Workplace.of(session, side), interrupted=iterations)
    is_first = target == fork.pending[0]
    led = decision.model_copy(update={"to_step": target, "events": decision.events if is_first else ()})
    plan = plan_step(session, place, _before(forking, target), led, forking.resumption)
    mark = f"{session.layout.run_id}/{target}@{plan.execution.iteration}"
    plan = replace(plan, beside=Beside(forking.state.tip, mark), resumption=forking.resumption if is_first else None)
    journal = open_journal(session, plan)
    announce(plan, journal)
    place.index.leave()
    return Sibling(plan, place, journal, step_request(session, place, plan), is_shared)


def _before(forking: _Forking, target: str) -> RunState:
    """The run at the fork; only of its own executions a target knows also what came later."""
    key = (forking.flow.id, target)
    own = forking.state.tally.steps.get(key)
    if own is None or forking.start is forking.state:
        return forking.start
    tally = forking.start.tally
    return replace(forking.start, tally=replace(tally, steps={**tally.steps, key: own}))


def _writes_code(session: Session, flow: Flow, step: Step) -> bool:
    station = session.specs.stations.get(step.station or "")
    outputs = (parse_artifact(name, flow.id) for name in step.teaching.outputs)
    return station is None or station.writes_code or any(isinstance(item, CodePattern) for item in outputs)


def _attend(forking: _Forking, siblings: Sequence[Sibling]) -> None:
    session, fork = forking.session, forking.fork
    fork_spec, join = fork_of(forking.flow, fork), join_at(forking.flow, fork.join)
    declared = frozenset(path for sibling in siblings for path in declared_paths(session, sibling.plan))
    side_by_side = SideBySide(siblings, session.engines, session.around.clock)
    try:
        for done in side_by_side:
            over = is_over(fork_spec, join, {done.sibling.step: _expected(done)})
            ended = side_by_side.end() if over else ()
            is_last = not any(other.is_shared for other in side_by_side.running.values())
            _commit(forking, done, Shared(forking.state.tip_tree, declared, is_last))
            for sibling in ended:
                _keep(forking, sibling)
    finally:
        side_by_side.end()


def _expected(done: Done) -> Branch:
    """What will stand in its commit, as far as others have to be ended because of it."""
    handoff = done.result.handoff
    return Branch(done.result.status, handoff.status if handoff else Status.UNVERIFIED)


def _commit(forking: _Forking, done: Done, shared: Shared) -> None:
    session, sibling = forking.session, done.sibling
    plan, journal = sibling.plan, sibling.journal
    answer = Answer(done.result, done.started, done.completed, shared if sibling.is_shared else None)
    worked = examine(session, sibling.place, plan, answer, journal)
    written = write_papers(session, plan, worked, journal)
    session.store.commit_beside(fork_commit(forking.fork), sibling.step, written.draft)
    # As after any step: the journal goes last.
    session.inbox.delete(written.letters)
    journal.delete()
    _leave(session, sibling)


def _keep(forking: _Forking, sibling: Sibling) -> None:
    """What a step left that was ended because the others do not need it."""
    execution = sibling.plan.execution
    journal = OpenJournal(sibling.journal.path, execution.flow, execution.step, execution.iteration)
    sibling.journal.close()
    keep_ended(forking.session, forking.state, sibling.place.shadow, journal)
    sibling.journal.delete()
    _leave(forking.session, sibling)


def _leave(session: Session, sibling: Sibling) -> None:
    if not sibling.is_shared:
        shadow = sibling.place.shadow
        remove_side(Side(sibling.step, shadow.path, shadow.git_dir), session.locks)
