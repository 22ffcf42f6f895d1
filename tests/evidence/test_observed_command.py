"""Whether a session ran a command of the project, as its tool calls show."""

from __future__ import annotations

from typing import Any

from gitswarm.evidence.observed_command import Observation, observe_command
from gitswarm.records.receipt import ToolCall
from tests.tables import table

NOT, PART, GREEN = Observation(), Observation(ran=True), Observation(ran=True, green=True)
PASSED, FAILED = "=== 3 passed in 0.10s ===\n", "=== 1 failed, 2 passed in 0.10s ===\n"


def bash(line: str, output: str = "", *, success: bool = True, **more: Any) -> ToolCall:
    return ToolCall(tool_name="Bash", input={"command": line}, source="sdk", success=success, output=output, **more)


def edit(path: str) -> ToolCall:
    return ToolCall(tool_name="Edit", input={"file_path": path}, source="sdk", success=True)


@table(
    ("command", "line", "seen"),
    [
        ("make test", "make test", GREEN),
        ("make test", "cd sub && make test", GREEN),
        ("make test", "make test && git status", GREEN),
        ("make test", "make test > /tmp/log.txt 2>&1", GREEN),
        ("make test", "make  test-all", NOT),
        ("make test", "echo make test", NOT),
        ("make test", "echo make test && make test", GREEN),
        ("make test", "CI=1 timeout 60 make test", GREEN),
        ("make test", "make test; true", PART),
        ("make test", "make test || true", PART),
        ("ruff check .", "ruff check .", GREEN),
        ("ruff check .", "ruff format .", NOT),
        ("cd web && npm test", "cd web && npm test", GREEN),
        ("python -m pytest", "python3 -m pytest -q", GREEN),
        ("python -m pytest", ".venv/bin/python -m pytest -x", GREEN),
        ("python -m pytest", "uv run pytest -q -p no:cacheprovider", GREEN),
        ("python -m pytest", "CI=1 pytest -q", GREEN),
        ("python -m pytest", "A=1 timeout -k 5 60 nice pytest -q", GREEN),
        ("python -m pytest", "timeout 60 pytest tests/test_a.py", PART),
        ("python -m pytest", "for n in 1 2; do pytest; done", PART),
        ("python -m pytest", "! pytest", NOT),
        ("python -m pytest", "timeout", NOT),
        ("python -m pytest", "pytest tests/test_a.py", PART),
        ("python -m pytest", "pytest -k one", PART),
        ("pytest -q tests", "pytest -q tests", GREEN),
        ("pytest -q tests", "pytest -q tests/test_a.py::test_b", PART),
        ("go test ./...", "go test ./... -count=1", GREEN),
        ("go test ./...", "go vet ./...", NOT),
        ("npm test", "cat package.json", NOT),
        ("npm test", "git commit -m 'npm test", NOT),
    ],
)
def test_a_line_runs_the_command(command: str, line: str, seen: Observation) -> None:
    assert observe_command([bash(line)], command) == seen


@table(
    ("call", "seen"),
    [
        (bash("pytest -q", PASSED), GREEN),
        (bash("pytest -q", FAILED, success=False), PART),
        (bash("pytest -q 2>&1 | tail -3", PASSED), GREEN),
        (bash("pytest -q | tail -3", FAILED), PART),
        (bash("pytest -q | tail -3", "3 warnings"), PART),
        (bash("pytest -q", PASSED, blocked=True), NOT),
    ],
)
def test_how_it_ended_is_read_where_it_can_be(call: ToolCall, seen: Observation) -> None:
    assert observe_command([call], "pytest -q") == seen


@table(
    ("path", "seen"),
    [
        ("$WORKTREE/src/app.py", NOT),
        ("src/app.py", NOT),
        ("$WORKTREE/.swarm/runs/run-x/build/notes.md", GREEN),
        ("RUN_BASE/build/notes.md", GREEN),
    ],
)
def test_an_edit_of_the_code_undoes_what_was_seen_before_it(path: str, seen: Observation) -> None:
    assert observe_command([bash("pytest"), edit(path)], "pytest") == seen
    assert observe_command([edit(path), bash("pytest")], "pytest") == GREEN
