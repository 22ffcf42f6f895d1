"""Gemini CLI as an engine: it works, and hands over in its last message, which is asked for again until it is one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines.adapter import EngineSetup, SessionSettings
from gitswarm.engines.agent_process import AgentProcess, agent_process
from gitswarm.engines.agent_session import (
    FINALIZE_S,
    NAVIGATOR,
    USUAL_TOOLS,
    SessionEnd,
    SessionLimits,
    discard,
    host_and_port,
    named_model,
    no_answer,
    session_folder,
    session_result,
    token_cost,
    used_up,
)
from gitswarm.engines.base import Capabilities, Emit, RouteTerms, StepEndedError, StepRequest, StepResult
from gitswarm.engines.gemini.gemini_cli import CAPABILITIES, find_program
from gitswarm.engines.gemini.gemini_events import EventReader, GeminiHookPolicy, process_outcome
from gitswarm.engines.gemini.settings_home import SettingsHome, arguments, as_prompt
from gitswarm.engines.handoff import (
    MOST_ASKED,
    LastMessage,
    handoff_request,
    read_last_message,
    repeated_request,
)
from gitswarm.engines.hook_server import serve_hooks
from gitswarm.engines.recorder import Recorder
from gitswarm.errors import StorageError
from gitswarm.records.budget import time_words
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.records.routing import RouteAnswer, RouteQuestion
from gitswarm.records.safety import Decide

_PROVIDER = "https://generativelanguage.googleapis.com"
_HANDING_OVER = ("ok", "max_turns")
"""How work may have ended that can be handed over."""
_ADDITIONS = (
    "definitions of its tools; today's date, the operating system, the working directory and a folder for temporary "
    "files; the GEMINI.md of the project; behind the task the JSON schema of the handoff"
)


class GeminiEngine(Struct, frozen=True):
    setup: EngineSetup
    settings: SessionSettings
    mode: str
    engine_id: str = "gemini-step"
    capabilities: Capabilities = CAPABILITIES

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        """
        :raises StepEndedError: nobody waits for it any more.
        :raises StorageError: what happened cannot be recorded.
        """
        started = time.monotonic()
        recorder = Recorder(request, self.setup.clock, emit, "cli-observed")
        recorder.prompt(request.prompt)
        used, last, model = (0, 0), LastMessage(""), request.model
        try:
            with self._session(request, recorder, request.prompt.system, request.ended) as session:
                if isinstance(session, EngineOutcome):
                    outcome = session
                else:
                    try:
                        outcome, last = self._worked(session, request, started)
                    finally:
                        used, model = session.used, session.answered_by or model
        except (StepEndedError, StorageError):
            raise
        except Exception as error:  # noqa: BLE001 - what was recorded is worth more than where it broke
            recorder.abandon(f"no result: the step broke: {type(error).__name__}")
            outcome = EngineOutcome(kind="killed", detail=f"{type(error).__name__}: {error}")
        other = None if model == request.model else model
        cost = self._price(request.model, used, model)
        end = SessionEnd(outcome, last.handoff or "", last.text, other, Tokens.of(*used), cost)
        return session_result("gemini", request, recorder, started, end)

    def _worked(
        self, session: GeminiSession, request: StepRequest, started: float
    ) -> tuple[EngineOutcome, LastMessage]:
        """The work, and its handoff as often as it has to be asked for."""
        terms = request.terms
        text = f"{request.prompt.user}\n\n{handoff_request(terms.output_schema)}"
        work = session.prompt(
            SessionPrompt(text, terms.tools or USUAL_TOOLS, terms.max_turns, terms.max_tokens, terms.max_cost_usd),
            SessionLimits.of_step(request, started, self.settings.step_timeout),
        )
        last = _record_last_message(session, work)
        if work.kind not in _HANDING_OVER or session.conversation is None:
            return work, last
        asked, limits = 0, SessionLimits.within(FINALIZE_S)
        while last.handoff is None and asked < MOST_ASKED:
            asked += 1
            problem = last.problem if work.kind == "ok" or asked > 1 else "there were no turns left for one"
            question = repeated_request(problem, terms.output_schema)
            session.recorder.note("user", question)
            final = session.prompt(SessionPrompt(question), limits)
            again = _record_last_message(session, final)
            last = LastMessage(again.text or last.text, again.handoff, again.problem)
            if final.kind != "ok":
                return EngineOutcome(kind="no_envelope", detail=final.detail or final.kind), last
        if last.handoff is None:
            detail = f"{last.problem}, also when it was asked for {MOST_ASKED} times more"
            return EngineOutcome(kind="no_envelope", detail=detail), last
        return work, last

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        """
        :raises TimeoutError: there was no answer in time.
        """
        recorder = Recorder(terms, self.setup.clock, discard, "cli-observed")
        with self._session(terms, recorder, NAVIGATOR, threading.Event()) as session:
            if isinstance(session, EngineOutcome):
                return RouteAnswer(problem=no_answer(session))
            outcome = session.prompt(SessionPrompt(question.prompt), SessionLimits.within(question.timeout_s))
            if outcome.kind == "killed":
                raise TimeoutError
            tokens, cost = Tokens.of(*session.used), self._price(terms.model, session.used, session.answered_by)
            if outcome.kind == "ok":
                return RouteAnswer(session.last, tokens, cost)
            return RouteAnswer(None, tokens, cost, no_answer(outcome))

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        env = self.setup.environment(env)
        return (host_and_port(env.get("GOOGLE_GEMINI_BASE_URL") or _PROVIDER),)

    def _price(self, model: str, used: tuple[int, int], answered_by: str | None = None) -> float | None:
        """The price at the list price of fresh input: what the provider takes off for cached input is not known here.

        :param answered_by: where it is known already; a version of `model` costs what that does.
        """
        named = answered_by if answered_by and not answered_by.startswith(model) else model
        return token_cost(self.setup.prices(named), *used)

    @contextmanager
    def _session(
        self, request: StepRequest | RouteTerms, recorder: Recorder, system: str, is_over: threading.Event
    ) -> Iterator[GeminiSession | EngineOutcome]:
        """A session with a home while the block lasts; or why there can be none."""
        env = self.setup.environment(request.env)
        program = find_program(self.setup.access.cli, env)
        if program.path is None or program.problem is not None:
            yield EngineOutcome(kind="engine_missing", detail=program.message)
            return
        recorder.note("system", f"Gemini CLI {program.version} adds: {_ADDITIONS}.")
        with session_folder(request.scratch) as folder:
            (folder / "1").mkdir()
            yield GeminiSession(
                home=SettingsHome(folder / "1", program.path, self.settings.attempts),
                context=SessionContext(request.worktree, request.containment, is_over),
                env=env,
                decide=request.decide,
                recorder=recorder,
                price=lambda used: self._price(request.model, used),
                system=system,
                model=named_model(request.model),
            )


def _record_last_message(session: GeminiSession, outcome: EngineOutcome) -> LastMessage:
    """The last message, recorded; of a session that failed it hands nothing over."""
    last = read_last_message(session.last) if outcome.kind == "ok" else LastMessage(session.last)
    if last.text.strip():
        session.recorder.say(last.text.strip())
    if last.handoff is not None:
        session.recorder.note("assistant", session.last)
    return last


Price = Callable[[tuple[int, int]], float | None]
"""US dollars for tokens in and out; None: not known."""


class SessionPrompt(Struct, frozen=True):
    """What a process is told. `tools`: as stations call them; none: it only answers. `max_turns` -1: no limit.
    `max_tokens`, `max_cost_usd`: of the whole conversation."""

    text: str
    tools: tuple[str, ...] = ()
    max_turns: int = -1
    max_tokens: int | None = None
    max_cost_usd: float | None = None


class SessionContext(Struct, frozen=True):
    """Where a session works; its containment is not opened for it yet."""

    worktree: Path
    containment: Containment
    ended: threading.Event


class GeminiSession(Struct):
    """`home`: of the process that is next or at work. `env`: the agent's, with what the caller set for Gemini.
    `model` None: the CLI's own choice. `used`: tokens in and out of what is over. `last`: what the last process said
    last. `answered_by`: the model, as the provider calls it. `before`: what the conversation says was used before the
    process at work."""

    home: SettingsHome
    context: SessionContext
    env: Mapping[str, str]
    decide: Decide
    recorder: Recorder
    price: Price
    system: str
    model: str | None
    conversation: str | None = None
    used: tuple[int, int] = (0, 0)
    last: str = ""
    answered_by: str | None = None
    before: tuple[int, int] = (0, 0)

    def prompt(self, prompt: SessionPrompt, limits: SessionLimits) -> EngineOutcome:
        """One process, to its end.

        :raises StepEndedError: nobody waits for it any more.
        """
        if self.conversation is not None:
            folder = self.home.folder.with_name(f"{int(self.home.folder.name) + 1}")
            folder.mkdir()
            self.home = self.home.continued(folder)
        env = self.home.environment(self.env)
        opened = self.home.contained(self.context.containment, env)
        gate, self.before = GeminiHookPolicy(self.decide), self.home.used()
        reader = EventReader(self.recorder, gate)
        argv = arguments(self.home.program, self.model, self.conversation)
        with serve_hooks(self.home.folder, gate) as socket:
            self.home.write(self.system, prompt.tools, prompt.max_turns, socket, opened.depth)
            try:
                with agent_process(argv, replace(self.context, containment=opened), env, limits.deadline) as agent:
                    agent.say_all(as_prompt(prompt.text, self.context.worktree))
                    outcome = self._listen(agent, reader, prompt, limits)
            except OSError as error:
                return EngineOutcome(kind="engine_missing", detail=f"cannot start {argv[0]}: {error.strerror}")
            finally:
                self.recorder.close()
                earlier, self.used = self.used, self._so_far(reader)
        if self.used != earlier:
            self._report(self.used)
        self.conversation = reader.session or self.conversation
        self.last, self.answered_by = reader.text, reader.model or self.answered_by
        return outcome

    def _listen(
        self, agent: AgentProcess, reader: EventReader, prompt: SessionPrompt, limits: SessionLimits
    ) -> EngineOutcome:
        seen, began = self.used, time.monotonic()
        try:
            for line in agent.lines():
                reader.read(line)
                if reader.unjudged is not None:
                    return process_outcome(reader, None, "")
                if reader.is_between_answers:
                    now = self._so_far(reader)
                    if now != seen:
                        seen = now
                        self._report(now)
                    over = self._too_much(now, prompt)
                    if over is not None and not reader.is_over:
                        return EngineOutcome(kind="budget", detail=over)
        except TimeoutError:
            took = time_words(limits.deadline - began)
            if limits.set_by:
                return EngineOutcome(kind="budget", detail=f"ended after {took} by {limits.set_by}")
            return EngineOutcome(kind="killed", detail=f"no end after {limits.deadline - began:.0f} s: it was ended")
        return process_outcome(reader, agent.exit_code, agent.complaints)

    def _so_far(self, reader: EventReader) -> tuple[int, int]:
        now = self.home.used()
        sent, made = reader.tokens or (now[0] - self.before[0], now[1] - self.before[1])
        return self.used[0] + sent, self.used[1] + made

    def _report(self, used: tuple[int, int]) -> None:
        self.recorder.used(Tokens.of(*used), self.price(used))

    def _too_much(self, used: tuple[int, int], prompt: SessionPrompt) -> str | None:
        over, cost, most = used_up(sum(used), prompt.max_tokens), self.price(used), prompt.max_cost_usd
        if over is None and most is not None and cost is not None and cost >= most:
            return f"${cost:.2f} used of ${most:.2f} that were left"
        return over
