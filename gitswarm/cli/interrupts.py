"""Signals that end a reading command, so that what it has open is put back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL = 128


@contextmanager
def signals_that_end() -> Iterator[None]:
    """Ctrl-C, SIGTERM, and a terminal that closes end the command as an exception does. What comes after the first of
    them is ignored, also by processes that are started then: `git` hands on a Ctrl-C that its child has got already.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(_BY_SIGNAL + number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)
