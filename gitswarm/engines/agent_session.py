"""What sessions of different agents have alike: what they are told, what an answer costs, how a step of them ends."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from gitswarm.engines.base import Emit, StepEndedError, StepRequest, StepResult, capped
from gitswarm.engines.handoff import early_handoff
from gitswarm.engines.recorder import Recorder
from gitswarm.records.envelope import Handoff
from gitswarm.records.event import Event, EventKind
from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.untrusted import remove_tree

FINALIZE = (
    "The work of this step is over, and no tools are left. Hand over now: fill in the handoff from what you did and "
    "saw in this session, by the rules that you were given for its status. What you did not check you did not verify."
)
FINALIZE_S = 300.0
"""For the handoff alone, after the work."""
CONTINUE = (
    "The connection to the model failed and is there again. Go on with the step where you stopped; what you did so "
    "far is in the files."
)
NAVIGATOR = "You are the navigator of a run of software agents. You choose where it goes on, from what you are given."
USUAL_TOOLS = ("Read", "Write", "Edit", "Bash", "Grep", "Glob")
"""For a station that names none."""
_NO_MODEL = ("default", "none")
_FAILURES = ("api_error", "killed", "interrupted", "engine_missing")
_PASSING_STATUSES = frozenset({408, 409, 425, 429})


def named_model(model: str) -> str | None:
    """None: the program's own choice."""
    return None if model in _NO_MODEL else model


def may_pass(status: int) -> bool:
    """Whether a request that a provider answered with this HTTP status may succeed later."""
    return status in _PASSING_STATUSES or status >= 500


def host_and_port(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    bracketed = f"[{host}]" if ":" in host else host
    return f"{bracketed}:{parts.port or (80 if parts.scheme == 'http' else 443)}"


def token_cost(price: tuple[float, float] | None, sent: float, received: int) -> float | None:
    """US dollars; None: not known.

    :param price: for a million tokens in and out.
    """
    return None if price is None else (sent * price[0] + received * price[1]) / 1_000_000


class SessionLimits(Struct, frozen=True):
    """`deadline`: on the monotonic clock; `timeout_s` is what it was made of. `ended`: nobody waits any more.
    `set_by`: the limit of the budget that sets the deadline, as people call it; "": none does."""

    deadline: float
    timeout_s: float
    ended: threading.Event
    set_by: str = ""

    @classmethod
    def of_step(cls, request: StepRequest, started: float, timeout_s: float) -> SessionLimits:
        """
        :param timeout_s: how long a step may take in any case.
        """
        if request.deadline is not None and request.deadline < started + timeout_s:
            left_s = max(0.0, request.deadline - started)
            return cls(request.deadline, left_s, request.ended, request.set_by)
        return cls(started + timeout_s, timeout_s, request.ended)

    @classmethod
    def within(cls, timeout_s: float, ended: threading.Event | None = None) -> SessionLimits:
        return cls(time.monotonic() + timeout_s, timeout_s, ended or threading.Event())


def used_up(tokens: int, most: int | None) -> str | None:
    """Why a session is ended that has used as many tokens as it may; None: it has some left."""
    return f"{tokens:,} tokens used of {most:,} that were left" if most is not None and tokens >= most else None


def died(exit_code: int | None, complaints: str) -> EngineOutcome:
    """How a program ended that said no result.

    :param exit_code: negative: the signal; None: unknown.
    :param complaints: what it said on standard error.
    """
    ending = "ended without a result"
    if exit_code is not None:
        ending = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}, no result"
    return EngineOutcome(kind="killed", detail=": ".join(filter(None, (ending, complaints))))


def no_answer(outcome: EngineOutcome) -> str:
    """Stands in the record of a decision, where an answer of a navigator would."""
    return f"no answer: {outcome.kind}: {outcome.detail}"


def discard(_event: Event) -> None:
    """Nobody follows a navigator."""


def retry_event(attempt: int, of: int, wait_s: float, reason: str) -> Event:
    payload: dict[str, JsonValue] = {"attempt": attempt, "of": of, "wait_s": round(wait_s, 1), "reason": reason}
    return Event(EventKind.ENGINE_RETRY, payload)


def waited_for_next(outcome: EngineOutcome, most: int, wait_s: float, limits: SessionLimits, emit: Emit) -> bool:
    """Whether there is another attempt after one that ended so; waits before it. There is none where it would begin
    after the deadline.

    :param most: attempts in all.
    :raises StepEndedError: nobody waits for it any more.
    """
    if not outcome.retryable or outcome.attempts >= most or time.monotonic() + wait_s >= limits.deadline:
        return False
    emit(retry_event(outcome.attempts + 1, most, wait_s, outcome.detail))
    if limits.ended.wait(wait_s):
        raise StepEndedError
    return True


@contextmanager
def session_folder(scratch: Path) -> Iterator[Path]:
    """A session's own, outside of the worktree, while the block lasts."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        yield folder
    finally:
        remove_tree(folder)


class SessionEnd(Struct, frozen=True):
    """The outcome of the sessions of a step. `handoff`: what was handed over, or why there is nothing; "": for the
    same reason for which the sessions ended. `model`, `cost_usd` as in `StepResult`."""

    outcome: EngineOutcome
    handoff: Handoff | str = ""
    text: str = ""
    model: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = None


def session_result(
    agent: str, request: StepRequest, recorder: Recorder, started: float, end: SessionEnd
) -> StepResult:
    """
    :param agent: the engine's short name.
    :param started: on the monotonic clock.
    """
    reason = end.outcome.detail or end.outcome.kind
    handoff = early_handoff(end.handoff, end.outcome) if isinstance(end.handoff, Handoff) else None
    failed = end.outcome.kind in _FAILURES and handoff is None
    return StepResult(
        step_id=request.execution.step,
        status=Result.FAILED if failed else Result.SUCCEEDED,
        output=capped(end.text),
        error=f"{agent}: {reason}" if failed else None,
        duration_ms=int((time.monotonic() - started) * 1000),
        handoff=handoff,
        handoff_problem=None if handoff is not None else f"no handoff: {end.handoff or reason}",
        transcript=recorder.transcript,
        tool_calls=recorder.tool_calls,
        tokens=end.tokens,
        cost_usd=end.cost_usd,
        outcome=end.outcome,
        model=end.model,
    )
