"""What a script can make any step do: wait, and run shell lines in the worktree."""

from __future__ import annotations

from gitswarm.engines.base import StepEndedError, StepRequest
from gitswarm.engines.recorder import Recorder
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.specs.script import ScriptEntry

_OUTPUT_BYTES = 4_000_000  # of a long test run the report is read; transcripts keep less


def wait_as_told(entry: ScriptEntry, request: StepRequest) -> None:
    """`delay_ms`, and `hang`: until the process is interrupted or killed.

    :raises StepEndedError: the step was ended meanwhile.
    """
    request.ended.wait(entry.delay_ms / 1000)
    if entry.hang:
        request.ended.wait()
    if request.ended.is_set():
        raise StepEndedError


def run_line(line: str, request: StepRequest, recorder: Recorder, timeout_s: float) -> tuple[Ending, int | None]:
    """One shell line in the worktree, recorded as a tool call."""
    with recorder.tool("Bash", {"command": line}) as call:
        limits = CommandLimits(timeout_s=timeout_s, output_bytes=_OUTPUT_BYTES)
        done = run_shell(line, cwd=request.worktree, env=request.env, limits=limits)
        call.success = done.ending is Ending.EXITED and done.exit_code == 0
        said = done.output if done.error is None else f"{done.output}{done.error}"
        # Evidence moves between machines: it names no folder of this one.
        call.output = said.replace(str(request.worktree), "$WORKTREE")
    return done.ending, done.exit_code
