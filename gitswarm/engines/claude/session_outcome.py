"""How a session ended, as an `EngineOutcome` with what a person can do about it; and the result of a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import REFUSED
from gitswarm.engines.agent_session import SessionEnd, died, may_pass, session_result
from gitswarm.engines.base import StepRequest, StepResult
from gitswarm.engines.claude.messages import NOTHING, ProcessExit, ProviderError, SessionResult, Usage, UsageLimit
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.engines.handoff import read_handoff
from gitswarm.engines.recorder import Recorder
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import UNKNOWN_TIME, Status, reset_words
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome, OutcomeKind, Tokens
from gitswarm.records.record import timestamp

_KINDS: Mapping[str, OutcomeKind] = {
    "max_turns": "max_turns",
    "error_max_turns": "max_turns",
    "budget_exhausted": "budget",
    "error_max_budget_usd": "budget",
    "structured_output_retry_exhausted": "no_envelope",
    "error_max_structured_output_retries": "no_envelope",
    "aborted_tools": "interrupted",
    "aborted_streaming": "interrupted",
}
"""By the CLI's terminal reason, else by its subtype."""

_PASSING = frozenset({"rate_limit", "server_error", "overloaded", "unknown"})
"""Words of the CLI for failures that may pass, where the provider gave no status."""

_REFUSED = re.compile(rf"{re.escape(REFUSED)}\S+")
_TOO_MANY = 429


class FinalState(Struct):
    """All that is known of how a session ended. `timeout_s`: it was ended after that time. `unjudged`: the tool of a
    call that was carried out although nobody had asked the policy. `over`: the limit of the budget
    that it was ended at. `refused`: the HTTP status of a refusal that the CLI was about to ask for again."""

    ended: SessionResult | None = None
    exit: ProcessExit | None = None
    fault: ProviderError | None = None
    limit: UsageLimit | None = None
    timeout_s: float | None = None
    unjudged: str | None = None
    over: str | None = None
    refused: int | None = None


def outcome_of(state: FinalState) -> EngineOutcome:
    if state.unjudged is not None:
        what = f"{state.unjudged} was carried out without asking the policy, and the session was ended"
        return EngineOutcome(
            kind="killed", detail=f"{what}: settings of Claude Code on this machine switch hooks off"
        )
    if state.refused is not None:
        detail = f"Invalid API key ({_ADVICE['authentication_failed']})"
        return EngineOutcome(kind="api_error", detail=detail, status=state.refused)
    if state.over is not None and state.ended is None:
        return EngineOutcome(kind="budget", detail=state.over)
    if state.exit is not None and state.exit.missing:
        return EngineOutcome(kind="engine_missing", detail=state.exit.problem)
    if state.ended is None:
        return _without_result(state)
    return _by_result(state, state.ended)


def _without_result(state: FinalState) -> EngineOutcome:
    if state.timeout_s is not None:
        return EngineOutcome(kind="killed", detail=f"no end after {state.timeout_s:g} s: it was ended")
    last = state.exit or ProcessExit(None)
    return died(last.exit_code, last.problem)


def _by_result(state: FinalState, ended: SessionResult) -> EngineOutcome:
    reason = ended.terminal_reason or ""
    text = _in_one_line("; ".join(ended.errors) or ended.text)
    if reason == "hook_stopped":
        return EngineOutcome(kind="denied", detail=text or "a hook stopped the session")
    if not ended.is_error:
        return EngineOutcome(kind="ok")
    kind = _KINDS.get(reason) or _KINDS.get(ended.subtype)
    if kind is not None:
        return EngineOutcome(kind=kind, detail=text)
    if reason in ("api_error", "prompt_too_long") or ended.status is not None or state.fault is not None:
        return _api_error(state, ended, text)
    return EngineOutcome(kind="killed", detail=text or reason or ended.subtype)


def _api_error(state: FinalState, ended: SessionResult, text: str) -> EngineOutcome:
    kind = state.fault.kind if state.fault else ""
    # A limit that was reached ends nothing by itself: there may be more behind it that is paid for.
    if state.limit is not None and (ended.status == _TOO_MANY or kind == "rate_limit"):
        return EngineOutcome(kind="api_error", detail=text, status=ended.status, resets_at=_moment(state.limit))
    return EngineOutcome(
        kind="api_error",
        detail=_advised(text, kind, ended),
        status=ended.status,
        retryable=_may_pass(kind, ended),
    )


def _may_pass(kind: str, ended: SessionResult) -> bool:
    if ended.stop_reason == "refusal":
        return False
    if ended.status is None:
        return kind in _PASSING
    return may_pass(ended.status)


def _moment(limit: UsageLimit) -> str:
    if limit.resets_at is None:
        return UNKNOWN_TIME
    try:
        return timestamp(datetime.fromtimestamp(limit.resets_at, UTC))
    except (OverflowError, ValueError, OSError):  # no second of the calendar
        return UNKNOWN_TIME


