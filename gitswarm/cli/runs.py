"""What commands that show runs share: their arguments, the run that is meant, an entry of its log, and its words; and
which runs `--since` means: by a short age, or any date that git understands."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Struct

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import money, plural
from gitswarm.errors import NotARepositoryError, UsageError
from gitswarm.git.reader import RepositoryReader, open_reader
from gitswarm.ledger.finding import find_run, parsed
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import ConcernFields, Timing, decision_after, existing
from gitswarm.records.execution import RUNS_FOLDER, SHORT, Result, RunStatus, Status, created_at
from gitswarm.records.lazy_re import lazy_re

if TYPE_CHECKING:
    from gitswarm.ledger.overview import RunOverview
    from gitswarm.records.json_value import JsonValue

RunArgument = Annotated[
    str | None,
    Argument(metavar="RUN", help="An id or a part of it; else the run of this worktree, or the newest."),
]
StepArgument = Annotated[
    str | None,
    Argument(metavar="STEP", help="step, flow/step, step@2, 7, or a commit; else the last one."),
]
RunOption = Annotated[str | None, Option("--run", metavar="RUN", help="The run; else as for `log`.")]
CountOption = Annotated[
    str | None, Option("-n", "--max-count", metavar="NUMBER", help="At most this many, the newest.")
]
JsonFlag = Annotated[bool, Option("--json", help="One JSON document.")]


T = TypeVar("T")


class Opened(Struct, frozen=True):
    """A run that a command is about."""

    repository: RepositoryReader
    layout: RunLayout
    state: RunState


def folder_here() -> Path:
    """
    :raises NotARepositoryError: the folder that we stand in is gone or was thrown away.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise NotARepositoryError("the current folder no longer exists", hint="cd") from error
    if ".trash" in folder.parts and not (folder / ".git").exists():
        hint = "cd into the repository, then: git swarm list"
        raise NotARepositoryError(f"{folder} belongs to a discarded run", hint=hint)
    return folder


def reader_here() -> RepositoryReader:
    """The repository that we stand in, to read from.

    :raises NotARepositoryError: as `folder_here`, or there is none.
    """
    return open_reader(folder_here(), os.environ)


_REFUSE_EDITS = ("git swarm approve ", "git swarm land ")


