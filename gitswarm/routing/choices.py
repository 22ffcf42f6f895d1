"""Everything that a decision is taken from, plain values that the runner gathers from what is committed; the
candidates after a step; and the record of the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.records.event import Event
from gitswarm.records.execution import Result, Status
from gitswarm.records.gate_decision import GateVerdict
from gitswarm.records.routing import (
    Action,
    Ask,
    Candidate,
    Choice,
    ConditionTrace,
    Continuation,
    Elimination,
    Explanation,
    ForkState,
    Frame,
    HumanPolicy,
    LoopState,
    RoutingMode,
    RoutingSource,
    StallState,
)
from gitswarm.routing.conditions import Context
from gitswarm.routing.loops import ExecutedStep
from gitswarm.specs.flow import Flow
from gitswarm.specs.sidequest import Sidequest

MAX_DEPTH = 10
"""Interruptions that may be open at the same time."""

MAX_INJECTIONS = 20
"""Flows and nodes that a navigator may inject into one run."""

MAX_FINDING_REPEATS = 2
"""Executions that findings may call for, per entry into the loop of their step."""

MAX_FINDING_REPEATS_IN_RUN = 6

MAX_REPEATS = 3
"""Executions of a step in a row, when nothing but a request to repeat it calls for them."""


class Rules(Struct, frozen=True):
    """What holds for the whole run. `flows` are those that it may enter, `sequence` those it was started with;
    `stations` those that an injected node may name."""

    mode: RoutingMode = RoutingMode.ASSIST
    human: HumanPolicy = HumanPolicy.SUPERVISED
    flows: Mapping[str, Flow] = field(default_factory=dict)
    sequence: tuple[str, ...] = ()
    sidequests: Mapping[str, Sidequest] = field(default_factory=dict)
    stations: frozenset[str] = frozenset()
    navigator_timeout_s: float = 120.0


class ForkBranch(Struct, frozen=True):
    """A target of a fork that has been executed. `commit`: its own, off the branch like its siblings'; or, where it
    has none, that on the branch. `waived`: a person skipped it."""

    result: Result
    status: Status
    commit: str = ""
    waived: bool = False


class Progress(Struct, frozen=True):
    """How far the run is.

    `steps`: committed executions so far; `executions`: those of the step that just ended, `iteration`: what the last
    of them is named after; `uses`: how often each sidequest was taken; `injections`: of flows and nodes;
    `flow_sequence`: the flows in the order they were entered; `verdict`: what the newest Gate said. `clarified`: the
    clarifier was taken because of this step, and nothing else was executed since. `fork`: what the step was a branch
    of, as decided when it began; `branches`: the newest execution of each target on the same commit; `finished`:
    targets whose execution has a commit of its own, and none on the branch yet.
    """

    steps: int = 1
    executions: int = 1
    iteration: int = 1
    uses: Mapping[str, int] = field(default_factory=dict)
    injections: int = 0
    flow_sequence: tuple[str, ...] = ()
    stall: StallState | None = None
    fork: ForkState | None = None
    branches: Mapping[str, ForkBranch] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()
    verdict: GateVerdict | None = None
    clarified: bool = False


class BlockingFindings(Struct, frozen=True):
    """Blocking findings that the step that just ended has of its own, or the branches of its fork have. `ids` of the
    concerns; `reason`: the first, with its fact. `may_repeat`: executing `steps` again could help, and was not tried
    too often."""

    ids: tuple[str, ...]
    reason: str
    may_repeat: bool
    steps: tuple[str, ...] = ()


class Situation(Struct, frozen=True):
    """What is known when a step has been committed.

    `context` holds receipt, envelope, evidence, run and history as plain data; `history` the executions of this flow
    since it was entered, the one that just ended last. `stack`: the interruptions that the step belonged to.
    `changed`: paths of the step's own change. `ask` None: there is no navigator. `limited_until`: when a usage limit
    that the step met ends. `unproven` None: nothing that is proven speaks against the step. `diverged`: why the run's
    code has to be brought to another base.
    """

    flow: Flow
    step_id: str
    result: Result
    status: Status
    context: Context
    history: Sequence[ExecutedStep]
    stack: tuple[Frame, ...] = ()
    changed: tuple[str, ...] = ()
    rules: Rules = field(default_factory=Rules)
    progress: Progress = field(default_factory=Progress)
    ask: Ask | None = None
    limited_until: str | None = None
    unproven: BlockingFindings | None = None
    untested: Callable[[Flow], str | None] = field(default=lambda _flow: None)
    diverged: Callable[[], str | None] = field(default=lambda: None)

    @property
    def frame(self) -> Frame | None:
        """The innermost interruption."""
        return self.stack[-1] if self.stack else None

    @property
    def is_branch(self) -> bool:
        """Whether the step was executed in parallel, as a target of a fork."""
        return self.progress.fork is not None

    @property
    def is_detour(self) -> bool:
        """Whether the step belongs to no flow's graph: a step of a sidequest, or an injected node."""
        return self.frame is not None and self.frame.kind != "flow"


WAITING = frozenset({Action.PAUSE, Action.ESCALATE})
_CEL = {"None": "null", "False": "false"}


class Transitions(Struct, frozen=True):
    """What the flow's own graph offers after a step. `default`: the one that it takes by itself.

    `is_open`: the graph leaves something to decide, so that a navigator is asked in mode `assist` too.
    `is_undecided`: the default follows from nothing; without an answer the run is handed to a person.
    `is_obvious`: there is nothing to consider.
    """

    default: Candidate
    options: tuple[Candidate, ...]
    reason: str
    is_open: bool = False
    is_undecided: bool = False
    is_obvious: bool = False
    loop: LoopState | None = None
    conditions: tuple[ConditionTrace, ...] = ()
    dropped: tuple[Elimination, ...] = ()


