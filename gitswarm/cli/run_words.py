"""A run in few words, as every screen says them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gitswarm.cli.console import money, plural
from gitswarm.errors import UsageError
from gitswarm.ledger.overview import RunOverview
from gitswarm.records.execution import SHORT, RunStatus, Status, created_at

_STATES = {RunStatus.UNPROVEN: "not proven"}
SUCCESSORS = ("landed", "approved", "rejected", "rehearsal")
"""What a run that succeeded is called when more is known."""

_PASSED = re.compile(
    r"(loop_iteration|status|can_further_iteration_help):\w+|no condition holds(: default)?|side by side|in parallel"
)
_CONDITION = re.compile(r"==|&&|\|\||^!?(evidence|envelope|state)\.\w")
_GAVE_UP = re.compile(r"max_iterations_reached:(\d+)")
_UNITS = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m"))


def state_word(found: RunOverview) -> str:
    """Its state, and of a run that succeeded what became of it."""
    if found.starting:
        return "starting"
    if found.state is not RunStatus.SUCCEEDED:
        return _STATES.get(found.state, found.state.value)
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


def tests_word(found: RunOverview) -> str:
    """`31 passed`; `on earlier code`, where what was tested is not the code that the run has now."""
    if found.tests is None:
        return "none have run"
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
    """Of a step, by its status, or its result where it has none."""
    if outcome in (Status.VERIFIED, "succeeded"):
        return "✓"
    return {Status.BLOCKED.value: "✗", "failed": "✗", "skipped": "-"}.get(outcome, "!")


def age(run_id: str) -> str:
    """`3m`, `2h`, `5d`: since the run was created."""
    return age_since(created_at(run_id))


def age_since(moment: datetime) -> str:
    seconds = max(int((datetime.now(UTC) - moment).total_seconds()), 0)
    return next((f"{seconds // length}{unit}" for length, unit in _UNITS if seconds >= length), "now")


def count_of(text: str | None, option: str = "-n") -> int | None:
    """
    :raises UsageError: it is not a number.
    """
    if text is not None and not text.isdecimal():
        raise UsageError(f"{option} {text}: not a number", hint=f"{option} 10")
    return int(text) if text is not None else None


def reason_words(reason: str) -> str:
    """A recorded reason for a person; empty for one that the way itself says, and for conditions of a flow."""
    gave_up = _GAVE_UP.match(reason)
    if gave_up:
        return f"loop gave up after {gave_up[1]} of {gave_up[1]}"
    if reason == "no_further_help":
        return "loop ended: no help expected from another pass"
    return "" if _PASSED.fullmatch(reason) or _CONDITION.search(reason) else reason
