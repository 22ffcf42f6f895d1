"""Claude as an engine: work, then finalize in the same context; route only when asked."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from gitswarm.engines.base import (
    Capabilities,
    Emit,
    RouteAnswer,
    RouteQuestion,
    SessionTerms,
    StepRequest,
    StepResult,
)
from gitswarm.engines.claude.conversation import Conversation
from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.handing_over import Worked, step_result
from gitswarm.engines.claude.holding import Watch
from gitswarm.engines.claude.order import SessionOrder, Transport
from gitswarm.engines.claude.phases import Phase, Phases
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.program import Program, find_program, has_sdk
from gitswarm.engines.recorder import Recorder
from gitswarm.records.base import Clock
from gitswarm.records.event import Event
from gitswarm.records.outcome import EngineOutcome
from gitswarm.records.policy import Deny, Verdict
from gitswarm.records.receipt import Tokens, ToolSource
from gitswarm.specs.compile import Prompt

USUAL_TOOLS = ("Read", "Write", "Edit", "Bash", "Grep", "Glob")
"""For a station that names none."""

FINALIZE = (
    "The work of this step is over, and no tools are left. Hand over now: fill in the handoff from what you did and "
    "saw in this session, by the rules that you were given for its status. What you did not check you did not verify."
)
_FINALIZE_S = 300.0
_NAVIGATOR = (
    "You are the navigator of a run of software agents. You choose where it goes on, from what you are given."
)
_SOURCES: Mapping[str, ToolSource] = {"sdk": "sdk", "cli": "cli-observed"}
_NO_MODEL = ("default", "none")

CAPABILITIES = Capabilities(
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
    project_context=True,
    max_context_tokens=200_000,
)
"""Of both transports: the seeds' matrix says less of the CLI, which is not true any more (docs/engines.md)."""


@dataclass(frozen=True, slots=True)
class ClaudeEngine:
    transport: Transport
    profile: ClaudeProfile
    clock: Clock
    engine_id: str = "claude-step"
    capabilities: Capabilities = CAPABILITIES

    @property
    def mode(self) -> str:
        return self.transport.mode

    def find_program(self, env: Mapping[str, str]) -> Program:
        """The program that its sessions run, or why there is none."""
        if self.mode == "sdk" and not has_sdk():
            how = "pip install 'git-swarm[claude]', or --mode cli"
            return Program(None, problem=f"claude-agent-sdk is not installed: {how}")
        return find_program(self.profile.access, env, bundled_first=self.mode == "sdk")

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        started = time.monotonic()
        env = self.profile.environment(request.env)
        recorder = Recorder(request, self.clock, emit, _SOURCES[self.mode])
        recorder.prompt(request.prompt)
        with _own_folder(request.scratch) as folder:
            program = self.find_program(env)
            if program.path is None or program.problem is not None:
                work = Phase(EngineOutcome(kind="engine_missing", detail=program.problem or ""))
                return step_result(request, recorder, Worked(self.profile, started, work))
            order = _work_order(request, self.profile, program.path, folder, env)
            gate = Gate(request.decide, self.profile.decision_s)
            until = Watch(
                started + self.profile.settings.step_timeout, self.profile.settings.step_timeout, request.ended
            )
            work = self._phases(lambda: Conversation(recorder, gate, emit)).run(order, until)
            final = None
            if work.session is not None and work.outcome.kind in ("ok", "max_turns", "denied"):
                recorder.note("user", FINALIZE)
                order = _finalize_order(order, request, work.session)
                until = Watch(time.monotonic() + _FINALIZE_S, _FINALIZE_S, request.ended)
                final = self._phases(lambda: Conversation(recorder, gate, emit, is_told=False)).run(
                    order, until, work
                )
        return step_result(request, recorder, Worked(self.profile, started, work, final))

    def route(self, question: RouteQuestion) -> RouteAnswer:
        request = _as_request(question, self.mode)
        env = self.profile.environment(question.env)
        recorder = Recorder(request, self.clock, _unheard, _SOURCES[self.mode])
        with _own_folder(question.scratch) as folder:
            program = self.find_program(env)
            if program.path is None or program.problem is not None:
                return RouteAnswer(f"(no answer: {program.problem})")
            order = _route_order(request, self.profile, program.path, folder, env)
            gate = Gate(request.decide, self.profile.decision_s)
            watch = Watch(time.monotonic() + question.timeout_s, question.timeout_s, request.ended)
            answered = self._phases(lambda: Conversation(recorder, gate, _unheard)).run(order, watch)
        if answered.outcome.kind == "killed":
            raise TimeoutError
        usage = answered.usage
        cost = self.profile.cost(usage.cost_usd, answered.model or question.model, (usage.prompt, usage.completion))
        answer = answered.structured
        if answer is None and answered.outcome.kind == "ok":
            answer = answered.text
        elif answer is None:
            answer = f"(no answer: {answered.outcome.kind}: {answered.outcome.detail})"
        return RouteAnswer(answer, Tokens.of(usage.prompt, usage.completion), cost)

    def _phases(self, start: Callable[[], Conversation]) -> Phases:
        return Phases(self.transport, start, self.profile.settings.attempts, self.profile.retry_wait_s)


@contextmanager
def _own_folder(scratch: Path) -> Iterator[Path]:
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _work_order(
    request: StepRequest, profile: ClaudeProfile, program: Path, folder: Path, env: Mapping[str, str]
) -> SessionOrder:
    terms = request.terms
    return SessionOrder(
        prompt=request.prompt.user,
        cwd=request.worktree,
        folder=folder,
        env=env,
        settings=profile.settings,
        program=program,
        tools=terms.tools or USUAL_TOOLS,
        system=request.prompt.system,
        model=None if request.model in _NO_MODEL else request.model,
        max_turns=terms.max_turns,
        max_cost_usd=terms.max_cost_usd,
    )


def _finalize_order(order: SessionOrder, request: StepRequest, session: str) -> SessionOrder:
    return replace(
        order, prompt=FINALIZE, tools=(), max_turns=None, schema=request.terms.output_schema, resume=session
    )


def _route_order(
    request: StepRequest, profile: ClaudeProfile, program: Path, folder: Path, env: Mapping[str, str]
) -> SessionOrder:
    order = _work_order(request, profile, program, folder, env)
    return replace(order, tools=(), max_turns=None, bare=True, schema=request.terms.output_schema)


def _as_request(question: RouteQuestion, mode: str) -> StepRequest:
    """A navigator's session has no tools and leaves nothing behind: its answer says it all."""

    def deny(_tool: str, _given: Mapping[str, JsonValue]) -> Verdict:
        return Deny("tool", "a navigator only answers", "answer from what you were given")

    return StepRequest(
        run_id="",
        flow_key=question.flow_key,
        step_id=question.step_id,
        iteration=question.execution + 1,
        execution=question.execution,
        agent_key="navigator",
        mode=mode,
        model=question.model,
        worktree=question.folder,
        run_base=question.folder,
        prompt=Prompt(_NAVIGATOR, question.prompt),
        outputs=(),
        env=question.env,
        scratch=question.scratch,
        decide=deny,
        terms=SessionTerms(output_schema=question.schema),
    )


def _unheard(_event: Event) -> None:
    """Nobody follows a navigator."""
