"""Asks the driver what comes next, from what is committed: the same question after a step and after a crash."""

from __future__ import annotations

import time

from msgspec.structs import replace

from gitswarm.errors import SwarmError
from gitswarm.git.object_reader import Commit
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.reading import current_decision, decisions, routing_entries
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.store import DecisionOrigin
from gitswarm.records.execution import Result, RunStatus
from gitswarm.records.routing import Action, Choice, Decision, ForkState, Superseded, Supersedes
from gitswarm.routing import driver
from gitswarm.routing.choices import retry
from gitswarm.runner.deciding.decision_facts import rules_of, situation_of, unproven
from gitswarm.runner.deciding.preflight import paused_decision, preflight
from gitswarm.runner.onto_branch import has_begun, void_commits
from gitswarm.runner.run_session import Session
from gitswarm.runner.stored import final_decision, incoming_decision


def decide_next(session: Session, state: RunState) -> Decision:
    """The decision that stands after the tip; taken now if it was not recorded yet."""
    recorded = current_decision(session.repository, session.layout, state.tip)
    if recorded:
        return recorded
    record = state.last_step
    newest = state.steps[-1] if state.steps else None
    if newest is not None and newest.by_command:
        return repeat_decision(session, state, decision_at_end(session, newest.parent))
    if record is None:
        return _at_start(session, state)
    if record.by_human:
        return _after_human(session, state, record)
    return _record(session, state, *_weighed(session, state, record))


def pending_decision(session: Session, state: RunState, *, approve: bool = False) -> Decision:
    """What comes next, whether the run ended or was cut off.

    :param approve: a person approved what the navigator proposed when the run paused.
    """
    if state.end is None:
        return decide_next(session, state)
    return decide_resumed(session, state, approve=approve)


def repeat_decision(session: Session, state: RunState, decision: Decision) -> Decision:
    """The same choice once more, after a commit that is no step of the flow. A fork of which nothing was executed yet
    starts from that commit then."""
    origin = DecisionOrigin(decision.flow_key, decision.from_step, decision.iteration, session.spec.routing_mode)
    choice, fork = decision.choice, decision.fork
    if fork is not None and not has_begun(session, state, fork):
        choice = replace(choice, fork=replace(fork, commit=state.tip))
    return session.store.decide(state.tip, choice, origin)


def decision_at_end(session: Session, end: str) -> Decision:
    """The decision that stands before or after the `end` commit of a run: what an approval or a landing there leaves
    as it is. What it brought with it was told then."""
    repository = session.repository
    commit = repository.objects.commit(end)
    message = parse_message(commit.message)
    trailers = message.trailers if message is not None else {}
    layout = RunLayout(trailers.get("Swarm-Run", session.layout.run_id))  # of a fork: the run that it came from
    recorded = current_decision(repository, layout, end)
    taken = [recorded] if recorded else decisions(repository, layout, commit.parents[0])
    events = layout.end_events(int(trailers.get("Swarm-Iteration", "0")))
    decision = taken[-1] if taken else _decision_from_end(session, commit, events)
    return replace(decision, events=())


def _decision_from_end(session: Session, end: Commit, events: str) -> Decision:
    """Somebody removed the note: the `end` commit tells the decision too."""
    decision = final_decision(session, end.tree, events)
    if decision is None:
        raise SwarmError(f"{end.id[:12]} lost its decision", hint=f"git swarm log {session.layout.run_id}")
    flow, choice = decision
    origin = DecisionOrigin(flow or session.spec.flows[0], None, None, session.spec.routing_mode)
    return session.store.decide(end.id, choice, origin)


def choice_by_hand(session: Session, state: RunState, decision: Decision) -> Choice:
    """What a person takes on. A run that would end at a failed or blocked step ends no more: that step is next."""
    record = state.last_step
    if decision.to_step is not None or record is None or end_of(decision) is RunStatus.SUCCEEDED:
        return decision
    return _taken_on(session, record, decision, "a person continues from here")


