"""One phase of a step: a session that is tried again while the provider fails in a way that may pass."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.engines.base import SESSION_MARKER
from gitswarm.engines.claude.conversation import Conversation, retry_event
from gitswarm.engines.claude.ending import outcome_of
from gitswarm.engines.claude.holding import SessionLimits, hold_session
from gitswarm.engines.claude.order import SessionOrder, Transport
from gitswarm.engines.claude.said import Usage
from gitswarm.records.engine_outcome import EngineOutcome
from gitswarm.records.money import usd

_GO_ON = (
    "The connection to the model failed and is there again. Go on with the step where you stopped; what you did so "
    "far is in the files."
)
_LONGEST_WAIT_S = 60.0
_LEAST_USD = 0.01
"""Of a handoff, after work that used all there was: without it the work could not be judged."""
_NOTHING = Usage(cost_usd=0.0)


class Phase(Struct, frozen=True):
    """How a phase ended. `session` None: it never came to be. `usage`: of its session up to here."""

    outcome: EngineOutcome
    session: str | None = None
    model: str | None = None
    text: str = ""
    structured: JsonValue = None
    usage: Usage = _NOTHING


class _MayPassError(Exception):
    """The provider failed; the same may work later."""


class Phases(Struct, frozen=True):
    """`start` begins what one process of a session says. `attempts` at most; `wait_s` before the second."""

    transport: Transport
    start: Callable[[], Conversation]
    attempts: int
    wait_s: float

    def run(self, order: SessionOrder, watch: SessionLimits, before: Phase | None = None) -> Phase:
        """
        :param before: the phase whose session this one goes on with.
        :raises StepEndedError: nobody waits for it any more.
        """
        import stamina  # noqa: PLC0415 - a hundredth of a second, and most commands hold no session
        import stamina.instrumentation  # noqa: PLC0415 - same

        usage = before.usage if before else _NOTHING
        phase = Phase(EngineOutcome(kind="killed"))
        # It would log each retry as a warning; here they are events.
        stamina.instrumentation.set_on_retry_hooks(())
        tries = stamina.retry_context(
            on=_MayPassError,
            attempts=self.attempts,
            timeout=None,
            wait_initial=self.wait_s,
            wait_max=_LONGEST_WAIT_S,
            wait_jitter=self.wait_s / 2,
        )
        try:
            for attempt in tries:
                with attempt:
                    phase, talk = self._once(order, watch, usage)
                    outcome = phase.outcome.model_copy(update={"attempts": attempt.num})
                    phase, usage = replace(phase, outcome=outcome), phase.usage
                    if outcome.retryable:
                        if attempt.num < self.attempts:
                            talk.emit(retry_event(attempt.num + 1, self.attempts, attempt.next_wait, outcome.detail))
                            order = _taken_up(order, talk)
                        _try_again()
        except _MayPassError:
            pass  # not in as many attempts
        return phase

    def _once(self, order: SessionOrder, watch: SessionLimits, earlier: Usage) -> tuple[Phase, Conversation]:
        talk = self.start()
        counted = talk.meter.usage
        marked = replace(_with_the_rest(order, counted), env={**order.env, SESSION_MARKER: secrets.token_hex(8)})
        hold_session(self.transport, marked, talk, watch)
        ended = talk.last.ended
        usage = ended.usage.after(earlier) if ended else _both(earlier, talk.meter.since(counted))
        phase = Phase(
            outcome=outcome_of(talk.last),
            session=talk.session or order.resume,
            model=talk.model,
            text=talk.text,
            structured=ended.structured if ended else None,
            usage=usage,
        )
        return phase, talk


def _with_the_rest(order: SessionOrder, counted: Usage) -> SessionOrder:
    """A process knows only what it costs itself."""
    if order.max_cost_usd is None:
        return order
    return replace(order, max_cost_usd=max(_LEAST_USD, round(order.max_cost_usd - (counted.cost_usd or 0.0), 6)))


def _both(earlier: Usage, cut_off: Usage) -> Usage:
    """Of a session that said no result: what its answers used."""
    return Usage(
        own=cut_off.own,
        prompt=earlier.prompt + cut_off.prompt,
        completion=earlier.completion + cut_off.completion,
        cost_usd=usd(earlier.cost_usd, cut_off.cost_usd),
    )


def _try_again() -> NoReturn:
    raise _MayPassError


def _taken_up(order: SessionOrder, talk: Conversation) -> SessionOrder:
    """The next attempt: in the same conversation, where there is one."""
    if talk.session is None or not talk.has_spoken:
        return order
    talk.recorder.note("user", _GO_ON)
    return replace(order, prompt=_GO_ON, resume=talk.session)
