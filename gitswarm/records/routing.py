"""A decision where a run goes: candidates, choice and its record; what a navigator is asked, and answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct, field

from gitswarm.records.event import Event
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Tokens
from gitswarm.records.record import UNSTORED, Record, Text, form
from gitswarm.records.text import words


class Action(StrEnum):
    """What a candidate would do; also the `decision` of a taken one."""

    ADVANCE = "advance"
    LOOP = "loop"
    BRANCH = "branch"
    REPEAT = "repeat"
    SKIP = "skip"
    FORK = "fork"
    DETOUR = "detour"
    INJECT_FLOW = "inject_flow"
    INJECT_NODES = "inject_nodes"
    TERMINATE = "terminate"
    ESCALATE = "escalate"
    PAUSE = "pause"


class RoutingSource(StrEnum):
    """How a decision was made (seed 000)."""

    FAST_PATH = "fast_path"
    DETERMINISTIC = "deterministic"
    NAVIGATOR = "navigator"
    NAVIGATOR_DETOUR = "navigator:detour"
    ENVELOPE_FALLBACK = "envelope_fallback"
    ESCALATE = "escalate"


class RoutingMode(StrEnum):
    DETERMINISTIC_ONLY = "deterministic_only"
    ASSIST = "assist"
    AUTHORITATIVE = "authoritative"


class HumanPolicy(StrEnum):
    """What a pause does: wait for a person, or become a detour to the clarifier."""

    SUPERVISED = "supervised"
    AUTOPILOT = "autopilot"


class ConditionTrace(Record):
    """One CEL condition as it was evaluated. `value` is what CEL returned; `error` why it did not."""

    expression: str
    target: str
    value: JsonValue = None
    error: str | None = None


class Elimination(Record):
    """A next step that was not taken, and why; also one that never became a candidate."""

    candidate_id: str
    reason: str


class NavigatorUse(Record):
    """The outcome of a question to the navigator. `problem` None: its answer was taken. `cost_usd` in US dollars,
    None: unknown."""

    chosen: str | None = None
    reasoning: str = ""
    problem: str | None = None
    tokens: int = 0
    cost_usd: float | None = 0.0


class StallState(Record):
    """How long a loop has made no progress. `passes`: equal ones in a row, the first included."""

    passes: int
    window: int
    signature: str
    same_failure: bool

    @property
    def is_stalled(self) -> bool:
        return self.passes >= self.window


class Explanation(Record):
    """Why this candidate and not another one."""

    conditions: tuple[ConditionTrace, ...] = ()
    eliminated: tuple[Elimination, ...] = ()
    stall: StallState | None = None
    navigator: NavigatorUse | None = None


class LoopState(Record):
    """Executions of a looping step since its loop was entered, and how many it may have."""

    iteration: int
    max_iterations: int


class Supersedes(Record):
    """The decision that a newer one replaces: its commit and its seq in that commit's note."""

    commit: str
    seq: int


class Superseded(Record):
    """An entry of a routing note that takes the decisions before it back: a rollback went back to this commit."""

    seq: int
    ts: str
    superseded_by: str
    reason: str


class WhyNow(Record):
    """Why the run leaves the flow's own graph here: required of detours and injections."""

    trigger: Text
    relevance_to_charter: Text
    analysis: str = ""
    alternatives_considered: tuple[str, ...] = ()
    expected_outcome: str = ""


class SkipJustification(Record):
    """Why a step need not be executed: required of a skip, all three."""

    skip_reason: Text
    why_not_needed_for_exit: Text
    replacement_assurance: Text


class Node(Record):
    """A step that no flow has: executed once, by a station, where a navigator asks for it."""

    id: Annotated[str, form("[a-z][a-z0-9_-]{0,39}")]
    station: str
    objective: Text


