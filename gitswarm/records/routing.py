from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from gitswarm.records.base import Record


class Action(StrEnum):
    """What a candidate would do; also the `decision` of a taken one."""

    ADVANCE = "advance"
    LOOP = "loop"
    BRANCH = "branch"
    REPEAT = "repeat"
    DETOUR = "detour"
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


class Candidate(Record):
    """One way on. The id is deterministic: `advance:<step>`, `loop:<step>:iter_<n>`, `terminate` …"""

    candidate_id: str
    action: Action
    target: str | None = None
    reason: str
    priority: int = 50
    source: Literal["graph_edge", "fast_path", "detour_catalog", "kernel"] = "graph_edge"
    evidence_pointers: tuple[str, ...] = ()
    is_default: bool = False


class ConditionTrace(Record):
    """One CEL condition as it was evaluated. `value` is what CEL returned; `error` why it did not."""

    expression: str
    target: str
    value: JsonValue = None
    error: str | None = None


class Elimination(Record):
    candidate_id: str
    reason: str


class Explanation(Record):
    """Why this candidate and not another one."""

    conditions: tuple[ConditionTrace, ...] = ()
    eliminated: tuple[Elimination, ...] = ()


class LoopState(Record):
    """Executions of a looping step since its loop was entered, and how many it may have."""

    iteration: int
    max_iterations: int


class Supersedes(Record):
    """The decision that a newer one replaces: its commit and its seq in that commit's note."""

    commit: str
    seq: int


class Superseded(Record):
    """An entry of a routing note that takes the decisions before it back: a rollback came to this commit."""

    seq: int
    ts: str
    superseded_by: str
    reason: str


class Choice(Record):
    """What the driver decides: pure, without place or time."""

    decision: Action
    to_step: str | None
    reason: str
    routing_source: RoutingSource
    candidate_id: str
    candidates: tuple[Candidate, ...]
    loop_state: LoopState | None = None
    explanation: Explanation = Explanation()


class Decision(Choice):
    """A recorded choice: one entry of a routing note. `seq` counts from 1 within one note."""

    seq: int
    ts: str
    flow_key: str
    from_step: str | None
    iteration: int | None
    routing_mode: RoutingMode
    supersedes: Supersedes | None = None

    @property
    def choice(self) -> Choice:
        """The choice without its place, to record it again elsewhere."""
        return Choice.model_validate(self.model_dump(include=set(Choice.model_fields)))
