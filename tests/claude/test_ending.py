"""How a session ended, in our own words, and what becomes of a handoff: without any session."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from gitswarm.engines.claude.messages import ProcessExit, ProviderError, SessionResult, Usage, UsageLimit
from gitswarm.engines.claude.session_outcome import FinalState, Phase, StepPhases, outcome_of, step_result
from gitswarm.engines.recorder import Recorder
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Result, Status, reset_words
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome
from tests.claude.stage import MODEL, quick, request_for

MAYBE = "status: 'MAYBE' is not an allowed value (known: BLOCKED, PARTIAL, UNVERIFIED, VERIFIED)"
LOGIN = (
    "(set ANTHROPIC_API_KEY or log in with `claude`; a login in ~/.claude/settings.json needs "
    "engines.claude.setting_sources: [user])"
)
SAME = "(the same request fails again: check ANTHROPIC_BASE_URL and the model)"
WHEN = 1795301059
ISO = "2026-11-21T22:44:19.000Z"


def result(text: str = "", *, reason: str | None = None, status: int | None = None, **more: str) -> SessionResult:
    return SessionResult("success", is_error=True, terminal_reason=reason, text=text, status=status, **more)  # type: ignore[arg-type]


def failed(text: str, status: int | None, fault: str, **more: str) -> FinalState:
    return FinalState(ended=result(text, reason="api_error", status=status, **more), fault=ProviderError(fault, text))


def api_error(detail: str, status: int | None = None, *, retryable: bool = False) -> EngineOutcome:
    return EngineOutcome(kind="api_error", detail=detail, status=status, retryable=retryable)


ENDINGS: dict[str, tuple[FinalState, EngineOutcome]] = {
    "the proxy of the sandbox refused": (
        failed(
            "Failed to authenticate. API Error: 403 not in policy.allow_hosts: llm.example:443 To allow it: …",
            403,
            "authentication_failed",
        ),
        api_error(
            "not in policy.allow_hosts: llm.example:443 "
            "(the place for it is .swarm/config.yaml, committed before a run starts)",
            403,
        ),
    ),
    "it came to its end": (
        FinalState(ended=SessionResult("success", is_error=False, terminal_reason="completed")),
        EngineOutcome(kind="ok"),
    ),
    "an end without a reason": (FinalState(ended=SessionResult("success", is_error=False)), EngineOutcome(kind="ok")),
    "exit code 1 behind a good result": (
        FinalState(ended=SessionResult("success", is_error=False, terminal_reason="completed"), exit=ProcessExit(1)),
        EngineOutcome(kind="ok"),
    ),
    "a hook stopped it": (
        FinalState(ended=SessionResult("success", is_error=False, terminal_reason="hook_stopped")),
        EngineOutcome(kind="denied", detail="a hook stopped the session"),
    ),
    "turns": (
        FinalState(
            ended=SessionResult(
                "error_max_turns",
                is_error=True,
                terminal_reason="max_turns",
                errors=("Reached maximum number of turns (2)",),
            )
        ),
        EngineOutcome(kind="max_turns", detail="Reached maximum number of turns (2)"),
    ),
    "turns, by the subtype alone": (
        FinalState(ended=SessionResult("error_max_turns", is_error=True)),
        EngineOutcome(kind="max_turns"),
    ),
    "budget": (
        FinalState(
            ended=SessionResult(
                "error_max_budget_usd",
                is_error=True,
                terminal_reason="budget_exhausted",
                errors=("Reached maximum budget",),
            )
        ),
        EngineOutcome(kind="budget", detail="Reached maximum budget"),
    ),
    "no valid handoff in five attempts": (
        FinalState(
            ended=SessionResult(
                "error_max_structured_output_retries",
                is_error=True,
                terminal_reason="structured_output_retry_exhausted",
                errors=("Failed",),
            )
        ),
        EngineOutcome(kind="no_envelope", detail="Failed"),
    ),
    "interrupted in a tool": (
        FinalState(ended=SessionResult("error_during_execution", is_error=True, terminal_reason="aborted_tools")),
        EngineOutcome(kind="interrupted"),
    ),
    "interrupted in an answer": (
        FinalState(ended=SessionResult("error_during_execution", is_error=True, terminal_reason="aborted_streaming")),
        EngineOutcome(kind="interrupted"),
    ),
    "an error of its own": (
        FinalState(ended=SessionResult("error_during_execution", is_error=True, errors=("No conversation found",))),
        EngineOutcome(kind="killed", detail="No conversation found"),
    ),
    "401": (
        failed("Invalid API key · Fix external API key", 401, "authentication_failed"),
        api_error(f"Invalid API key {LOGIN}", 401),
    ),
    "no login": (
        failed("Not logged in · Please run /login", None, "authentication_failed"),
        api_error(f"Not logged in {LOGIN}"),
    ),
    "400": (failed("API Error: 400 bad", 400, "unknown"), api_error(f"API Error: 400 bad {SAME}", 400)),
    "credit": (
        failed("Credit balance is too low", 400, "billing_error"),
        api_error("Credit balance is too low (add credit, or set another ANTHROPIC_API_KEY)", 400),
    ),
    "404": (
        failed(
            "There's an issue with the selected model (x). It may not exist or you may not have access to it. "
            "Run --model to pick a different model.",
            404,
            "model_not_found",
        ),
        api_error(
            "There's an issue with the selected model (x). (no such model, or no access: start with --model ID, or "
            "edit .swarm/flows/policy/models.yaml)",
            404,
        ),
    ),
    "a prompt that is too long": (
        FinalState(
            ended=result("Prompt is too long · the request is ~300000 tokens", reason="prompt_too_long", status=400)
        ),
        api_error(
            "Prompt is too long (prompts of new runs are smaller with context: lean in .swarm/config.yaml)", 400
        ),
    ),
    "429": (failed("Request rejected", 429, "rate_limit"), api_error("Request rejected", 429, retryable=True)),
    "500": (failed("oops", 500, "server_error"), api_error("oops", 500, retryable=True)),
    "529": (failed("Overloaded", 529, "overloaded"), api_error("Overloaded", 529, retryable=True)),
    "no answer": (
        failed("Request timed out.", None, "server_error"),
        api_error("Request timed out.", retryable=True),
    ),
    "a refusal": (
        failed(
            "API Error: it can't help with this. Start a new session to continue.\n\nLearn more: https://x\n\nID: 1",
            None,
            "unknown",
            stop_reason="refusal",
        ),
        api_error(
            "API Error: it can't help with this. "
            "(git swarm resume -m TEXT says it in other words; or start with --model ID)"
        ),
    ),
    "too long an answer": (
        failed(
            "API Error: Claude's response exceeded the 32000 output token maximum. To configure this behavior, set …",
            None,
            "max_output_tokens",
        ),
        api_error(
            "API Error: Claude's response exceeded the 32000 output token maximum. "
            "(CLAUDE_CODE_MAX_OUTPUT_TOKENS changes it, also in engines.claude.env)"
        ),
    ),
    "a usage limit": (
        replace(failed("You've hit your 5-hour limit", 429, "rate_limit"), limit=UsageLimit(WHEN)),
        EngineOutcome(kind="api_error", detail="You've hit your 5-hour limit", status=429, resets_at=ISO),
    ),
    "a usage limit without an end": (
        replace(failed("limit", 429, "rate_limit"), limit=UsageLimit(None)),
        EngineOutcome(kind="api_error", detail="limit", status=429, resets_at="unknown"),
    ),
    "a usage limit in milliseconds": (
        replace(failed("limit", 429, "rate_limit"), limit=UsageLimit(WHEN * 1000)),
        EngineOutcome(kind="api_error", detail="limit", status=429, resets_at="unknown"),
    ),
    "another fault behind a limit that was paid for": (
        replace(failed("oops", 500, "server_error"), limit=UsageLimit(WHEN)),
        api_error("oops", 500, retryable=True),
    ),
    "the end behind a limit that was paid for": (
        FinalState(
            ended=SessionResult("success", is_error=False, terminal_reason="completed"), limit=UsageLimit(WHEN)
        ),
        EngineOutcome(kind="ok"),
    ),
    "a signal": (FinalState(exit=ProcessExit(-9)), EngineOutcome(kind="killed", detail="killed by signal 9")),
    "an exit code": (
        FinalState(exit=ProcessExit(1, "bad flag")),
        EngineOutcome(kind="killed", detail="exit code 1, no result: bad flag"),
    ),
    "exit code 0 and no result": (
        FinalState(exit=ProcessExit(0)),
        EngineOutcome(kind="killed", detail="exit code 0, no result"),
    ),
    "nothing at all": (FinalState(), EngineOutcome(kind="killed", detail="ended without a result")),
    "no program": (
        FinalState(exit=ProcessExit(None, "there is no claude", missing=True)),
        EngineOutcome(kind="engine_missing", detail="there is no claude"),
    ),
}


@pytest.mark.parametrize(("last", "outcome"), ENDINGS.values(), ids=list(ENDINGS))
def test_outcome_of(last: FinalState, outcome: EngineOutcome) -> None:
    assert outcome_of(last) == outcome


@pytest.mark.parametrize("outcome", [found for _last, found in ENDINGS.values()], ids=list(ENDINGS))
def test_what_it_says_fits_on_two_lines(outcome: EngineOutcome) -> None:
    assert len(f"claude: {outcome.detail}") <= 160
    assert "\n" not in outcome.detail


@pytest.mark.parametrize(
    ("resets_at", "words"),
    [(ISO, "resets at 2026-11-21 22:44 UTC"), ("unknown", "does not say when it resets")],
)
def test_a_reset_in_words(resets_at: str, words: str) -> None:
    assert reset_words(resets_at) == words


WORKED = Usage(own=100, prompt=80, completion=20, cost_usd=0.5)


@pytest.mark.parametrize(
    ("later", "together"),
    [
        pytest.param(
            Usage(own=30, prompt=105, completion=25, cost_usd=0.7),
            Usage(own=30, prompt=105, completion=25, cost_usd=0.7),
            id="it remembers the earlier process",
        ),
        pytest.param(
            Usage(own=30, prompt=25, completion=5, cost_usd=0.2),
            Usage(own=30, prompt=105, completion=25, cost_usd=0.7),
            id="it does not",
        ),
        pytest.param(
            Usage(own=200, prompt=150, completion=50, cost_usd=0.2),
            Usage(own=200, prompt=230, completion=70, cost_usd=0.7),
            id="it does not, and used more",
        ),
        pytest.param(
            Usage(own=30, prompt=25, completion=5),
            Usage(own=30, prompt=105, completion=25),
            id="a cost that is not known stays unknown",
        ),
        pytest.param(
            Usage(own=0, prompt=0, completion=0, cost_usd=0.0),
            Usage(own=0, prompt=80, completion=20, cost_usd=0.5),
            id="it used nothing",
        ),
    ],
)
def test_usage_after_an_earlier_process(later: Usage, together: Usage) -> None:
    assert later.after(WORKED) == together


OK = EngineOutcome(kind="ok")
TURNS = EngineOutcome(kind="max_turns", detail="2 turns")
GIVEN: JsonValue = {"status": "VERIFIED", "summary": "did it"}
HANDED = Handoff(status=Status.VERIFIED, summary="did it")
LIMITED = EngineOutcome(kind="api_error", detail="limit", status=429, resets_at=ISO)
UNTIL = Handoff(
    status=Status.PARTIAL,
    summary="The provider's usage limit is reached, which resets at 2026-11-21 22:44 UTC. "
    "What was done so far is kept.",
    blockers=("a usage limit, which resets at 2026-11-21 22:44 UTC; after that: git swarm resume",),
)
NOTHING_GIVEN = "the session gave no structured output, also when it was asked again"
EARLY = "the session ended early (max_turns): 2 turns"

HANDED_OVER = {
    "a handoff": (Phase(OK), Phase(OK, structured=GIVEN), OK, HANDED, None),
    "a handoff after the last turn": (
        Phase(TURNS),
        Phase(OK, structured=GIVEN),
        TURNS,
        Handoff(status=Status.PARTIAL, summary="did it", concerns=(EARLY,)),
        None,
    ),
    "a block after the last turn stays one": (
        Phase(TURNS),
        Phase(OK, structured={"status": "BLOCKED"}),
        TURNS,
        Handoff(status=Status.BLOCKED),
        None,
    ),
    "none after the last turn": (
        Phase(TURNS),
        Phase(api_error("boom", 500)),
        TURNS,
        None,
        "no handoff: boom",
    ),
    "none": (
        Phase(OK),
        Phase(OK),
        EngineOutcome(kind="no_envelope", detail=NOTHING_GIVEN),
        None,
        f"no handoff: {NOTHING_GIVEN}",
    ),
    "one that is not valid": (
        Phase(OK),
        Phase(OK, structured={"status": "MAYBE"}),
        EngineOutcome(
            kind="no_envelope",
            detail=f"it is not valid: {MAYBE}",
        ),
        None,
        f"no handoff: it is not valid: {MAYBE}",
    ),
    "one with a field more": (
        Phase(OK),
        Phase(OK, structured={"status": "VERIFIED", "summary": "did it", "mood": "good"}),
        OK,
        Handoff(
            status=Status.VERIFIED,
            summary="did it",
            concerns=("handoff field 'mood' is unknown and was dropped",),
        ),
        None,
    ),
    "one that is not an object": (
        Phase(OK),
        Phase(OK, structured=[]),
        EngineOutcome(
            kind="no_envelope",
            detail="it is not valid: expected `key: value`",
        ),
        None,
        "no handoff: it is not valid: expected `key: value`",
    ),
    "the provider fails when it is asked for": (
        Phase(OK),
        Phase(replace(api_error("boom", 500), attempts=3)),
        EngineOutcome(kind="no_envelope", detail="boom", attempts=3),
        None,
        "no handoff: boom",
    ),
    "a limit in the work": (Phase(LIMITED), None, LIMITED, UNTIL, None),
    "a limit when it is asked for": (Phase(OK), Phase(LIMITED), LIMITED, UNTIL, None),
    "a limit after the last turn": (Phase(TURNS), Phase(LIMITED), LIMITED, UNTIL, None),
    "the budget is spent": (
        Phase(EngineOutcome(kind="budget", detail="Reached maximum budget")),
        None,
        EngineOutcome(kind="budget", detail="Reached maximum budget"),
        None,
        "no handoff: Reached maximum budget",
    ),
}


@pytest.mark.parametrize(
    ("work", "final", "outcome", "handoff", "problem"), HANDED_OVER.values(), ids=list(HANDED_OVER)
)
def test_what_the_phases_come_to(
    work: Phase, final: Phase | None, outcome: EngineOutcome, handoff: Handoff | None, problem: str | None
) -> None:
    request = request_for(Path("/w"), {})
    recorder = Recorder(request, lambda: datetime.now(UTC), lambda _event: None, "sdk")
    told = step_result(request, recorder, StepPhases(quick(), time.monotonic(), work, final))
    assert (told.outcome, told.handoff, told.handoff_problem) == (outcome, handoff, problem)
    assert (told.status, told.error, told.model) == (Result.SUCCEEDED, None, MODEL)


@pytest.mark.parametrize("kind", ["api_error", "killed", "interrupted", "engine_missing"])
def test_work_that_failed_fails_the_step(kind: str) -> None:
    request = request_for(Path("/w"), {})
    recorder = Recorder(request, lambda: datetime.now(UTC), lambda _event: None, "sdk")
    work = Phase(EngineOutcome.from_plain({"kind": kind, "detail": "boom"}))
    told = step_result(request, recorder, StepPhases(quick(), time.monotonic(), work))
    assert (told.status, told.error, told.outcome) == (Result.FAILED, "claude: boom", work.outcome)