class RoutingSignal(Record):
    """What a navigator answers, or an agent asks for in its envelope: one of the candidates, or nodes of its own.
    `offroad_rule`: the entry of `offroad_policy.justified` in the flow's charter that allows to leave its graph."""

    chosen_candidate_id: str | None = None
    reasoning: str = ""
    confidence: Literal["high", "medium", "low"] | None = None
    why_now: WhyNow | None = None
    skip_justification: SkipJustification | None = None
    offroad_rule: str | None = None
    inject_nodes: tuple[Node, ...] = ()
    extend_graph: tuple[Node, ...] = ()


class Proposal(Record):
    """`<flow>/routing/proposals/<id>.json`: nodes that a navigator wants the flow to have behind `after_step`."""

    id: str
    flow_key: str
    after_step: str
    nodes: tuple[Node, ...]
    why_now: WhyNow
    reasoning: str = ""


class ForkState(Record):
    """Steps that are executed at the same time on the same commit.

    `commit` None: the tip after which this is decided. `pending` are those of `targets` that have no commit on the
    branch; `void`: commits of siblings that a rollback took back and that do not count as done.
    """

    commit: str | None = None
    targets: tuple[str, ...]
    pending: tuple[str, ...]
    join: str
    void: tuple[str, ...] = ()


class Continuation(Record):
    """Where a flow continues: kept while it is interrupted or paused. `fork`: the pending targets of one."""

    decision: Action
    flow: str
    step: str | None
    candidate_id: str
    reason: str
    fork: ForkState | None = None
    failed: bool = False


class JoinOutcome(Record):
    """The outcomes of the branches of a fork. `worst` is the status that the join starts from."""

    strategy: str
    is_met: bool
    reason: str
    worst: Status
    statuses: dict[str, str]


class Frame(Record):
    """One interruption: what is executed instead of the flow, after which step, and where the flow continues.

    `opened`: the number of steps that the run had then; with kind and id it names the frame.
    """

    kind: Literal["sidequest", "flow", "nodes"]
    id: str
    opened: int
    flow: str
    step: str | None
    back: Continuation
    nodes: tuple[Node, ...] = ()

    @property
    def token(self) -> str:
        return f"{self.kind}:{self.id}@{self.opened}"


_T = TypeVar("_T")
_Unstored = Annotated[_T, Meta(extra_json_schema={UNSTORED: True})]


class Candidate(Record):
    """What may be taken next, and what taking it means. The id is deterministic: `advance:<step>`,
    `loop:<step>:iter_<n>`, `terminate` …

    `flow` None: the target lies in the flow where the decision is taken. The effects are stored once, in the decision
    that takes the candidate. `stack`: the interruptions that are open then; `resume_at`: where a run that pauses with
    it continues; `failed`: a run that ends with it has failed.
    """

    candidate_id: str
    action: Action
    target: str | None = None
    flow: str | None = None
    reason: str
    priority: int = 50
    source: Literal["graph_edge", "fast_path", "detour_catalog", "kernel", "macro"] = "graph_edge"
    evidence_pointers: tuple[str, ...] = ()
    is_default: bool = False

    stack: _Unstored[tuple[Frame, ...]] = ()
    fork: _Unstored[ForkState | None] = None
    join: _Unstored[JoinOutcome | None] = None
    resume_at: _Unstored[Continuation | None] = None
    failed: _Unstored[bool] = False
    why_now: _Unstored[WhyNow | None] = None
    events: _Unstored[tuple[Event, ...]] = ()

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        """As it is recorded: without what the decision holds that takes it."""
        return super().to_plain({*exclude, *_EFFECTS, *(["flow"] if self.flow is None else [])})


_EFFECTS = ("stack", "fork", "join", "resume_at", "failed", "why_now", "events")
"""Fields of a candidate that are stored once, in the decision that takes it."""


