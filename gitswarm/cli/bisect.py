"""`bisect`: which step of a run broke a command, by bisection of its commits, in a worktree for that."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

from msgspec import Struct, field

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import advise, duration, err, out, out_json, out_lines, tail
from gitswarm.cli.console import field as labelled_line
from gitswarm.cli.runs import JsonFlag, Opened, RunArgument, executed_by, open_run
from gitswarm.cli.terminal import on_signals
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.git.discovery import pointer
from gitswarm.git.process import Git
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.processes import CommandLimits, Ending, project_environment, run_shell
from gitswarm.records.json_value import JsonValue
from gitswarm.untrusted import remove_tree

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

    with on_signals(end, end):
        yield


class BisectVerdict(StrEnum):
    """A verdict on one step, in git bisect's words."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


Tester = Callable[[Path, StepRecord | None], BisectVerdict]
"""Judges the code in a folder, as it is after a step; None: before the first one."""


def bisect_run(repository: RepositoryReader, state: RunState, test: Tester) -> tuple[StepRecord, ...]:
    """The step that broke the command; several, the oldest first, where those between could not be tested.

    :raises NotFoundError: the run has no step, or the command does not go from good to bad in it.
    """
    if not state.steps:
        raise NotFoundError(f"{state.layout.run_id} has no step yet", hint=f"git swarm status {state.layout.run_id}")
    records = {record.commit: record for record in state.steps}
    good, bad = state.bases.root, state.steps[-1].commit
    with _thrown_away(repository, bad) as (folder, git):
        identity = _identity(folder)

        def judged(commit_id: str) -> BisectVerdict:
            git.output("checkout", "--quiet", "--detach", commit_id, "--")
            verdict = test(folder, records.get(commit_id))
            if _identity(folder) != identity:
                what = f"{folder}: the command put something else in place of its folder"
                raise SwarmError(what, hint=f"git swarm log {state.layout.run_id}")
            _clean(git)
            return verdict

        fails = f"it does not fail after the last step ({state.steps[-1].name})"
        _expect(judged(bad), BisectVerdict.BAD, fails, state)
        _expect(judged(good), BisectVerdict.GOOD, f"it does not pass before the first step, on {good[:12]}", state)
        suspects, tested = _suspects(git, good, bad, records), {bad}
        while not tested.issuperset(suspects):
            middle = len(suspects) // 2
            commit_id = min(suspects, key=lambda each: (each in tested, abs(suspects.index(each) + 1 - middle)))
            verdict = judged(commit_id)
            tested.add(commit_id)
            if verdict is BisectVerdict.GOOD:
                good = commit_id
            elif verdict is BisectVerdict.BAD:
                bad = commit_id
            suspects = _suspects(git, good, bad, records)
    return tuple(sorted((records[commit_id] for commit_id in suspects), key=lambda step: step.number))


def _suspects(git: Git, good: str, bad: str, steps: Collection[str]) -> list[str]:
    """The commits of steps that may be the first bad one, the oldest first: those between two steps hold the code of
    the first."""
    listed = git.output("rev-list", "--first-parent", "--reverse", bad, f"^{good}", "--").decode()
    return [commit_id for commit_id in listed.splitlines() if commit_id in steps]


def _expect(found: BisectVerdict, wanted: BisectVerdict, otherwise: str, state: RunState) -> None:
    if found is not wanted:
        cannot = "; the command says that it cannot be tested (exit code 125)" if found is BisectVerdict.SKIP else ""
        raise NotFoundError(f"{otherwise}{cannot}", hint=f"git swarm log {state.layout.run_id}")


@contextmanager
def _thrown_away(repository: RepositoryReader, commit_id: str) -> Iterator[tuple[Path, Git]]:
    """A worktree outside of the repository, and git in it; what bisect writes there belongs to it alone."""
    folder = Path(tempfile.mkdtemp(prefix="git-swarm-bisect-")).resolve()
    try:
        repository.git.output("worktree", "add", "--quiet", "--detach", "--", str(folder), commit_id)
        git_dir = pointer(folder)
        if git_dir is None:
            raise SwarmError(f"git made no worktree in {folder}", hint="git worktree list")
        yield folder, repository.git_in(git_dir, folder)
    finally:
        repository.git.run("worktree", "remove", "--force", "--force", "--", str(folder))
        remove_tree(folder)


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """Git would clean what a link leads to."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)


def _clean(git: Git) -> None:
    """What a test left would be seen by the next one."""
    for words in (["reset", "--quiet", "--hard"], ["clean", "-ffdxq"]):
        git.output(*words)


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
    """Which step of a run broke a command, by bisection.

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
    return f"{step.number} {step.name}" if step is not None else _BASE


def _show(opened: Opened, tests: _Tests, suspects: Sequence[StepRecord]) -> None:
    run = opened.layout.run_id
    if len(suspects) > 1:
        out(f"one of these steps broke it: {tests.command}")
        out_lines(f"  {_name(step)}" for step in suspects)
        out("those between the last that passes and the first that fails cannot be tested")
        return
    for step in suspects:
        out(f"{step.name} (#{step.number}) broke it: {tests.command}")
        out_lines(labelled_line("commit", step.commit[:12]))
        out_lines(labelled_line("by", executed_by(step)))
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