def decide_by_hand(session: Session, state: RunState, decision: Decision) -> Decision:
    """Records what a person takes on, in place of the pending `decision`."""
    choice, record = choice_by_hand(session, state, decision), state.last_step
    if choice is decision or record is None:
        return decision
    replaced = Supersedes(commit=state.tip, seq=decision.seq)
    return session.store.decide(state.tip, choice, _origin(session, record, replaced))


def decide_skip(session: Session, state: RunState) -> Decision:
    """Decides where to continue behind the step that a person skipped."""
    record = state.steps[-1]
    choice = driver.skip(situation_of(session, state, record))
    return _record(session, state, choice, _origin(session, record, None))


def enter_at(session: Session, state: RunState, first: str) -> Decision:
    """Begins the first flow at a step that a person named."""
    flow = session.spec.flows[0]
    choice = driver.start(session.specs.flows[flow], first)
    return session.store.decide(state.tip, choice, DecisionOrigin(flow, None, None, session.spec.routing_mode))


def decide_resumed(session: Session, state: RunState, *, approve: bool = False) -> Decision:
    """The decision that takes an ended run on: after a failure or a block the step again, else where it stopped.

    One that was recorded stands, unless what a navigator proposed is approved only now.
    """
    recorded = current_decision(session.repository, session.layout, state.tip)
    if recorded and not approve:
        return recorded
    earlier = session.repository.objects.commit(state.tip).parents[0]
    taken = decisions(session.repository, session.layout, earlier)
    record = state.last_step
    if not taken:
        return _decide_anew(session, state, record)
    last = taken[-1]
    replaced = Supersedes(commit=earlier, seq=last.seq)
    waiting = paused_decision(last, taken, earlier)
    if record is None:
        origin = DecisionOrigin(last.flow_key, None, None, session.spec.routing_mode, replaced)
        return session.store.decide(state.tip, waiting or last.choice, origin)
    if approve:
        choice = driver.approve(last, len(state.steps))
        if recorded and recorded.candidate_id == choice.candidate_id:
            return recorded
        replaced = Supersedes(commit=state.tip, seq=recorded.seq) if recorded else replaced
    elif state.end is RunStatus.UNPROVEN:
        choice = _to_prove(session, state, record)
    elif last.findings and unproven(session, state, record) is None:
        choice = driver.decide(situation_of(session, state, record))  # what it waited for is accepted
    elif waiting is not None or last.to_step is not None:
        choice = waiting or last.choice
    else:
        choice = _taken_on(session, record, last, f"resumed after the run {_ended_as(state)}")
    return _record(session, state, choice, _origin(session, record, replaced))


def waits_for_approval(session: Session, state: RunState) -> bool:
    """Whether the run paused because of nodes that a navigator proposed."""
    if state.end is not RunStatus.PAUSED:
        return False
    earlier = session.repository.objects.commit(state.tip).parents[0]
    taken = decisions(session.repository, session.layout, earlier)
    return bool(taken) and taken[-1].proposal is not None and taken[-1].decision is Action.PAUSE


def _taken_on(session: Session, record: StepRecord, ended: Choice, reason: str) -> Choice:
    """Where a run that ended continues: where it said that it would, else with its last step once more."""
    incoming = incoming_decision(session, record)
    if ended.resume_at is not None:
        # A branch of a fork continues in what was open when it began; a run that ends has nothing open.
        return driver.continue_at(ended.resume_at, incoming.stack if record.fork else ended.stack, reason)
    return driver.continue_at(retry(record.flow, record.step), incoming.stack, reason)


def _to_prove(session: Session, state: RunState, record: StepRecord) -> Choice:
    """Where a run continues that ended unproven: to where the tests that fail would send it back, else to
    the step with the oldest finding."""
    about = next((concern.opened_by for concern in state.blocking), record)
    flow = session.specs.flows[about.flow]
    target = about.step
    if about.engine == "command" and flow.has_step(about.step):
        body = flow.loop_body(about.step)
        first = next((step.id for step in flow.steps if step.id in body), about.step)
        target = (flow.fixed_at(about.step) if flow.is_closing(about.step) else first) or first
    reason = f"not proven: {state.blocking[0].id}" if state.blocking else "resumed"
    return driver.continue_at(retry(about.flow, target), (), reason)


