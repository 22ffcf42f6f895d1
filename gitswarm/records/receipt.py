from __future__ import annotations

from typing import Literal

from pydantic import JsonValue, NonNegativeInt

from gitswarm.records.base import Record, pretty_json
from gitswarm.records.engine_outcome import EngineOutcome

LoopDecision = Literal["loop", "advance", "terminate", "pending"]


ToolSource = Literal["sdk", "cli-observed", "script", "command"]


class Tokens(Record):
    prompt: NonNegativeInt = 0
    completion: NonNegativeInt = 0
    total: NonNegativeInt = 0

    @classmethod
    def of(cls, prompt: int, completion: int) -> Tokens:
        return cls(prompt=prompt, completion=completion, total=prompt + completion)


class ToolCall(Record):
    """One tool call of a step, the same shape for every transport (seed 003, PR7).

    `input` is what was asked for; `executed_input` what the policy made of it, where that is something else. A call
    that the policy denied is `blocked` and was not carried out. `source`: who carried it out: the `sdk`, the CLI
    (`cli-observed`), the stub's `script`, a `command` step. `agent`: of a call that a subagent made, its kind.
    """

    tool: str
    input: dict[str, JsonValue]
    executed_input: dict[str, JsonValue] | None = None
    source: ToolSource
    success: bool
    blocked: bool = False
    blocked_reason: str | None = None
    output: str = ""
    duration_ms: NonNegativeInt = 0
    agent: str | None = None


class ReceiptRouting(Record):
    """What the microloop rules say about a critic's own execution (seed 000)."""

    loop_iteration: NonNegativeInt
    max_iterations: int
    decision: LoopDecision
    reason: str


class ContextUse(Record):
    """How much of the run so far a prompt holds. Characters; `priorities` counts the included steps."""

    profile: Literal["lean", "balanced", "heavy"]
    budget_chars: NonNegativeInt
    chars_used: NonNegativeInt
    steps_included: NonNegativeInt
    steps_total: NonNegativeInt
    truncated: bool
    priorities: dict[str, int]


class Receipt(Record):
    """Execution metadata of one step, seed 000 plus the declared extensions (docs/contracts.md)."""

    engine: str
    mode: str
    provider: str
    model: str
    step_id: str
    flow_key: str
    run_id: str
    agent_key: str
    started_at: str
    completed_at: str
    duration_ms: NonNegativeInt
    status: Literal["succeeded", "failed"]
    tokens: Tokens
    transcript_path: str
    error: str | None = None
    routing: ReceiptRouting | None = None
    tools_allowed: tuple[str, ...] | None = None
    iteration: int
    station: str | None
    transport: str
    cost_usd: float | None
    tool_calls: tuple[ToolCall, ...]
    prompt_hash: str
    commit_before: str
    skipped: bool
    model_rule: str | None = None
    context: ContextUse | None = None
    outcome: EngineOutcome | None = None
    placeholders: tuple[str, ...] | None = None

    def to_json(self) -> bytes:
        """Optional fields are absent, not null; an unknown cost is null, never 0."""
        absent = {
            name
            for name in ("error", "routing", "tools_allowed", "model_rule", "context", "outcome", "placeholders")
            if getattr(self, name) is None
        }
        return pretty_json(self.model_dump(mode="json", exclude=absent))
