"""The port: what an engine is asked, what it answers, and what it can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event
from gitswarm.records.evidence import CheckOutcome
from gitswarm.records.outcome import Result
from gitswarm.records.policy import Decide
from gitswarm.records.receipt import Tokens, ToolCall
from gitswarm.records.secrets import Scrub
from gitswarm.records.transcript import TranscriptLine
from gitswarm.specs.compile import Prompt

OUTPUT_BYTES = 50_000
"""A step's output stays below this (seed 000)."""

Emit = Callable[[Event], None]
"""Tells what happens inside a step; on disk when it returns.

:raises StepEndedError: the step was ended meanwhile; the engine lets that pass through, and does nothing more.
"""


class StepEndedError(Exception):
    """Nobody waits for this execution any more: it may not touch the worktree from here on."""


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """What a command step runs. `shell` None: the project has no such command, so nothing can be judged."""

    name: str
    shell: str | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One execution. `execution` counts the committed ones before it, from 0; outputs are relative to the
    worktree (`RUN_BASE` spelled out) and without globs. `decide` is asked before every tool call; what it denies is
    not carried out. `ended` is set when nobody waits for the step any more: who waits inside an engine waits for
    that too. `scrub`: for output that is cut, as half a secret is not found any more."""

    run_id: str
    flow_key: str
    step_id: str
    iteration: int
    execution: int
    agent_key: str
    mode: str
    model: str
    worktree: Path
    run_base: Path
    prompt: Prompt
    outputs: tuple[str, ...]
    env: Mapping[str, str]
    decide: Decide
    command: CommandOrder | None = None
    ended: threading.Event = field(default_factory=threading.Event, compare=False)
    scrub: Scrub = field(default=str, compare=False)


@dataclass(frozen=True, slots=True)
class RouteQuestion:
    """Where the run goes on after an execution; `execution` counts as in `StepRequest`. `schema`: of the answer."""

    flow_key: str
    step_id: str
    execution: int
    prompt: str
    schema: Mapping[str, JsonValue]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an engine answers (seed 000). `cost_usd` None is unknown; `handoff` None: the agent said nothing
    that can be used, and `handoff_problem` why. `report_text`: what the project's own command printed, whole.
    `trailers`: what the step's commit says besides; only the kernel has something to say there."""

    step_id: str
    status: Result
    output: str
    error: str | None = None
    duration_ms: int = 0
    handoff: Handoff | None = None
    handoff_problem: str | None = None
    transcript: tuple[TranscriptLine, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = 0.0
    check: CheckOutcome | None = None
    report_text: str = ""
    trailers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do today; seed 003's matrix grows with the transports."""

    modes: tuple[str, ...]
    session: bool
    writes_code: bool


class Engine(Protocol):
    @property
    def engine_id(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def run(self, request: StepRequest, emit: Emit) -> StepResult: ...

    def route(self, question: RouteQuestion) -> JsonValue | str:
        """Where the run should go on: the answer as JSON, or the text that came instead; None: nothing to say.

        :raises TimeoutError: there was no answer in time.
        """


def capped(text: str) -> str:
    """`text` below OUTPUT_BYTES in UTF-8, its end kept: that is where outcomes stand."""
    raw = text.encode()
    if len(raw) < OUTPUT_BYTES:
        return text
    note = "[… beginning left out …]\n"
    return note + raw[-(OUTPUT_BYTES - len(note.encode()) - 4) :].decode(errors="ignore")
