"""How a session of an engine ended, and what an interrupted step left."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from gitswarm.records.base import Record

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

    `ok`: it came to its end. `denied`: it ended because a call was denied, not merely after one. `max_turns`,
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
    attempts: NonNegativeInt = 1


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
