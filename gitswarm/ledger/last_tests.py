"""Test runs of a run, as its evidence has them, without the models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import is_code
from gitswarm.ledger.finding import parsed, step_json
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import spec_fields
from gitswarm.records.execution import OTHER_COMMANDS

if TYPE_CHECKING:
    from pydantic import JsonValue


_PYTEST_ENDS = {
    2: "interrupted, mostly by an error while tests were collected",
    3: "an internal error of pytest",
    4: "pytest did not understand its command line or configuration, no test ran",
    5: "no tests found",
}


class LastTests(Struct, frozen=True):
    """
    :ivar passed: None: nothing was judged.
    :ivar current: it was the code that the run has now.
    :ivar summary: `31 passed`.
    :ivar red_before: they failed on the base as well.
    """

    step: str
    passed: bool | None
    current: bool
    summary: str
    red_before: bool = False


def last_tests(repository: RepositoryReader, state: RunState) -> LastTests | None:
    """The newest run of the project's tests; None: there was none."""
    for record in reversed(state.steps):
        evidence = evidence_of_command(repository, state, record)
        if evidence is None or not is_of_tests(repository, state, record, evidence):
            continue
        tests = evidence["tests"]
        passed, reason = (tests.get("passed"), tests.get("reason")) if isinstance(tests, dict) else (None, None)
        tested = repository.objects.commit(record.sibling).tree if record.sibling else record.tree
        return LastTests(
            step=f"{record.flow}/{record.step}",
            passed=passed if isinstance(passed, bool) else None,
            current=is_code(repository, tested, state.tip_tree),
            summary=command_summary(record, evidence),
            red_before=reason == "red_before",
        )
    return None


def evidence_of_command(
    repository: RepositoryReader, state: RunState, record: StepRecord
) -> dict[str, JsonValue] | None:
    """The evidence of a step that executed a command of the project; None for other steps."""
    if record.engine != "command":
        return None
    evidence = step_json(repository, state, record, record.execution.evidence)
    tests = evidence.get("tests") if isinstance(evidence, dict) else None
    return evidence if isinstance(tests, dict) and tests.get("command") else None


def is_of_tests(
    repository: RepositoryReader, state: RunState, record: StepRecord, evidence: dict[str, JsonValue]
) -> bool:
    """Whether a command step ran tests, as `runner.step.test_steps.is_test_step`; a step that its flow does not list
    is a closing test."""
    if isinstance(evidence.get("report"), dict):
        return True
    step = _frozen_step(repository, state, record)
    if step is None or step.get("tests"):
        return True
    command = step.get("command")
    if isinstance(command, str):
        return command not in OTHER_COMMANDS
    line = command.get("run") if isinstance(command, dict) else None
    return line is not None and line == spec_fields(repository, state).test_command


def _frozen_step(repository: RepositoryReader, state: RunState, record: StepRecord) -> dict[str, Any] | None:
    path = f"{state.layout.specs}/flows/{record.flow}.json"
    content = repository.objects.file(repository.objects.commit(state.run_commit).tree, path)
    flow = parsed(json.loads, content, state.layout, f"{state.run_commit[:12]}:{path}") if content else {}
    return next((step for step in flow.get("steps", ()) if step.get("id") == record.step), None)


def command_summary(record: StepRecord, evidence: JsonValue) -> str:
    """`31 passed`, `2 failed, 29 passed`; without a report, how the command ended; else the step's summary."""
    tests = evidence.get("tests") if isinstance(evidence, dict) else None
    if not isinstance(evidence, dict) or not isinstance(tests, dict) or record.engine != "command":
        return record.summary
    report, code, command = evidence.get("report"), tests.get("exit_code"), str(tests.get("command") or "")
    if isinstance(report, dict) and report.get("total"):
        kinds = ("failed", "passed", "skipped")
        counts = ", ".join(f"{report[kind]} {kind}" for kind in kinds if report.get(kind)) or "no test ran"
        return f"at least {counts}" if report.get("partial") else counts
    if "pytest" in command and isinstance(code, int) and code in _PYTEST_ENDS:
        return f"exit code {code}: {_PYTEST_ENDS[code]}"
    return record.summary
