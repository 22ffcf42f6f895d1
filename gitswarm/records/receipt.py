"""The receipt of an execution, how its session ended, and what it leaves where it was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Count, Record, pretty_json, short_form

LoopDecision = Literal["loop", "advance", "terminate", "pending"]

ToolSource = Literal["sdk", "cli-observed", "kernel-executed"]

_STUB = "stub"
_FORMAT_1_SOURCES = ("script", "command")
"""Of what git-swarm itself carried out: for the stub, and for everything else."""


def transport_of(engine: str, mode: str) -> str:
    """How a session was reached, as seed 003 names it: `claude-sdk`, `claude-cli`, `gemini-cli`, `stub`. `local`:
    there was none."""
    return mode if mode in (_STUB, "local") else f"{engine.removesuffix('-step')}-{mode}"


class Tokens(Record):
    prompt: Count = 0
    completion: Count = 0
    total: Count = 0

    @classmethod
    def of(cls, prompt: int, completion: int) -> Tokens:
        return cls(prompt=prompt, completion=completion, total=prompt + completion)


class ToolCall(Record):
    """One tool call of a step, the same shape for every transport (seed 003, PR7).

    `input` is what was asked for; `executed_input` what the policy made of it, where that is something else. A call
    that the policy denied is `blocked` and was not carried out. `source`: who carried it out: the `sdk`, the CLI
    (`cli-observed`), git-swarm itself (`kernel-executed`: for the stub, and in a command step). `agent`: of a call
    that a subagent made, its kind.
    """

    tool_name: str
    input: dict[str, JsonValue]
    executed_input: dict[str, JsonValue] | None = None
    source: ToolSource
    success: bool
    blocked: bool = False
    blocked_reason: str | None = None
    output: str = ""
    duration_ms: Count = 0
    agent: str | None = None


def _of_format_1(fields: object) -> object:
    """Format 1 has `tool`, and two words for what git-swarm itself carries out."""
    if not isinstance(fields, Mapping) or "tool" not in fields:
        return fields
    rest = {name: value for name, value in fields.items() if name != "tool"}
    own = rest.get("source") in _FORMAT_1_SOURCES
    return {"tool_name": fields["tool"], **rest, **({"source": "kernel-executed"} if own else {})}


class ReceiptRouting(Record):
    """What the microloop rules say about a critic's own execution (seed 000)."""

    loop_iteration: Count
    max_iterations: int
    decision: LoopDecision
    reason: str


class ContextUse(Record):
    """How much of the run so far a prompt holds. Characters; `priorities` counts the included steps."""

    profile: Literal["lean", "balanced", "heavy"]
    budget_chars: Count
    chars_used: Count
    steps_included: Count
    steps_total: Count
    truncated: bool
    priorities: dict[str, int]


class Receipt(Record):
    """Execution metadata of one step, seed 000 plus the declared extensions (docs/contracts.md). `continues`: the
    execution, `step@n`, whose conversation it continued."""

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
    duration_ms: Count
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
    tool_calls: tuple[Annotated[ToolCall, short_form(_of_format_1)], ...]
    prompt_hash: str
    commit_before: str
    skipped: bool
    model_rule: str | None = None
    context: ContextUse | None = None
    outcome: EngineOutcome | None = None
    placeholders: tuple[str, ...] | None = None
    sandbox: str | None = None
    network: tuple[str, ...] | None = None
    continues: str | None = None

    def to_json(self, run_format: int = 2) -> bytes:
        """Optional fields are absent, not null; an unknown cost is null, never 0.

        :param run_format: of the run that the receipt is stored in.
        """
        absent = {name for name in _OPTIONAL if getattr(self, name) is None}
        plain = self.to_plain(exclude=absent)
        return pretty_json(plain if run_format > 1 else {**plain, **self._in_format_1()})

    def _in_format_1(self) -> dict[str, JsonValue]:
        """The fields that format 1 has otherwise."""
        own = _FORMAT_1_SOURCES[self.mode != _STUB]
        calls: list[JsonValue] = []
        for call in self.tool_calls:
            rest = call.to_plain(exclude={"tool_name"})
            source = {"source": own} if call.source == "kernel-executed" else {}
            calls.append({"tool": call.tool_name, **rest, **source})
        return {"transport": self.mode, "tool_calls": calls}


_DEFAULTS = zip(reversed(Receipt.__struct_fields__), reversed(Receipt.__struct_defaults__), strict=False)
_OPTIONAL = tuple(name for name, default in _DEFAULTS if default is None)

OutcomeKind = Literal[
    "ok",
    "denied",
    "max_turns",
    "budget",
    "api_error",
    "interrupted",
    "killed",
    "no_envelope",
    "engine_missing",
]


class EngineOutcome(Record):
    """How a session of an engine ended, in our own words: read off its last result, never off an exit code alone.

    `ok`: it ended by itself. `denied`: it ended because a call was denied, not merely after one. `max_turns`,
    `budget`: its limits were reached. `api_error`: the provider refused or failed; `status` is HTTP's (None: no
    answer), `retryable` says whether the same may work later, `resets_at` when a usage limit ends (ISO 8601, or
    `unknown`).
    `interrupted`: a person or the owner ended it. `killed`: there was no result. `no_envelope`: the work ended, and
    no usable handoff came. `engine_missing`: the engine could not be started.
    """

    kind: OutcomeKind
    detail: str = ""
    status: int | None = None
    retryable: bool = False
    resets_at: str | None = None
    attempts: Count = 1


class PartialHandoff(Record):
    """`<flow>/handoff_partial.json` (seed 003). `kept` is the ref that holds the work as it was; `siblings` are the
    steps that were executed side by side: what each left is kept under a ref of its own."""

    run_id: str
    flow_key: str
    step_id: str
    iteration: int
    status: Literal["PARTIAL"] = "PARTIAL"
    end: int
    interrupted_at: str
    summary: str
    files: tuple[str, ...]
    kept: str
    siblings: tuple[str, ...] = ()


class KeptConversation(Record):
    """`kept.json`, beside the files of a conversation that a failure of its provider ended. `before`: the commit that
    its step began with; `worktree`: where its agent worked; `tree`: what that held then, with the run's files."""

    before: str
    worktree: str
    tree: str
