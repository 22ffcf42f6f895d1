"""Holds one session: listens until it is over or nobody waits for it any more, and leaves no process behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import SESSION_MARKER, StepEndedError
from gitswarm.engines.claude.conversation import Conversation
from gitswarm.engines.claude.order import SessionOrder, Transport
from gitswarm.engines.claude.said import Ended, Gone, Returned, Said
from gitswarm.process_table import end_processes_with
from gitswarm.records.budget import time_words

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

    def tell(said: Said) -> None:
        """Waits while there is too much to hear, as long as anybody listens."""
        while not is_over.is_set():
            with suppress(Full):
                heard.put(said, timeout=_POLL_S)
                break

    with transport.hold(order, talk.gate, tell):
        try:
            for said in _listen(heard, watch):
                talk.take(said)
                if isinstance(said, Returned):  # between two requests: what was used is known
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
            said = heard.get(timeout=_POLL_S)
        except Empty:
            if watch.ended.is_set():
                raise StepEndedError from None
            continue
        yield said
        if isinstance(said, Gone):
            return
        until = min(watch.deadline, time.monotonic() + _LINGER_S) if isinstance(said, Ended) else watch.deadline
