"""What a step's phases come to: result, handoff, cost."""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import StepRequest, StepResult, capped
from gitswarm.engines.claude.phases import NOTHING, Phase
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.engines.claude.said import Usage
from gitswarm.engines.handoff import early_handoff, read_handoff
from gitswarm.engines.recorder import Recorder
from gitswarm.records.engine_outcome import EngineOutcome
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import UNKNOWN_TIME, Result, Status, reset_words
from gitswarm.records.receipt import Tokens

_FAILURES = ("api_error", "killed", "interrupted", "engine_missing")


class Worked(Struct, frozen=True):
    """`started`: on the monotonic clock. `final` None: the handoff was not asked for. `earlier`: what other
    executions used in its session before."""

    profile: ClaudeProfile
    started: float
    work: Phase
    final: Phase | None = None
    earlier: Usage = NOTHING

    @property
    def outcome(self) -> EngineOutcome:
        """Of the step: how the work ended, and where it ended well, whether a usable handoff came."""
        work, final = self.work.outcome, self.final
        if final is None:
            return work
        if final.outcome.resets_at is not None:
            return final.outcome
        words = _said_in(final)
        if work.kind == "ok" and isinstance(words, str):
            return EngineOutcome(kind="no_envelope", detail=words, attempts=final.outcome.attempts)
        return work

    def broken(self, error: Exception, usage: Usage) -> Worked:
        """It came no further than here, and had used this much."""
        outcome = EngineOutcome(kind="killed", detail=f"{type(error).__name__}: {error}")
        return replace(self, work=replace(self.work, outcome=outcome, usage=usage), final=None, earlier=NOTHING)


def step_result(request: StepRequest, recorder: Recorder, worked: Worked) -> StepResult:
    work, outcome = worked.work, worked.outcome
    usage = (worked.final or work).usage.without(worked.earlier)
    model = work.model or request.model
    handoff, problem = _handoff(worked)
    failed = outcome.kind in _FAILURES and handoff is None
    return StepResult(
        step_id=request.execution.step,
        status=Result.FAILED if failed else Result.SUCCEEDED,
        output=capped(work.text),
        error=f"claude: {outcome.detail or outcome.kind}" if failed else None,
        duration_ms=int((time.monotonic() - worked.started) * 1000),
        handoff=handoff,
        handoff_problem=problem,
        transcript=recorder.transcript,
        tool_calls=recorder.tool_calls,
        tokens=Tokens.of(usage.prompt, usage.completion),
        cost_usd=worked.profile.cost(usage.cost_usd, model, (usage.prompt, usage.completion)),
        outcome=outcome,
        model=model,
    )


def _handoff(worked: Worked) -> tuple[Handoff | None, str | None]:
    """What was handed over, as far as it can be believed; else why there is nothing."""
    outcome, final = worked.outcome, worked.final
    if outcome.resets_at is not None:
        return _limited(outcome), None
    handoff = _said_in(final) if final is not None else outcome.detail or outcome.kind
    if isinstance(handoff, str):
        return None, f"no handoff: {handoff}"
    return early_handoff(handoff, outcome), None


def _limited(outcome: EngineOutcome) -> Handoff:
    until = reset_words(outcome.resets_at or UNKNOWN_TIME)
    return Handoff(
        status=Status.PARTIAL,
        summary=f"The provider's usage limit is reached, which {until}. What was done so far is kept.",
        blockers=(f"a usage limit, which {until}; after that: git swarm resume",),
    )


def _said_in(final: Phase) -> Handoff | str:
    """What was handed over, or why it cannot be used."""
    if final.structured is None:
        if final.outcome.kind != "ok":
            return final.outcome.detail or final.outcome.kind
        return "the session gave no structured output, also when it was asked again"
    return read_handoff(final.structured)
