"""Waits for a condition instead of for a time."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

DEADLINE_S = 60.0
_POLL_S = 0.01

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, seconds: float = DEADLINE_S) -> T:
    """The first true answer of `condition`; the test fails when none comes in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (answer := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"after {seconds:g} s still not: {what}")
        pause.wait(_POLL_S)
    return answer


def ends_within(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether the process ends by itself in that time; its output goes on lying in its pipes."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