class Choice(Record):
    """What the driver decides: pure, without place or time.

    `to_flow` None: `to_step` lies in the flow where this is decided. `stack`: the interruptions that are open when
    it is executed. `resume_at`: where a run that pauses here continues. `findings`: ids of the concerns because of
    which the step is executed again, or the run waits. `offroad_rule`: what the charter's policy allows it by, where
    somebody named that. `failed`: a run that ends here has failed. `events`: what it
    brings with it; recorded in the events of what is executed next.
    """

    decision: Action
    to_step: str | None
    reason: str
    routing_source: RoutingSource
    candidate_id: str
    candidates: tuple[Candidate, ...]
    loop_state: LoopState | None = None
    explanation: Explanation = Explanation()
    to_flow: str | None = None
    stack: tuple[Frame, ...] = ()
    resume_at: Continuation | None = None
    why_now: WhyNow | None = None
    skip_justification: SkipJustification | None = None
    offroad_rule: str | None = None
    fork: ForkState | None = None
    join: JoinOutcome | None = None
    proposal: Proposal | None = None
    findings: tuple[str, ...] = ()
    failed: bool = False
    events: tuple[Event, ...] = ()

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        plain = super().to_plain({*exclude, "candidates"})
        found: list[JsonValue] = [candidate.to_plain() for candidate in self.candidates]
        return plain if "candidates" in exclude else {**plain, "candidates": found}


_RARE = words("""
    to_flow stack resume_at why_now skip_justification offroad_rule fork join proposal findings failed events
    elapsed_us
""")


AUDITED = words("to_step reason loop_state routing_source decision candidate_id to_flow stack fork findings")
"""What the audit event of a decision holds of it, besides where it was taken."""


def _without_nulls(record: Record, *names: str) -> dict[str, JsonValue]:
    plain: dict[str, JsonValue] = record.to_plain(exclude={name for name in names if getattr(record, name) is None})
    return plain


class Decision(Choice):
    """A recorded choice: one entry of a routing note. `seq` counts from 1 within one note; `elapsed_us`: how long it
    took to decide, in microseconds, the navigator included."""

    seq: int
    ts: str
    flow_key: str
    from_step: str | None
    iteration: int | None
    routing_mode: RoutingMode
    supersedes: Supersedes | None = None
    elapsed_us: int | None = None

    def to_plain(self, exclude: Collection[str] = ()) -> dict[str, JsonValue]:
        """As it is recorded: what most decisions do not have is absent, not null."""
        rare = {*exclude} | {name for name in _RARE if not getattr(self, name)}
        plain = super().to_plain(rare | {"explanation"})
        plain["explanation"] = _without_nulls(self.explanation, "stall", "navigator")
        return {name: plain[name] for name in self.__struct_fields__ if name in plain}

    def audit_fields(self) -> dict[str, JsonValue]:
        """What its audit event holds of it (seed 000)."""
        absent = {name for name in _RARE if not getattr(self, name)}
        plain = super().to_plain(absent)
        return {"from_step": self.from_step, **{name: plain[name] for name in AUDITED if name in plain}}

    @property
    def next_flow(self) -> str:
        """The flow of `to_step`."""
        return self.to_flow or self.flow_key

    @property
    def choice(self) -> Choice:
        """The choice without its place, to record it again elsewhere."""
        return Choice(**{name: getattr(self, name) for name in Choice.__struct_fields__})


class RouteQuestion(Struct, frozen=True):
    """What a navigator is asked. `schema` is the JSON schema of its answer."""

    prompt: str
    schema: Mapping[str, JsonValue]
    timeout_s: float


class RouteAnswer(Struct, frozen=True):
    """`value`: JSON, or the text that came instead; None: nothing to say. `cost_usd` in US dollars, None: unknown.
    `problem`: why there is no answer, where one was asked for."""

    value: JsonValue = None
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = 0.0
    problem: str | None = None


Ask = Callable[[RouteQuestion], RouteAnswer]
"""Asks a navigator.

:raises TimeoutError: there was no answer in time.
"""
