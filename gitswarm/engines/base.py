"""The port: what an engine is asked, what it answers, and what it can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.containment import UNCONTAINED, Containment
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, TranscriptLine
from gitswarm.records.evidence import CheckOutcome
from gitswarm.records.execution import Execution, Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome, Tokens, ToolCall
from gitswarm.records.routing import RouteAnswer, RouteQuestion
from gitswarm.records.safety import Decide, Deny, Scrub, Verdict
from gitswarm.specs.compile import Prompt

SESSION_MARKER = "SWARM_SESSION"
"""Environment variable of every process of a session; its value is the session's own."""

OUTPUT_BYTES = 50_000
"""A step's output stays below this (seed 000)."""

Emit = Callable[[Event], None]
"""Tells what happens inside a step; on disk when it returns.

:raises StepEndedError: the step was ended meanwhile; the engine lets that pass through, and does nothing more.
"""


class EngineAccess(Struct, frozen=True):
    """How a person reaches an engine from this machine: `env` for its processes only, keys among it, and the path of
    its program (None: found). Read anew by each process that executes a run, and stored nowhere. `unset`: a variable
    that `env` needs and nobody has set, with the key that names it: no session can be held."""

    env: Mapping[str, str] = field(default_factory=dict)
    cli: str | None = None
    unset: tuple[str, str] | None = None


class StepEndedError(Exception):
    """Nobody waits for this execution any more: it may not touch the worktree from here on."""


class CommandOrder(Struct, frozen=True):
    """What a command step runs. `shell` None: the project has no such command, so nothing can be judged. `asking`: a
    line to run in its place, which leaves reports in the empty folder `reports`; when it fails, and neither
    its output nor they are readable, the command is run once more as it stands."""

    name: str
    shell: str | None
    timeout_s: float
    asking: str | None = None
    reports: Path | None = None
    is_readable: Callable[[str, Mapping[str, bytes]], bool] = field(default=lambda _text, _files: True)


class SessionTerms(Struct, frozen=True):
    """What a session may use and has to hand over. `tools`: names of tools; empty: the engine's usual ones.
    `output_schema`: JSON schema of the handoff. `max_cost_usd`, `max_tokens`: of the step; None: no limit."""

    tools: tuple[str, ...] = ()
    max_turns: int = 15
    output_schema: Mapping[str, JsonValue] = field(default_factory=dict)
    max_cost_usd: float | None = None
    max_tokens: int | None = None


class StepRequest(Struct, frozen=True):
    """One execution. `executed` counts the committed ones before it, from 0; outputs are relative to the worktree
    (`RUN_BASE` spelled out) and without globs; `promised` are those, in RUN_BASE, that have to be there afterwards.
    `decide` is asked before every tool call; what it denies is not carried out. `ended` is set when nobody waits
    for the step any more: who waits inside an engine waits for that too. `scrub`: for output that is cut, as half a
    secret is not found any more. `withheld`: names of variables that a person has set and the step does not get.
    `scratch`: where the engine may make folders of its own; the next owner of the run removes what is left there.
    `containment`: of every process that works for the step. `deadline`: on the monotonic clock, when the budget has
    no time left; None: it has no such limit. `set_by`: what people call that limit. `keeps`: a folder, not there yet,
    for what a later execution needs to continue this conversation, if a failure of the provider that may pass ends
    it; `continues`: such a folder of an earlier execution, whose conversation has `prompt` as its next message."""

    execution: Execution
    executed: int
    mode: str
    model: str
    worktree: Path
    run_base: Path
    prompt: Prompt
    outputs: tuple[str, ...]
    env: Mapping[str, str]
    scratch: Path
    decide: Decide
    withheld: frozenset[str] = frozenset()
    promised: tuple[str, ...] = ()
    terms: SessionTerms = SessionTerms()
    command: CommandOrder | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    scrub: Scrub = field(default=str)
    containment: Containment = UNCONTAINED
    deadline: float | None = field(default=None)
    set_by: str = field(default="--max-time")
    keeps: Path | None = None
    continues: Path | None = None


