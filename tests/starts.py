"""Counts the processes that the tests start, and forbids them where a test is marked `unit`.

A pytest plugin. What those processes start in turn is not counted.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
_OUTPUT = "process starts"


class _Starts:
    """What the audit hook of this process has seen: it can never be taken out again."""

    def __init__(self) -> None:
        self.programs: Counter[str] = Counter()
        self.forbidden = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        if self.forbidden:
            pytest.fail(f"a unit test starts a process: {arguments}")
        self.programs[_program(event, arguments)] += 1


def _program(event: str, arguments: tuple[Any, ...]) -> str:
    return Path(os.fsdecode(arguments[0])).name if arguments and arguments[0] else event


class _Worker(Protocol):
    workeroutput: dict[str, dict[str, int]]


_STARTS = _Starts()
sys.addaudithook(_STARTS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _STARTS.forbidden = item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _STARTS.forbidden = False


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands its numbers to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = dict(_STARTS.programs)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: _Worker) -> None:
    _STARTS.programs.update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    most = ", ".join(f"{program} {number}" for program, number in _STARTS.programs.most_common(5))
    terminalreporter.write_line(f"{_STARTS.programs.total()} processes started: {most}")
