"""Gemini CLI as an engine: it works, and hands over in its last message, which is asked for again until it is one."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.base import Capabilities, Emit, RouteTerms, StepEndedError, StepRequest, StepResult, capped
from gitswarm.engines.gemini.gemini_cli import CAPABILITIES, GeminiSettings, find_program
from gitswarm.engines.gemini.session import AskedPlace, GeminiSession, Prompted, PromptLimits
from gitswarm.engines.gemini.settings_home import USUAL_TOOLS, SettingsHome
from gitswarm.engines.handoff import (
    MOST_ASKED,
    LastMessage,
    asked_again,
    asked_at_the_end,
    early_handoff,
    read_last_message,
)
from gitswarm.engines.recorder import Recorder
from gitswarm.errors import StorageError
from gitswarm.records.event import Event
from gitswarm.records.execution import Result
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.records.route_question import RouteAnswer, RouteQuestion

_PROVIDER = "https://generativelanguage.googleapis.com"
_NO_MODEL = ("default", "none")
_FINALIZE_S = 300.0
_HANDING_OVER = ("ok", "max_turns")
"""How work may have ended that can be handed over."""
_FAILURES = ("api_error", "killed", "interrupted", "engine_missing")
_NAVIGATOR = (
    "You are the navigator of a run of software agents. You choose where it goes on, from what you are given."
)
_ADDITIONS = (
    "definitions of its tools; today's date, the operating system, the working directory and a folder for temporary "
    "files; the GEMINI.md of the project; behind the task the JSON schema of the handoff"
)


class GeminiEngine(Struct, frozen=True):
    setup: EngineSetup
    settings: GeminiSettings
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
        failed = outcome.kind in _FAILURES
        why = outcome.detail or outcome.kind
        return StepResult(
            step_id=request.execution.step,
            status=Result.FAILED if failed else Result.SUCCEEDED,
            output=capped(last.text),
            error=f"gemini: {why}" if failed else None,
            duration_ms=int((time.monotonic() - started) * 1000),
            handoff=early_handoff(last.handoff, outcome) if last.handoff is not None else None,
            handoff_problem=None if last.handoff is not None else f"no handoff: {why}",
            transcript=recorder.transcript,
            tool_calls=recorder.tool_calls,
            tokens=Tokens.of(*used),
            cost_usd=self._price(request.model, used, model),
            outcome=outcome,
            model=None if model == request.model else model,
        )

    def _worked(
        self, session: GeminiSession, request: StepRequest, started: float
    ) -> tuple[EngineOutcome, LastMessage]:
        """The work, and its handoff as often as it has to be asked for."""
        terms = request.terms
        text = f"{request.prompt.user}\n\n{asked_at_the_end(terms.output_schema)}"
        work = session.prompted(
            Prompted(text, terms.tools or USUAL_TOOLS, terms.max_turns), self._limits(request, started)
        )
        last = _told(session, work)
        if work.kind not in _HANDING_OVER or session.conversation is None:
            return work, last
        asked, until = 0, time.monotonic() + _FINALIZE_S
        while last.handoff is None and asked < MOST_ASKED:
            asked += 1
            problem = last.problem if work.kind == "ok" or asked > 1 else "there were no turns left for one"
            question = asked_again(problem, terms.output_schema)
            session.recorder.note("user", question)
            final = session.prompted(Prompted(question), PromptLimits(until))
            again = _told(session, final)
            last = LastMessage(again.text or last.text, again.handoff, again.problem)
            if final.kind != "ok":
                return EngineOutcome(kind="no_envelope", detail=final.detail or final.kind), last
        if last.handoff is None:
            detail = f"{last.problem}, also when it was asked for {MOST_ASKED} times more"
            return EngineOutcome(kind="no_envelope", detail=detail), last
        return work, last

    def _limits(self, request: StepRequest, started: float) -> PromptLimits:
        until, terms = started + self.settings.step_timeout, request.terms
        if request.deadline is not None and request.deadline < until:
            return PromptLimits(request.deadline, request.set_by, terms.max_tokens, terms.max_cost_usd)
        return PromptLimits(until, "", terms.max_tokens, terms.max_cost_usd)

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        """
        :raises TimeoutError: there was no answer in time.
        """
        recorder = Recorder(terms, self.setup.clock, _unheard, "cli-observed")
        with self._session(terms, recorder, _NAVIGATOR, threading.Event()) as session:
            if isinstance(session, EngineOutcome):
                return RouteAnswer(problem=f"no answer: {session.kind}: {session.detail}")
            outcome = session.prompted(Prompted(question.prompt), PromptLimits(time.monotonic() + question.timeout_s))
            if outcome.kind == "killed":
                raise TimeoutError
            tokens, cost = Tokens.of(*session.used), self._price(terms.model, session.used, session.answered_by)
            if outcome.kind == "ok":
                return RouteAnswer(session.last, tokens, cost)
            return RouteAnswer(None, tokens, cost, f"no answer: {outcome.kind}: {outcome.detail}")

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        env = {**env, **self.setup.access.env}
        url = urlsplit(env.get("GOOGLE_GEMINI_BASE_URL") or _PROVIDER)
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        return (f"{host}:{url.port or (80 if url.scheme == 'http' else 443)}",)

    def _price(self, model: str, used: tuple[int, int], answered_by: str | None = None) -> float | None:
        """By the list price of fresh input: what the provider takes off for cached input is not known here.

        :param answered_by: where it is known already; a version of `model` costs what that does.
        """
        price = self.setup.prices(answered_by if answered_by and not answered_by.startswith(model) else model)
        return None if price is None else (used[0] * price[0] + used[1] * price[1]) / 1_000_000

    @contextmanager
    def _session(
        self, asked: StepRequest | RouteTerms, recorder: Recorder, system: str, is_over: threading.Event
    ) -> Iterator[GeminiSession | EngineOutcome]:
        """With a home while the block lasts; or why there can be none."""
        env = {**asked.env, **self.setup.access.env}
        program = find_program(self.setup.access.cli, env)
        if program.path is None or program.problem is not None:
            yield EngineOutcome(kind="engine_missing", detail=program.told)
            return
        recorder.note("system", f"Gemini CLI {program.version} adds: {_ADDITIONS}.")
        asked.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=asked.scratch))
        try:
            (folder / "1").mkdir()
            home = SettingsHome(folder / "1", program.path, self.settings.attempts)
            place = AskedPlace(asked.worktree, asked.containment, is_over)
            model = None if asked.model in _NO_MODEL else asked.model
            yield GeminiSession(
                home,
                place,
                env,
                asked.decide,
                recorder,
                lambda used: self._price(asked.model, used),
                system,
                model,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _told(session: GeminiSession, outcome: EngineOutcome) -> LastMessage:
    """The last message, recorded; of a session that failed it hands nothing over."""
    last = read_last_message(session.last) if outcome.kind == "ok" else LastMessage(session.last)
    if last.text.strip():
        session.recorder.say(last.text.strip())
    if last.handoff is not None:
        session.recorder.note("assistant", session.last)
    return last


def _unheard(_event: Event) -> None:
    """Nobody follows a navigator."""