def uncommitted_edits(repository: RepositoryReader, found: RunOverview) -> list[str]:
    """Files that were edited in the run's worktree, where the command that is hinted would refuse them."""
    linked = repository.worktree_made_for(f"refs/heads/{found.branch}")
    if linked is None or not found.hint.startswith(_REFUSE_EDITS):
        return []
    git = repository.git_in(linked.git_dir, linked.path)
    quiet = ("--no-optional-locks", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
    done = git.run(*quiet, "--", ".", f":(top,exclude){RUNS_FOLDER}")
    return [os.fsdecode(entry[3:]) for entry in done.stdout.split(b"\0") if entry] if done.returncode == 0 else []


def open_run(run: str | None) -> Opened:
    repository = reader_here()
    layout = find_run(repository, run)
    return Opened(repository, layout, replay(repository, layout))


def step_outcome(record: StepRecord) -> str:
    return record.status.value if record.result is Result.SUCCEEDED else record.result.value


def executed_by(record: StepRecord) -> str:
    model = "" if record.model == "none" else f", {record.model}"
    return f"{record.execution.agent}, {record.engine}/{record.mode}{model}"


def log_entry(opened: Opened, record: StepRecord, took: Timing) -> dict[str, JsonValue]:
    """One entry of `log --json` (design section 8)."""
    last = decision_after(opened.repository, opened.layout, record.commit)
    return {
        "n": record.number,
        **plain_step(record),
        "started_at": took.started_at,
        "duration_ms": took.duration_ms,
        "tokens": record.tokens,
        "cost_usd": record.cost_usd,
        "routing": None if last is None else _routing(last.plain),
    }


def plain_step(record: StepRecord) -> dict[str, JsonValue]:
    """What every command says about a step in JSON."""
    return {
        "commit": record.commit,
        "flow": record.flow,
        "step": record.step,
        "iteration": record.execution.iteration,
        "agent": record.execution.agent,
        "engine": record.engine,
        "mode": record.mode,
        "model": record.model,
        "result": record.result.value,
        "status": record.status.value,
        "summary": record.summary,
    }


def _routing(decision: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A decision as JSON, without `to_flow` where the next step lies in the same flow."""
    names = ("decision", "to_step", "to_flow", "routing_source", "reason")
    return {name: decision[name] for name in names if name != "to_flow" or decision.get(name)}


def understood(opened: Opened, record: StepRecord, path: str, parse: Callable[[bytes], T]) -> T:
    """A file of the step's commit, parsed.

    :raises CorruptError: it holds something else.
    """
    return parsed(parse, stored_file(opened, record, path), opened.layout, f"{record.commit[:12]}:{path}")


def stored_file(opened: Opened, record: StepRecord, path: str) -> bytes:
    return existing(opened.repository.objects.file(record.tree, path), record, path)


SUCCESSORS = ("landed", "approved", "rejected", "rehearsal")
"""What a run that succeeded is called when more is known."""

_PASSED = re.compile(
    r"(loop_iteration|status|can_further_iteration_help):\w+|no condition holds(: default)?|side by side|in parallel"
)
_CONDITION = re.compile(r"==|&&|\|\||^!?(evidence|envelope|state)\.\w")
_GAVE_UP = re.compile(r"max_iterations_reached:(\d+)")
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60}
"""Seconds of each, the longest first."""


def status_word(status: RunStatus) -> str:
    return "not proven" if status is RunStatus.UNPROVEN else status.value


def state_word(found: RunOverview) -> str:
    """The state of a run; of one that succeeded, whether it was approved and has landed."""
    if found.starting:
        return "starting"
    if found.state is not RunStatus.SUCCEEDED:
        return status_word(found.state)
    if found.landed is not None and not found.hint:
        return "landed"
    if found.rejected is not None and found.rejected.valid:
        return "rejected"
    if found.rehearsal:
        return "rehearsal"
    return "approved" if found.approved is not None and found.approved.valid else found.state.value


def headline(found: RunOverview) -> str:
    """`2aa18a  landed: 15 steps, 31 passed, 1200 tokens, $0.12`"""
    tests = f", {tests_word(found)}" if found.tests is not None else ""
    used = f"{found.tokens} tokens, {money(found.cost_usd)}"
    return f"{found.run_id}  {state_word(found)}: {plural(found.steps_executed, 'step')}{tests}, {used}"


def about(found: RunOverview) -> str:
    """`build: Add an answer`"""
    task = task_title(found)
    return f"{found.flow}: {task}" if task else found.flow


def task_title(found: RunOverview) -> str:
    """The first line of the task."""
    return next((line.strip() for line in found.task.splitlines() if line.strip()), "")


def task_cell(found: RunOverview) -> str:
    """Its task, and of a replay whose it is, by the end of that run's id: there is little room."""
    replayed = f"replay of {found.replay_of[-SHORT:]}" if found.replay_of else ""
    return ": ".join(part for part in (replayed, task_title(found)) if part) or "-"


def severity(concern: ConcernFields) -> str:
    return "blocking" if concern.blocking else "warning"


_UNTESTED = {"tests_cannot_run", "no_tests"}


def tests_command(found: RunOverview) -> str:
    """What to type where no test could run; "" where some did."""
    is_untested = any(each.id.partition("@")[0] in _UNTESTED for each in found.open_concerns)
    return "git swarm config --team commands.test 'COMMAND'   (docs/config.md)" if is_untested else ""


TEST_VERDICTS = {True: "passed", False: "failed", None: "judged nothing"}
"""How a command ended."""


def tests_word(found: RunOverview) -> str:
    """`31 passed`; `on earlier code`, where what was tested is not the code that the run has now."""
    if found.tests is None:
        return "no tests have run"
    passed, summary = found.tests.passed, found.tests.summary
    words = {True: "tests passed", False: "tests failed", None: "no tests judged"}[passed]
    text = summary if summary[:1].isdigit() else words
    return text if found.tests.current else f"{text} on earlier code"


def tests_cell(found: RunOverview) -> str:
    """One count: of what failed, else of what passed."""
    if found.tests is None:
        return "-"
    first = found.tests.summary.partition(",")[0]
    if first[:1].isdigit():
        return first
    return {True: "passed", False: "failed", None: "-"}[found.tests.passed]


def mark(outcome: str) -> str:
    """The sign of a step, by its status, or by its result where it has none."""
    if outcome in (Status.VERIFIED, "succeeded"):
        return "✓"
    return {Status.BLOCKED.value: "✗", "failed": "✗", "skipped": "-"}.get(outcome, "!")


def age(run_id: str) -> str:
    """`3m`, `2h`, `5d`: since the run was created."""
    return age_since(created_at(run_id))


def age_since(moment: datetime) -> str:
    seconds = max(int((datetime.now(UTC) - moment).total_seconds()), 0)
    return next((f"{seconds // length}{unit}" for unit, length in _UNITS.items() if seconds >= length), "now")


_DIGITS = 18
"""A number that a person types has no more; Python refuses one of thousands."""


def count_of(text: str | None) -> int | None:
    """
    :raises UsageError: it is not a number.
    """
    if text is not None and not (text.isdecimal() and len(text) <= _DIGITS):
        raise UsageError(f"-n {text}: not a number", hint="-n 10")
    return int(text) if text is not None else None


def reason_words(reason: str) -> str:
    """A recorded reason for a person; empty for one that the transition itself says, and for conditions of a flow."""
    gave_up = _GAVE_UP.match(reason)
    if gave_up:
        return f"loop gave up after {gave_up[1]} of {gave_up[1]}"
    if reason == "no_further_help":
        return "loop ended: no help expected from another pass"
    return "" if _PASSED.fullmatch(reason) or _CONDITION.search(reason) else reason


_NUMBERS = lazy_re(
    r"@?\d+|\d+(st|nd|rd|th|am|pm)|[+-]\d{4}|z"
    r"|(\d{1,4}[-/]\d{1,2}([-/]\d{1,4})?t?)?(\d{1,2}(:\d\d){1,2}(am|pm|z|[+-]\d\d:?\d\d)?)?"
)
_TIME_WORD = lazy_re(
    "ago|last|at|am|pm|utc|gmt|now|never|today|yesterday|noon|midnight|tea"
    "|one|two|three|four|five|six|seven|eight|nine|ten"
)
_TIME_NAMES = (
    " seconds minutes hours days weeks months years"
    " january february march april may june july august september october november december"
    " sunday monday tuesday wednesday thursday friday saturday"
)


def not_older(
    repository: RepositoryReader, runs: list[RunLayout], since: str | None, command: str = "list"
) -> list[RunLayout]:
    """Runs that were created since then; None: all.

    :param command: the one to type with another time.
    :raises UsageError: git does not understand it as a time.
    """
    if since is None:
        return runs
    short = re.fullmatch(rf"(\d{{1,{_DIGITS}}})([smhdw])", since)
    if short:
        oldest = time.time() - int(short[1]) * _UNITS.get(short[2], 1)
    elif not _is_time(since):
        hint = f"git swarm {command} --since 3d   (or 12h, yesterday, '2 weeks ago', 2026-11-20)"
        raise UsageError(f"--since {since}: not a time that git understands", hint=hint)
    else:
        answer = repository.git.output("rev-parse", f"--since={since}").decode()
        oldest = int(answer.strip().removeprefix("--max-age="))
    return [layout for layout in runs if created_at(layout.run_id).timestamp() >= oldest]


def _is_time(text: str) -> bool:
    """Whether every word is one that git's approxidate knows: what it does not know it takes for now."""
    words = [word for word in re.split(r"[\s.,_]+", text.lower()) if word]
    if all(re.fullmatch(r"\d{1,8}|ago|last|at", word) for word in words):
        return bool(re.fullmatch(r"\d{4}\.\d\d?\.\d\d?|\d\d?\.\d\d?\.\d{4}|@?\d{9,}", text))
    return all(_NUMBERS.fullmatch(word) or _is_word_of_time(word.lstrip("0123456789")) for word in words)


def _is_word_of_time(word: str) -> bool:
    """Names of months, days and units are known by their first letters."""
    return bool(_TIME_WORD.fullmatch(word)) or (len(word) > 2 and f" {word}" in _TIME_NAMES)
