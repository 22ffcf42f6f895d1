"""Signals that end a reading command, so that what it has open is put back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_BY_SIGNAL = 128


@contextmanager
def signals_that_end() -> Iterator[None]:
    """SIGTERM, and a terminal that closes, end the command as an exception does."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(_BY_SIGNAL + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)
