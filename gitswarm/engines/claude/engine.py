"""Claude as an engine: work, then finalize in the same context; route only when asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Uncontained
from gitswarm.engines.adapter import Program
from gitswarm.engines.agent_session import (
    FINALIZE,
    FINALIZE_S,
    NAVIGATOR,
    SessionLimits,
    discard,
    named_model,
    no_answer,
    session_folder,
)
from gitswarm.engines.base import (
    Capabilities,
    Emit,
    RouteTerms,
    StepEndedError,
    StepRequest,
    StepResult,
)
from gitswarm.engines.claude.anthropic_api import ask_directly, is_installed
from gitswarm.engines.claude.claude_code import CAPABILITIES, INSTALL_SDK, SessionOptions, find_program, sdk_version
from gitswarm.engines.claude.provider import (
    ClaudeProfile,
    StoredSession,
    config_folder,
    keep_session,
    restore_session,
)
from gitswarm.engines.claude.session import Conversation, HookPolicy, Meter, Phases
from gitswarm.engines.claude.session_outcome import Phase, StepPhases, step_result
from gitswarm.engines.claude.transports import (
    Transport,
    confined_options,
    finalize_options,
    route_options,
    work_options,
)
from gitswarm.engines.recorder import Recorder
from gitswarm.errors import StorageError
from gitswarm.records.receipt import EngineOutcome, Tokens, ToolSource
from gitswarm.records.record import Clock
from gitswarm.records.routing import RouteAnswer, RouteQuestion

_HANDING_OVER = ("ok", "max_turns", "denied")
"""How work may have ended that can be handed over."""
_REFUSED_KEY = (401, 402, 403)
"""HTTP statuses that another key, or money, may change."""
_SOURCES: Mapping[str, ToolSource] = {"sdk": "sdk", "cli": "cli-observed"}


class ClaudeEngine(Struct, frozen=True):
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
        is_sdk = self.mode == "sdk"
        sdk = sdk_version() if is_sdk else ""
        if is_sdk and not sdk:
            return Program(None, problem="claude-agent-sdk is not installed", advice=INSTALL_SDK)
        program = find_program(self.profile.access, env, bundled_first=is_sdk)
        program = replace(program, library=f"claude-agent-sdk {sdk}" if is_sdk else "")
        folder = self.profile.unkept(env)
        if program.problem is not None or folder is None:
            return program
        what = f"claude cannot keep its conversations in {folder}"
        return replace(program, problem=what, advice="export CLAUDE_CONFIG_DIR=FOLDER")

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        """
        :raises StepEndedError: nobody waits for it any more.
        :raises StorageError: what happened cannot be recorded.
        """
        recorder = Recorder(request, self.clock, emit, _SOURCES[self.mode])
        meter = Meter(self.profile.price, recorder.used)
        phases = StepPhases(self.profile, time.monotonic(), Phase(EngineOutcome(kind="engine_missing")))
        try:
            recorder.prompt(request.prompt)
            with self._prepared(request, recorder, partial(work_options, request, self.profile)) as options:
                if isinstance(options, EngineOutcome):
                    phases.work = Phase(options)
                    return step_result(request, recorder, phases)
                resumed = options
                if request.continues is not None:
                    stored = restore_session(request.continues, config_folder(options.env))
                    resumed, phases.earlier = replace(options, resume=stored.id), stored.usage
                    phases.work = Phase(EngineOutcome(kind="ok"), usage=stored.usage)
                hooks = HookPolicy(request.decide, self.profile.decision_s)
                start = partial(Conversation, recorder, hooks, emit, meter)
                limits = SessionLimits.of_step(request, phases.started, self.profile.settings.step_timeout)
                phases.work = work = self._phases(start).run(resumed, limits, phases.earlier)
                _keep(request, options, work)
                if work.structured is not None:
                    phases.final = work
                elif work.session is not None and work.outcome.kind in _HANDING_OVER:
                    recorder.note("user", FINALIZE)
                    last = finalize_options(options, work.session)
                    limits = SessionLimits.within(FINALIZE_S, request.ended)
                    phases.final = self._phases(partial(start, is_told=False)).run(last, limits, work.usage)
        except (StepEndedError, StorageError):
            raise
        except Exception as error:  # noqa: BLE001 - what was recorded is worth more than where it broke
            recorder.abandon(f"no result: the step broke: {type(error).__name__}")
            phases.end_broken(error, meter.usage)
        return step_result(request, recorder, phases)

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        """Asks by a request where there is a key for the API and the extra `navigator`, else in a session; asks
        nobody where only the extra is missing.

        :raises TimeoutError: there was no answer in time.
        """
        access = self.profile.direct(terms.env)
        if access is None or named_model(terms.model) is None:
            return self._route_in_session(question, terms)
        if not is_installed():
            return RouteAnswer()
        return ask_directly(question, NAVIGATOR, terms.model, access)

    def _route_in_session(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        recorder = Recorder(terms, self.clock, discard, _SOURCES[self.mode])
        hooks = HookPolicy(terms.decide, self.profile.decision_s)
        limits = SessionLimits.within(question.timeout_s)
        meter = Meter(self.profile.price, recorder.used)
        with self._prepared(terms, recorder, partial(route_options, question, terms, self.profile)) as options:
            if isinstance(options, EngineOutcome):
                return RouteAnswer(problem=no_answer(options))
            answered = self._phases(lambda: Conversation(recorder, hooks, discard, meter)).run(options, limits)
        if answered.outcome.kind == "killed":
            raise TimeoutError
        usage = answered.usage
        tokens = Tokens.of(usage.prompt, usage.completion)
        cost = self.profile.cost(usage.cost_usd, answered.model or terms.model, (usage.prompt, usage.completion))
        if answered.structured is not None:
            return RouteAnswer(answered.structured, tokens, cost)
        if answered.outcome.kind == "ok":
            return RouteAnswer(answered.text, tokens, cost)
        return RouteAnswer(None, tokens, cost, no_answer(answered.outcome))

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return self.profile.hosts(env)

    @contextmanager
    def _prepared(
        self, request: StepRequest | RouteTerms, recorder: Recorder, options: Callable[[Path, Path], SessionOptions]
    ) -> Iterator[SessionOptions | EngineOutcome]:
        """A session with a folder of its own while the block lasts, and in the transcript what the program adds to
        its prompt; or why there can be no session.

        :param options: makes it from its program and its folder.
        """
        program = self.find_program(self.profile.environment(request.env))
        if program.path is None or program.problem is not None:
            yield EngineOutcome(kind="engine_missing", detail=program.message)
            return
        recorder.note("system", self.profile.additions(program.version))
        with session_folder(request.scratch) as folder:
            made = options(program.path, folder)
            confined = not isinstance(request.containment, Uncontained)
            with request.containment.served():
                yield confined_options(made, request.containment) if confined else made

    def _phases(self, start: Callable[[], Conversation]) -> Phases:
        return Phases(self.transport, start, self.profile.settings.attempts, self.profile.retry_wait_s)


def _keep(request: StepRequest, options: SessionOptions, work: Phase) -> None:
    """The conversation, where a later execution can continue it."""
    outcome = work.outcome
    may_pass = outcome.retryable or outcome.resets_at is not None or outcome.status in _REFUSED_KEY
    if outcome.kind == "api_error" and may_pass and work.session and work.has_spoken and request.keeps is not None:
        keep_session(config_folder(options.env), StoredSession(work.session, work.usage), request.keeps)