def no_tools(tool: str, given: Mapping[str, JsonValue]) -> Verdict:
    """Denies every call."""
    del tool, given
    return Deny("tool", "a navigator only answers", "answer from what you were given")


class RouteTerms(Struct, frozen=True):
    """Of a session that only answers, about an execution that `flow_key`, `step_id` and `execution` name as in
    `StepRequest`. `worktree`: its working directory; it reads and changes nothing there. `scratch` and `containment`
    as in `StepRequest`. It has no tools."""

    flow_key: str
    step_id: str
    execution: int
    model: str
    worktree: Path
    scratch: Path
    env: Mapping[str, str]
    decide: Decide = no_tools
    scrub: Scrub = str
    containment: Containment = UNCONTAINED


class StepResult(Struct, frozen=True):
    """What an engine returns (seed 000). `cost_usd` None is unknown; `handoff` None: the agent said nothing that
    can be used, and `handoff_problem` why. `report_text`: what the project's own command printed, whole;
    `report_files`: reports that it was asked for. `trailers`: what the step's commit says besides; only the kernel
    has something to say there. `outcome`: how a session ended; None where there is none. `model`: the one that
    answered, where that is another than was asked. `placeholders`: promised outputs that a stub filled in, or left.
    `facts`: what an operation of the kernel found; `brought`: the tree that it made of
    the code, with the work of others.
    `started_at`, `completed_at`: ISO 8601, filled in by the runner."""

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
    report_files: Mapping[str, bytes] = field(default_factory=dict)
    trailers: Mapping[str, str] = field(default_factory=dict)
    outcome: EngineOutcome | None = None
    model: str | None = None
    placeholders: tuple[str, ...] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    brought: str | None = None
    started_at: str = ""
    completed_at: str = ""


class Capabilities(Struct, frozen=True):
    """What a transport can do (seed 003's matrix, with what is true today). `git swarm engines` prints it.

    `session`: a model works in it, in phases. `output_format`: the transport itself holds the handoff to its schema.
    `interrupts`: it can be ended at any moment, with everything that it started. `hooks`: of the transport, before
    each tool call. `hot_context`: the handoff is asked for in the context of the work. `streaming`: events come while
    it works. `rewind`: it can take back what it did by itself. `native_tools`: tools are its own. `tool_observation`:
    each call is seen; `tool_interception`: and can be denied or changed before it is carried out. `project_context`:
    it can read the project's own settings for agents. `max_context_tokens` 0: there is no context.
    """

    session: bool
    output_format: bool
    interrupts: bool
    hooks: bool
    hot_context: bool
    streaming: bool
    rewind: bool
    native_tools: bool
    tool_observation: bool
    tool_interception: bool
    project_context: bool
    max_context_tokens: int


class Engine(Protocol):
    @property
    def engine_id(self) -> str: ...

    @property
    def mode(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def run(self, request: StepRequest, emit: Emit) -> StepResult: ...

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        """Where the run should continue.

        :raises TimeoutError: there was no answer in time.
        """

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Where its sessions ask their model, as `host:port`: what they reach from the sandbox.

        :param env: the agent's.
        """


class WithoutModel:
    """The rest of an engine that asks none."""

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        del question, terms
        return RouteAnswer()

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        del env
        return ()


SESSION_WORK = Capabilities(
    session=True,
    output_format=True,
    interrupts=True,
    hooks=True,
    hot_context=True,
    streaming=True,
    rewind=False,
    native_tools=True,
    tool_observation=True,
    tool_interception=True,
    project_context=False,
    max_context_tokens=0,
)
"""Of an engine with sessions, where it says nothing else."""

LOCAL_WORK = replace(
    SESSION_WORK, session=False, output_format=False, hooks=False, hot_context=False, native_tools=False
)
"""Of an engine without a model."""


def capped(text: str) -> str:
    """`text` below OUTPUT_BYTES in UTF-8, its end kept: that is where outcomes stand."""
    raw = text.encode()
    if len(raw) < OUTPUT_BYTES:
        return text
    note = "[… beginning left out …]\n"
    return note + raw[-(OUTPUT_BYTES - len(note.encode()) - 4) :].decode(errors="ignore")