def _in_one_line(text: str) -> str:
    """The first paragraph: links and numbers of messages come behind it."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _advised(text: str, kind: str, ended: SessionResult) -> str:
    """The CLI's words, without its advice where that is none for somebody who runs git-swarm, and with ours."""
    refused = _REFUSED.search(text)
    if refused is not None:  # by our own proxy, which the CLI takes for the provider
        return f"{refused[0]} (the place for it is .swarm/config.yaml, committed before a run starts)"
    if kind in _ADVICE:
        for theirs in _THEIR_ADVICE:
            text = text.partition(theirs)[0]
        return f"{text.removeprefix('Failed to authenticate. ')} ({_ADVICE[kind]})"
    if ended.stop_reason == "refusal":
        what = text.removesuffix(" Start a new session to continue.")
        return f"{what} (git swarm resume -m TEXT says it in other words; or start with --model ID)"
    if ended.terminal_reason == "prompt_too_long":
        return (
            f"{text.partition(' · ')[0]} (prompts of new runs are smaller with context: lean in .swarm/config.yaml)"
        )
    if ended.status is not None and not _may_pass(kind, ended):
        return f"{text} (the same request fails again: check ANTHROPIC_BASE_URL and the model)"
    return text.partition(" If it persists")[0]


_ADVICE: Mapping[str, str] = {
    "authentication_failed": (
        "set ANTHROPIC_API_KEY or log in with `claude`; a login in ~/.claude/settings.json needs "
        "engines.claude.setting_sources: [user]"
    ),
    "billing_error": "add credit, or set another ANTHROPIC_API_KEY",
    "model_not_found": "no such model, or no access: start with --model ID, or edit .swarm/flows/policy/models.yaml",
    "max_output_tokens": "CLAUDE_CODE_MAX_OUTPUT_TOKENS changes it, also in engines.claude.env",
}
"""The next thing to do, by the CLI's word for what failed."""

_THEIR_ADVICE = (" · ", " It may not exist", " To configure this")


class Phase(Struct, frozen=True):
    """How a phase ended. `session` None: there was none. `has_spoken`: there is something to continue.
    `usage`: of its session up to here."""

    outcome: EngineOutcome
    session: str | None = None
    has_spoken: bool = False
    model: str | None = None
    text: str = ""
    structured: JsonValue = None
    usage: Usage = NOTHING


class StepPhases(Struct):
    """The sessions of a step. `started`: on the monotonic clock. `final` None: the handoff was not asked for.
    `earlier`: what other executions used in its session before."""

    profile: ClaudeProfile
    started: float
    work: Phase
    final: Phase | None = None
    earlier: Usage = NOTHING

    @property
    def outcome(self) -> EngineOutcome:
        """The outcome of the step: how the work ended, and where it ended well, whether a usable handoff came."""
        work, final = self.work.outcome, self.final
        if final is None:
            return work
        if final.outcome.resets_at is not None:
            return final.outcome
        words = _handed_over_in(final)
        if work.kind == "ok" and isinstance(words, str):
            return EngineOutcome(kind="no_envelope", detail=words, attempts=final.outcome.attempts)
        return work

    def end_broken(self, error: Exception, usage: Usage) -> None:
        """Ends a step that broke here, having used this much."""
        outcome = EngineOutcome(kind="killed", detail=f"{type(error).__name__}: {error}")
        self.work, self.final, self.earlier = replace(self.work, outcome=outcome, usage=usage), None, NOTHING


def step_result(request: StepRequest, recorder: Recorder, phases: StepPhases) -> StepResult:
    work, outcome = phases.work, phases.outcome
    usage = (phases.final or work).usage.without(phases.earlier)
    model = work.model or request.model
    tokens = Tokens.of(usage.prompt, usage.completion)
    cost = phases.profile.cost(usage.cost_usd, model, (usage.prompt, usage.completion))
    end = SessionEnd(outcome, _handoff(phases), work.text, model, tokens, cost)
    return session_result("claude", request, recorder, phases.started, end)


def _handoff(phases: StepPhases) -> Handoff | str:
    """What was handed over, as far as it can be believed; else why there is nothing."""
    if phases.outcome.resets_at is not None:
        return _limited(phases.outcome)
    return _handed_over_in(phases.final) if phases.final is not None else ""


def _limited(outcome: EngineOutcome) -> Handoff:
    until = reset_words(outcome.resets_at or UNKNOWN_TIME)
    return Handoff(
        status=Status.PARTIAL,
        summary=f"The provider's usage limit is reached, which {until}. What was done so far is kept.",
        blockers=(f"a usage limit, which {until}; after that: git swarm resume",),
    )


def _handed_over_in(final: Phase) -> Handoff | str:
    """What was handed over, or why it cannot be used."""
    if final.structured is None:
        if final.outcome.kind != "ok":
            return final.outcome.detail or final.outcome.kind
        return "the session gave no structured output, also when it was asked again"
    return read_handoff(final.structured)
