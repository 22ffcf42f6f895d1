"""What a person sees of a run that executes: plain lines, and the line that moves on a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from gitswarm.cli.progress import LiveProgress, PlainProgress
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import columns

RETRY: dict[str, JsonValue] = {"attempt": 2, "of": 3, "wait_s": 4.0, "reason": "529 overloaded_error"}


def event(kind: EventKind, payload: Mapping[str, JsonValue] | None = None) -> LoggedEvent:
    return LoggedEvent(
        run_id="r",
        seq=1,
        ts="2026-01-01T00:00:00.000Z",
        kind=kind,
        flow_key="build",
        step_id="implement",
        iteration=2,
        payload=dict(payload or {}),
    )


def message(text: str) -> LoggedEvent:
    return event(EventKind.MESSAGE, {"role": "assistant", "text": text})


CALL = event(EventKind.TOOL_START, {"tool": "Bash", "input": {"command": "make test"}})
RETURN = event(EventKind.TOOL_END, {"tool": "Bash", "success": True, "output": ""})
ENDS = (event(EventKind.STEP_END), event(EventKind.STEP_ERROR))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "     retry 2 of 3 in 4 s: 529 overloaded_error"),
        ({"wait_s": 0.5}, "     retry 2 of 3 in 0.5 s: 529 overloaded_error"),
        ({"reason": "no answer " * 20 + "\nmore"}, f"     retry 2 of 3 in 4 s: {('no answer ' * 20).rstrip()}"),
    ],
)
def test_a_retry_is_one_whole_line_in_a_log(
    capsys: pytest.CaptureFixture[str], changes: Mapping[str, JsonValue], line: str
) -> None:
    PlainProgress().event(event(EventKind.ENGINE_RETRY, {**RETRY, **changes}))
    assert capsys.readouterr().err == f"{line}\n"


def moving_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *events: LoggedEvent
) -> tuple[str, ...]:
    """What the line says on a terminal of 80 columns after these events, between its dots; times left out."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    with LiveProgress() as live:
        for told in (event(EventKind.STEP_START), *events):
            live.event(told)
        capsys.readouterr()
    drawn_at_last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    line = [part for part in drawn_at_last.splitlines() if "·" in part][-1]
    assert columns(line) <= 80
    return tuple(part for part in line.split(" · ") if not re.search(r"\dms$|tokens", part))


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        pytest.param((), (), id="nothing yet"),
        pytest.param((message("I read first.\nThen I write."),), ("I read first.",), id="it speaks"),
        pytest.param((message("I run the tests."), CALL), ("Bash make test",), id="a tool runs"),
        pytest.param((message("I run the tests."), CALL, RETURN), ("I run the tests.",), id="a tool has run"),
        pytest.param((message("done"), ENDS[0]), ("…",), id="the step has ended"),
        pytest.param((message("done"), ENDS[1]), ("…",), id="the step has failed"),
        pytest.param((message("done"), event(EventKind.STEP_START)), (), id="another step"),
        pytest.param((message("so many words " * 9),), ("so many words so many words…",), id="many words"),
        pytest.param((message("\x1b]0;mine\x07 hi"),), ("�]0;mine� hi",), id="words that would steer a terminal"),
    ],
)
def test_the_moving_line_tells_what_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    events: tuple[LoggedEvent, ...],
    doing: tuple[str, ...],
) -> None:
    assert moving_line(monkeypatch, capsys, *events) == doing


def test_a_line_above_it_does_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with LiveProgress() as live:
        live.say("a \x1b[2J b")
    assert "a �[2J b" in capsys.readouterr().err