def again(step: str, reason: str, stack: tuple[Frame, ...]) -> Candidate:
    return Candidate(candidate_id=f"repeat:{step}", action=Action.REPEAT, target=step, reason=reason, stack=stack)


def pause(reason: str, stack: tuple[Frame, ...], *pointers: str, resume_at: Continuation | None = None) -> Candidate:
    return Candidate(
        candidate_id="pause",
        action=Action.PAUSE,
        reason=reason,
        priority=100,
        source="kernel",
        evidence_pointers=pointers,
        stack=stack,
        resume_at=resume_at,
    )


def escalate(reason: str, stack: tuple[Frame, ...], *pointers: str, priority: int = 90) -> Candidate:
    return Candidate(
        candidate_id="escalate",
        action=Action.ESCALATE,
        reason=reason,
        priority=priority,
        source="kernel",
        evidence_pointers=pointers,
        stack=stack,
    )


def end(reason: str, *, priority: int, failed: bool = False, resume_at: Continuation | None = None) -> Candidate:
    return Candidate(
        candidate_id="terminate",
        action=Action.TERMINATE,
        reason=reason,
        priority=priority,
        failed=failed,
        resume_at=resume_at,
    )


def advance(situation: Situation, target: str, reason: str) -> Candidate:
    return Candidate(
        candidate_id=f"advance:{target}",
        action=Action.ADVANCE,
        target=target,
        reason=reason,
        priority=80 if situation.status is Status.VERIFIED else 40,
        evidence_pointers=("envelope.status",),
        stack=situation.stack,
    )


def continuation(action: Action, flow: str, step: str | None, reason: str, *, failed: bool = False) -> Continuation:
    """A continuation with the id of the candidate that leads there."""
    candidate_id = f"{action}:{step}" if step else action.value
    return Continuation(
        decision=action, flow=flow, step=step, candidate_id=candidate_id, reason=reason, failed=failed
    )


def retry(flow: str, step: str) -> Continuation:
    """A continuation at a step that is to be executed again."""
    return continuation(Action.REPEAT, flow, step, f"{step} once more")


def continuation_of(option: Candidate, situation: Situation) -> Continuation:
    """Where the run continues after an interruption before this option.

    A step that failed or is blocked is executed again then: what kept it was what the interruption was for.
    """
    if option.resume_at is not None:
        return option.resume_at
    failed = option.action is Action.TERMINATE and situation.result is Result.FAILED
    if option.action in WAITING or failed:
        option = again(situation.step_id, f"{situation.step_id} once more", option.stack)
    return Continuation(
        decision=option.action,
        flow=option.flow or situation.flow.id,
        step=option.target,
        candidate_id=option.candidate_id,
        reason=option.reason,
        fork=option.fork,
        failed=option.failed,
    )


def resumed(resume_at: Continuation, situation: Situation, stack: tuple[Frame, ...], reason: str) -> Candidate:
    """The opposite of `continuation_of`."""
    flow = None if resume_at.flow == situation.flow.id else resume_at.flow
    return replace(candidate_of(resume_at, stack, reason), flow=flow, priority=80)


def candidate_of(resume_at: Continuation, stack: tuple[Frame, ...], reason: str) -> Candidate:
    return Candidate(
        candidate_id=resume_at.candidate_id,
        action=resume_at.decision,
        target=resume_at.step,
        flow=resume_at.flow,
        reason=reason,
        stack=stack,
        fork=resume_at.fork,
        failed=resume_at.failed,
    )


def take(
    taken: Candidate,
    transitions: Transitions,
    source: RoutingSource,
    reason: str | None = None,
    *,
    default: Candidate | None = None,
) -> Choice:
    """The record of a choice: every candidate, and why each other one was not taken.

    :param default: what is taken when nobody answers, if that is not the graph's own default.
    """
    why = reason or transitions.reason
    usual = (default or transitions.default).candidate_id
    candidates = tuple(replace(option, is_default=option.candidate_id == usual) for option in transitions.options)
    others = tuple(
        Elimination(candidate_id=option.candidate_id, reason=_why_not(option, taken, transitions, why))
        for option in transitions.options
        if option.candidate_id != taken.candidate_id
    )
    return Choice(
        decision=taken.action,
        to_step=taken.target,
        to_flow=taken.flow,
        reason=why,
        routing_source=source,
        candidate_id=taken.candidate_id,
        candidates=candidates,
        loop_state=transitions.loop,
        explanation=Explanation(conditions=transitions.conditions, eliminated=(*others, *transitions.dropped)),
        stack=taken.stack if taken.target is not None or taken.action in WAITING else (),
        resume_at=taken.resume_at,
        why_now=taken.why_now,
        fork=taken.fork,
        join=taken.join,
        failed=taken.failed,
        events=taken.events,
    )


def _why_not(option: Candidate, taken: Candidate, transitions: Transitions, why: str) -> str:
    trace = next((trace for trace in transitions.conditions if option.candidate_id == f"branch:{trace.target}"), None)
    if trace is not None and trace.error is not None:
        return f"cannot be evaluated: {trace.error}"
    if trace is not None and trace.value is not True:
        value = str(trace.value)
        return f"{trace.expression} is {_CEL.get(value, value)}"
    if option.candidate_id == transitions.default.candidate_id:
        return f"the flow's default, but {taken.candidate_id} was taken: {why}"
    return f"not taken: {why}"


def only(taken: Candidate, source: RoutingSource) -> Choice:
    """A choice without another one."""
    return take(taken, Transitions(taken, (taken,), taken.reason), source)


def with_events(option: Candidate, *events: Event) -> Candidate:
    return replace(option, events=(*option.events, *events))