def _decide_anew(session: Session, state: RunState, record: StepRecord | None) -> Decision:
    """Somebody removed the routing note: the same question once more, from what is committed."""
    if record is None:
        return _at_start(session, state)
    if record.by_human:
        return _after_human(session, state, record)
    choice, origin = _weighed(session, state, record)
    if choice.to_step is None:
        choice = _taken_on(session, record, choice, f"resumed after the run {_ended_as(state)}")
    return _record(session, state, choice, origin)


def _at_start(session: Session, state: RunState) -> Decision:
    flow = session.spec.flows[0]
    choice = driver.start(session.specs.flows[flow])
    problem = preflight(session)
    if problem is not None:
        choice = driver.start_with_doctor(session.specs.flows[flow], rules_of(session), problem) or choice
        choice = _in_format(state, choice)
    return session.store.decide(state.tip, choice, DecisionOrigin(flow, None, None, session.spec.routing_mode))


def _weighed(session: Session, state: RunState, record: StepRecord) -> tuple[Choice, DecisionOrigin]:
    """What is chosen after a step, and how long that took."""
    began = time.perf_counter_ns()
    choice = driver.decide(situation_of(session, state, record))
    elapsed = (time.perf_counter_ns() - began) // 1000
    return choice, replace(_origin(session, record, None), elapsed_us=elapsed)


def _after_human(session: Session, state: RunState, record: StepRecord) -> Decision:
    """Killed between what a person did and the decision after it: the same answer as without the kill."""
    if record.result is Result.SKIPPED:
        return decide_skip(session, state)
    before = current_decision(session.repository, session.layout, record.parent)
    if before is not None:
        return repeat_decision(session, state, before)
    return session.store.decide(state.tip, incoming_decision(session, record), _origin(session, record, None))


def _record(session: Session, state: RunState, choice: Choice, origin: DecisionOrigin) -> Decision:
    """Into the note of the tip. A fork that has no commit yet starts from there; after a rollback it begins anew."""
    resume_at = choice.resume_at
    choice = _in_format(state, choice)
    if choice.fork is not None:
        choice = replace(choice, fork=_from_tip(session, state, choice.fork))
    if resume_at is not None and resume_at.fork is not None:
        anew = replace(resume_at, fork=_from_tip(session, state, resume_at.fork))
        choice = replace(choice, resume_at=anew)
    return session.store.decide(state.tip, choice, origin)


def _in_format(state: RunState, choice: Choice) -> Choice:
    """What a decision brings with it, as the run has told such things from its beginning."""
    if state.format > 1 or not choice.events:
        return choice
    return replace(choice, events=tuple(event.in_format_1() for event in choice.events))


def _from_tip(session: Session, state: RunState, fork: ForkState) -> ForkState:
    fork = replace(fork, commit=fork.commit or state.tip)
    entries = routing_entries(session.repository, session.layout, state.tip)
    if not any(isinstance(entry, Superseded) for entry in entries):
        return fork
    return replace(fork, void=void_commits(session, state, fork))


def end_of(decision: Decision) -> RunStatus:
    """How a decision without a next step ends the run."""
    if decision.decision in (Action.PAUSE, Action.ESCALATE):
        return RunStatus.PAUSED
    return RunStatus.FAILED if decision.failed else RunStatus.SUCCEEDED


def _ended_as(state: RunState) -> str:
    return {RunStatus.FAILED: "failed", RunStatus.PAUSED: "was paused"}.get(state.end or RunStatus.STOPPED, "stopped")


def _origin(session: Session, record: StepRecord, replaced: Supersedes | None) -> DecisionOrigin:
    return DecisionOrigin(
        flow=record.flow,
        from_step=record.step,
        iteration=record.execution.iteration,
        mode=session.spec.routing_mode,
        supersedes=replaced,
    )
