"""The engines that ask no model, with the same receipts: `command` runs the project's own commands in the worktree,
`kernel` carries out operations of git-swarm's own, and people's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gitswarm.engines.base import (
    LOCAL_WORK,
    Capabilities,
    CommandOrder,
    Emit,
    StepRequest,
    StepResult,
    WithoutModel,
    capped,
)
from gitswarm.engines.detect import how_to_set, no_tests_ran
from gitswarm.engines.recorder import Recorder
from gitswarm.engines.stub import LineEnd, leave, out_of_time, run_line, shown_line, time_left, wait_as_scripted
from gitswarm.processes import Ending
from gitswarm.records.envelope import Handoff
from gitswarm.records.evidence import CheckOutcome
from gitswarm.records.execution import Result, Status
from gitswarm.records.record import Clock
from gitswarm.specs.script import Script, ScriptEntry
from gitswarm.untrusted import files_below

_REPORT_BYTES = 50_000_000
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")

NOT_EXECUTABLE = (126, 127)
"""What a shell answers when the command itself could not start."""


class CommandEngine(WithoutModel):
    """A non-zero end is a result that succeeded with status UNVERIFIED: routing decides what it means."""

    engine_id = "command"
    mode = "local"
    capabilities = LOCAL_WORK

    def __init__(self, script: Script | None, clock: Clock) -> None:
        self._script = script
        self._clock = clock

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        started = time.monotonic()
        order = request.command or CommandOrder("test", shell=None, timeout_s=1)
        entry = self._entry(request)
        ended = wait_as_scripted(entry, request)
        recorder = Recorder(request, self._clock, emit, "kernel-executed")
        first = 0
        lines = entry.run or ((order.shell,) if order.shell else ())
        if ended is not None or entry.fail is not None:
            check, error = CheckOutcome(), ended or entry.fail
        elif not lines:
            check, error = CheckOutcome(reason="no_tests"), None
        else:
            asked = (order.asking,) if order.asking and not entry.run else lines
            check, error = _carry_out(asked, order.timeout_s, request, recorder)
            is_failed = error is None and check.passed is not True  # what took too long would do so again
            if asked != lines and is_failed and not _is_readable(order, recorder.outputs):
                first = len(recorder.outputs)
                check, error = _carry_out(lines, order.timeout_s, request, recorder)
            check = replace(check, command=" && ".join(lines))
        leave(entry.files, request, recorder)
        missed = _missed(request.withheld, recorder.outputs) + _refused(request.containment.refused)
        handoff = _handoff(check, order.name, missed)
        recorder.say(error or handoff.summary)
        return StepResult(
            step_id=request.execution.step,
            status=_result(check, error),
            output=capped("\n".join(recorder.outputs[first:]) or handoff.summary),
            report_text="\n".join(recorder.outputs[first:]),
            report_files=_reports(order),
            error=error,
            duration_ms=int((time.monotonic() - started) * 1000),
            handoff=None if error else handoff,
            transcript=recorder.transcript,
            tool_calls=recorder.tool_calls,
            check=check,
        )

    def _entry(self, request: StepRequest) -> ScriptEntry:
        if self._script is None:
            return ScriptEntry()
        return self._script.entry(request.execution.flow, request.execution.step, request.executed)


def _is_readable(order: CommandOrder, outputs: Sequence[str]) -> bool:
    return order.is_readable("\n".join(outputs), _reports(order))


def _reports(order: CommandOrder) -> dict[str, bytes]:
    """The files that the command left where it was asked to. A link would have us read what the command may not."""
    folder = order.reports
    if folder is None:
        return {}
    files = sorted(path for path, about in files_below(folder) if about.st_size <= _REPORT_BYTES)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _carry_out(
    lines: tuple[str, ...], timeout_s: float, request: StepRequest, recorder: Recorder
) -> tuple[CheckOutcome, str | None]:
    """Runs the lines in order up to the first that does not end with 0."""
    command = " && ".join(lines)
    for line in lines:
        began = time.monotonic()
        timeout_s = time_left(request, timeout_s)
        ended = run_line(line, request, recorder, timeout_s)
        cut = out_of_time(request, began) or f"no end after {timeout_s:.3g} s, ended"
        error = _why_not(shown_line(line, request), ended, recorder.outputs[-1], cut)
        if error is not None:
            return CheckOutcome(command=command, exit_code=ended.exit_code), error
        if ended.exit_code != 0:
            no_tests = no_tests_ran(line, ended.exit_code or 0, recorder.outputs[-1])
            judged = CheckOutcome(command=command, exit_code=ended.exit_code)
            return replace(judged, reason="no_tests") if no_tests else replace(judged, passed=False), None
    return CheckOutcome(command=command, passed=True, exit_code=0), None


def _why_not(line: str, ended: LineEnd, output: str, cut: str) -> str | None:
    """Why a line cannot be judged by its exit code; None: it can.

    :param cut: what to say of one that took too long.
    """
    if ended.blocked:
        return "; ".join(output.split("\n")).strip("; ")
    if ended.ending is Ending.TIMED_OUT:
        return f"{line}: {cut}"
    if ended.ending is Ending.NOT_STARTED or ended.exit_code in NOT_EXECUTABLE:
        return f"{line}: could not start"
    if ended.exit_code is None or ended.exit_code < 0:
        return f"{line}: killed by signal {ended.exit_code}"
    return None


def _result(check: CheckOutcome, error: str | None) -> Result:
    if error is not None:
        return Result.FAILED
    return Result.SKIPPED if check.command is None else Result.SUCCEEDED


def _missed(withheld: Collection[str], outputs: Sequence[str]) -> str:
    """What to do about variables that the output names, and that the command did not get."""
    words = {word for output in outputs for word in _WORD.findall(output)}
    names = sorted(words.intersection(withheld))
    return f"; not passed on: {', '.join(names[:3])} (policy.env in .swarm/config.yaml)" if names else ""


def _refused(hosts: Sequence[str]) -> str:
    """What to do about hosts that the command did not reach."""
    return f"; {'; '.join(hosts[:3])} (.swarm/config.yaml)" if hosts else ""


def _handoff(check: CheckOutcome, name: str, missed: str) -> Handoff:
    if check.command is None:
        summary = f"skipped: no {name} command is configured or found ({how_to_set(name)})"
    elif check.reason == "no_tests":
        summary = f"no tests to run: {check.command}"
    elif check.passed:
        summary = f"passed: {check.command}"
    else:
        summary = f"failed (exit code {check.exit_code}): {check.command}{missed}"
    status = Status.VERIFIED if check.passed else Status.UNVERIFIED
    return Handoff(status=status, summary=summary, confidence="high")


Operation = Callable[[StepRequest, Emit], StepResult]


@dataclass(frozen=True, slots=True)
class KernelEngine(WithoutModel):
    """Carries out what the runner hands in. No model, no cost."""

    operation: Operation
    engine_id: str = "kernel"
    mode: str = "local"
    capabilities: Capabilities = LOCAL_WORK

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        return self.operation(request, emit)
