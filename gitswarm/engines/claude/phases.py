"""One phase of a step: a session that is held until it is over, and tried again while failures may pass."""

from __future__ import annotations

import itertools
import random
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines import hook_client
from gitswarm.engines.agent_session import CONTINUE, retry_event
from gitswarm.engines.base import SESSION_MARKER, StepEndedError
from gitswarm.engines.claude.config_folder import bring_login, config_folder
from gitswarm.engines.claude.conversation import Conversation
from gitswarm.engines.claude.messages import Ended, Gone, Returned, Said, Usage
from gitswarm.engines.claude.order import SessionOrder, Transport
from gitswarm.engines.claude.session_outcome import NOTHING, Phase, outcome_of
from gitswarm.process_table import end_processes_with
from gitswarm.records.budget import time_words
from gitswarm.records.text import usd

_POLL_S = 0.05
_BACKLOG = 1000
"""Messages that may wait: a process that never stops talking must not fill the memory."""
_LINGER_S = 10.0
"""How long a process may take to go when it has said its result."""


class SessionLimits(Struct, frozen=True):
    """`deadline`: on the monotonic clock; `timeout_s` is what it was made of. `ended`: nobody waits any more.
    `ended_by`: the limit of the budget that sets the deadline, as people call it; "": none does."""

    deadline: float
    timeout_s: float
    ended: threading.Event
    ended_by: str = ""


def hold_session(transport: Transport, order: SessionOrder, talk: Conversation, watch: SessionLimits) -> None:
    """
    :raises StepEndedError: nobody waits for it any more.
    """
    heard: Queue[Said] = Queue(_BACKLOG)
    is_over = threading.Event()

    def tell(message: Said) -> None:
        """Waits while there is too much to hear, as long as anybody listens."""
        while not is_over.is_set():
            with suppress(Full):
                heard.put(message, timeout=_POLL_S)
                break

    with transport.hold(order, talk.gate, tell):
        try:
            for message in _listen(heard, watch):
                talk.take(message)
                if isinstance(message, Returned):  # between two requests: what was used is known
                    talk.last = replace(talk.last, over=_too_many(order, talk))
                if talk.last.unjudged is not None or talk.last.over is not None or talk.last.refused is not None:
                    break
        finally:
            is_over.set()
            # The process, the shells of its tools, and what those left in the background: in sessions of their own.
            end_processes_with(SESSION_MARKER, order.env[SESSION_MARKER])
    if talk.last.ended is None and talk.last.gone is None:
        over = f"ended after {time_words(watch.timeout_s)} by {watch.ended_by}" if watch.ended_by else None
        talk.last = replace(talk.last, timeout_s=watch.timeout_s, over=talk.last.over or over)
    talk.close()


def _too_many(order: SessionOrder, talk: Conversation) -> str | None:
    used, most = talk.meter.usage.own, order.max_tokens
    return f"{used:,} tokens used of {most:,} that were left" if most is not None and used >= most else None


def _listen(heard: Queue[Said], watch: SessionLimits) -> Iterator[Said]:
    """Everything that is said, until the process is gone or the time is over."""
    until = watch.deadline
    while time.monotonic() < until:
        try:
            message = heard.get(timeout=_POLL_S)
        except Empty:
            if watch.ended.is_set():
                raise StepEndedError from None
            continue
        yield message
        if isinstance(message, Gone):
            return
        until = min(watch.deadline, time.monotonic() + _LINGER_S) if isinstance(message, Ended) else watch.deadline


_USERS = ("settings.json", "CLAUDE.md")


def confined_order(order: SessionOrder, containment: Containment) -> SessionOrder:
    """The same session, confined. Its state goes with the session's folder; none of the user's ever reads it."""
    state = order.folder / "state"
    state.mkdir(mode=0o700)
    users = config_folder(order.env)
    bring_login(order.env, state)
    for name in _USERS if "user" in order.settings.setting_sources else ():
        with suppress(FileNotFoundError):
            shutil.copyfile(users / name, state / name)
    program = order.program.resolve()
    needed = (order.folder, order.program, program.parent, Path(hook_client.__file__))
    env = {**order.env, **containment.environment, "CLAUDE_CONFIG_DIR": str(state)}
    return replace(order, env=env, containment=containment.opened(read=needed, write=(state,)))


_LONGEST_WAIT_S = 60.0
_LEAST_USD = 0.01
"""Of a handoff, after work that used all there was: without it the work could not be judged."""


class Phases(Struct, frozen=True):
    """`start` begins what one process of a session says. `attempts` at most; `wait_s` before the second."""

    transport: Transport
    start: Callable[[], Conversation]
    attempts: int
    wait_s: float

    def run(self, order: SessionOrder, watch: SessionLimits, before: Phase | None = None) -> Phase:
        """
        Nothing waits that could not be tried again before the deadline.

        :param before: the phase whose session this one goes on with.
        :raises StepEndedError: nobody waits for it any more.
        """
        usage = before.usage if before else NOTHING
        for attempt in itertools.count(1):
            phase, talk = self._once(order, watch, usage)
            outcome, usage = phase.outcome.model_copy(update={"attempts": attempt}), phase.usage
            # Siblings of a fork that fail together do not come back together.
            jitter_s = random.uniform(0, self.wait_s / 2)  # noqa: S311 - no secret
            wait_s = min(_LONGEST_WAIT_S, self.wait_s * 2 ** (attempt - 1)) + jitter_s
            if not outcome.retryable or attempt >= self.attempts or time.monotonic() + wait_s >= watch.deadline:
                break
            talk.emit(retry_event(attempt + 1, self.attempts, wait_s, outcome.detail))
            order = _taken_up(order, talk)
            if watch.ended.wait(wait_s):
                raise StepEndedError
        return replace(phase, outcome=outcome)

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
            has_spoken=talk.has_spoken or order.resume is not None,
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


def _taken_up(order: SessionOrder, talk: Conversation) -> SessionOrder:
    """The next attempt: in the same conversation, where there is one."""
    if talk.session is None or not talk.has_spoken:
        return order
    talk.recorder.note("user", CONTINUE)
    return replace(order, prompt=CONTINUE, resume=talk.session)
