"""What a script can make any step do: wait, and run shell lines in the worktree."""

from __future__ import annotations

import time

from msgspec import Struct

from gitswarm.engines.base import StepEndedError, StepRequest
from gitswarm.engines.recorder import Given, Recorder, ToolOutcome
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.records.budget import time_words
from gitswarm.specs.script import ScriptEntry


class LineEnd(Struct, frozen=True):
    """How a line ended; `blocked`: the policy did not let it begin."""

    ending: Ending
    exit_code: int | None
    blocked: bool = False


_POLL_S = 0.05
_OUTPUT_BYTES = 4_000_000  # of a long test run the report is read; transcripts keep less


def out_of_time(request: StepRequest, began: float) -> str | None:
    """`ended after 60s by --max-time`; None: the budget has time left.

    :param began: on the monotonic clock.
    """
    now = time.monotonic()
    if request.deadline is None or now < request.deadline:
        return None
    return f"ended after {time_words(now - began)} by {request.set_by}"


def time_left(request: StepRequest, timeout_s: float) -> float:
    """Seconds: `timeout_s`, or less where the budget has less."""
    return timeout_s if request.deadline is None else max(0.0, min(timeout_s, request.deadline - time.monotonic()))


def wait_as_told(entry: ScriptEntry, request: StepRequest) -> str | None:
    """`delay_ms`, and `hang`: until the process is interrupted or killed. Returns why it was ended before, or None.

    :raises StepEndedError: the step was ended meanwhile.
    """
    began = time.monotonic()
    request.ended.wait(time_left(request, entry.delay_ms / 1000))
    # With a timeout: a signal that comes just before Python waits here is handled only when it wakes up.
    while entry.hang and time_left(request, 1.0) and not request.ended.wait(_POLL_S):
        pass
    if request.ended.is_set():
        raise StepEndedError
    return out_of_time(request, began)


def run_line(line: str, request: StepRequest, recorder: Recorder, timeout_s: float) -> LineEnd:
    """One shell line in the worktree, recorded as a tool call.

    A test command that is asked for reports is recorded as it stands, without the folder that they go to: what is
    recorded is the same on every machine.
    """
    order = request.command
    asked = order is not None and order.asking == line
    shown = order.shell if order is not None and asked else line
    folder = str(order.reports) if order is not None and order.reports is not None else ""
    ended = LineEnd(Ending.NOT_STARTED, None, blocked=True)

    def act(given: Given) -> ToolOutcome:
        nonlocal ended
        called = line if asked and given["command"] == shown else str(given["command"])
        reports = (order.reports,) if order is not None and order.reports is not None else ()
        limits = CommandLimits(timeout_s, _OUTPUT_BYTES, request.containment.opened(write=reports))
        done = run_shell(called, cwd=request.worktree, env=request.env, limits=limits)
        ended = LineEnd(done.ending, done.exit_code)
        said = done.output if done.error is None else f"{done.output}{done.error}"
        said = said.replace(folder, "REPORTS") if folder else said
        return ToolOutcome(done.ending is Ending.EXITED and done.exit_code == 0, said)

    recorder.call("Bash", {"command": shown}, act)
    return ended
