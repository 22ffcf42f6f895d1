"""`bisect`: which step of a run broke a command."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct, field

from gitswarm.cli.arguments import Argument
from gitswarm.cli.bisect_steps import BisectVerdict, bisect_run
from gitswarm.cli.console import advise, duration, err, out, out_json, out_lines
from gitswarm.cli.interrupts import signals_that_end
from gitswarm.cli.lines import field as labelled_line
from gitswarm.cli.lines import tail
from gitswarm.cli.opened import JsonFlag, Opened, RunArgument, open_run, step_name
from gitswarm.errors import SwarmError, UsageError
from gitswarm.ledger.steps import StepRecord
from gitswarm.processes import CommandLimits, Ending, project_environment, run_shell

if TYPE_CHECKING:
    from pydantic import JsonValue

_LONGEST_S = 7 * 24 * 3600.0
_SKIP, _FIRST_SIGNAL = 125, 128
_NOT_FOUND = {126: "the command cannot be executed", 127: "the command was not found"}
"""What a shell says by its exit code; in a later step the code may be the cause."""

_MARKS = {BisectVerdict.GOOD: "✓", BisectVerdict.BAD: "✗", BisectVerdict.SKIP: "-"}
_WORDS = {BisectVerdict.GOOD: "passes", BisectVerdict.BAD: "fails", BisectVerdict.SKIP: "cannot be tested"}
_BASE = "before the first step"


def bisect(
    run: RunArgument = None,
    command: Annotated[
        list[str] | None,
        Argument(metavar="-- CMD", help="0: good; 125: cannot be tested; up to 127: bad.", is_rest=True),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Which step of a run broke a command, by git bisect.

    In a worktree of its own. The command is executed as yours, with your environment; one word is a line for the
    shell.
    """
    if not command:
        raise UsageError("no command", hint="git swarm bisect -- make test")
    opened = open_run(run)
    tests = _Tests(command[0] if len(command) == 1 else shlex.join(command))
    with signals_that_end():
        suspects = bisect_run(opened.repository, opened.state, tests.judge)
    if as_json:
        out_json(_plain(opened, tests, suspects))
    else:
        _show(opened, tests, suspects)
    if len(suspects) > 1:
        raise SystemExit(1)


class _Tested(Struct, frozen=True):
    """The command's verdict on a step; None: on the code before the first one."""

    step: StepRecord | None
    exit_code: int
    verdict: BisectVerdict
    duration_ms: int
    output: str


class _Tests(Struct, frozen=True):
    command: str
    done: list[_Tested] = field(default_factory=list)

    def judge(self, folder: Path, step: StepRecord | None) -> BisectVerdict:
        """
        :raises SwarmError: the command cannot be started, or was ended by a signal: neither judges the code.
        """
        name = _name(step)
        if sys.stderr.isatty():
            sys.stderr.write(f"▸ {name}\r")
            sys.stderr.flush()
        limits = CommandLimits(timeout_s=_LONGEST_S)
        ended = run_shell(self.command, cwd=folder, env=project_environment(os.environ), limits=limits)
        code = ended.exit_code
        if ended.ending is not Ending.EXITED or code is None or not 0 <= code < _FIRST_SIGNAL:
            why = ended.error or f"it ended with {code}"
            raise SwarmError(f"{self.command}: {why}, on the code {name}", hint="git swarm bisect -- make test")
        verdict = BisectVerdict.SKIP if code == _SKIP else BisectVerdict.BAD if code else BisectVerdict.GOOD
        if step is None and code in _NOT_FOUND:
            for line in tail(ended.output):
                err(f"  {line}")
            raise SwarmError(
                f"{self.command}: {_NOT_FOUND[code]} (exit code {code}), on the code {name}: that proves nothing",
                hint="git swarm bisect -- make test",
            )
        self.done.append(_Tested(step, code, verdict, ended.duration_ms, ended.output))
        err(f"{_MARKS[verdict]} {name}  {_WORDS[verdict]}, exit code {code}, {duration(ended.duration_ms)}")
        return verdict


def _name(step: StepRecord | None) -> str:
    return f"{step.number} {step_name(step)}" if step is not None else _BASE


def _show(opened: Opened, tests: _Tests, suspects: Sequence[StepRecord]) -> None:
    run = opened.layout.run_id
    if len(suspects) > 1:
        out(f"one of these steps broke it: {tests.command}")
        out_lines(f"  {_name(step)}" for step in suspects)
        out("those between the last that passes and the first that fails cannot be tested")
        return
    for step in suspects:
        out(f"{step_name(step)} (#{step.number}) broke it: {tests.command}")
        out_lines(labelled_line("commit", step.commit[:12]))
        model = "" if step.model == "none" else f", {step.model}"
        out_lines(labelled_line("by", f"{step.execution.agent}, {step.engine}/{step.mode}{model}"))
        out_lines(labelled_line("summary", step.summary))
        output = next((tail(each.output) for each in tests.done if each.step == step), [])
        for number, line in enumerate(output):
            out(f"  {'' if number else 'output':<9} {line}")
        advise(f"git swarm show {step.number} --run {run}")
        advise(f"git swarm rollback {step.number - 1} --run {run}   (to the code before it)")


def _plain(opened: Opened, tests: _Tests, suspects: Sequence[StepRecord]) -> dict[str, JsonValue]:
    return {
        "run_id": opened.layout.run_id,
        "command": tests.command,
        "steps": [_step(step) for step in suspects],
        "tested": [
            {
                "step": _step(each.step) if each.step is not None else None,
                "verdict": each.verdict.value,
                "exit_code": each.exit_code,
                "duration_ms": each.duration_ms,
            }
            for each in tests.done
        ],
    }


def _step(step: StepRecord) -> dict[str, JsonValue]:
    return {
        "n": step.number,
        "commit": step.commit,
        "flow": step.flow,
        "step": step.step,
        "iteration": step.execution.iteration,
        "summary": step.summary,
    }
