"""A `claude` that is missing, too old or broken: each ends in bounded time and says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from gitswarm.engines.adapter import Program
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude import claude_code, session
from gitswarm.engines.claude.claude_code import find_program
from gitswarm.records.receipt import EngineOutcome
from tests.claude.stage import Stage, in_turns, quick
from tests.conftest import Project
from tests.loopback.replies import working

OTHERWISE = "is it Claude Code? SWARM_CLAUDE_CLI=PATH and engines.claude.cli say where another one is"
VERSION = 'test "$1" = --version && { echo "2.1.999 (Claude Code)"; exit; }\n'


def fake(folder: Path, script: str) -> Path:
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo '2.0.1 (Claude Code)'", "is claude 2.0.1, and 2.1.295 or newer is needed: claude update"),
        ("echo hello; echo world", f"does not print its version (exit code 0, 'hello world'): {OTHERWISE}"),
        ("echo node v20.20.2 >&2; exit 1", f"does not print its version (exit code 1, 'node v20.20.2'): {OTHERWISE}"),
        ("echo 2.1.999; exit 1", f"does not print its version (exit code 1, '2.1.999'): {OTHERWISE}"),
        ("kill -9 $$", f"does not print its version (exit code -9, ''): {OTHERWISE}"),
        ("sleep 60", f"does not print its version (timed out after 0.3 s): {OTHERWISE}"),
        ("yes", f"does not print its version (timed out after 0.3 s): {OTHERWISE}"),
    ],
    ids=["old", "garbage", "fails", "fails-with-version", "killed", "hangs", "endless"],
)
def test_a_program_that_cannot_be_used_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    monkeypatch.setattr(claude_code, "_VERSION_S", 0.3)
    path = fake(tmp_path, script)
    before = psutil.Process().children()
    found = find_program(EngineAccess(cli=str(path)), {"PATH": os.environ["PATH"]}, bundled_first=True)
    assert found.message == f"{path} {problem}"
    assert psutil.Process().children() == before


def test_a_program_is_asked_with_the_path_that_it_has_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions stand in another folder."""
    path = fake(tmp_path, VERSION)
    monkeypatch.chdir(tmp_path)
    found = find_program(EngineAccess(cli="claude"), {"PATH": os.environ["PATH"]}, bundled_first=True)
    assert found == Program(path, "2.1.999")


def test_a_program_that_is_not_there_and_one_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = EngineAccess(cli=str(tmp_path / "claude"))
    told = f"there is no program at {tmp_path}/claude: unset SWARM_CLAUDE_CLI, or correct engines.claude.cli"
    assert find_program(said, {}, bundled_first=True).message == told
    monkeypatch.setattr(claude_code, "_bundled", lambda: None)
    nowhere = find_program(EngineAccess(), {"PATH": str(tmp_path)}, bundled_first=True)
    assert nowhere.message.startswith("claude is not installed: npm install -g")


UNTIL_ENDED = "no end after 1 s: it was ended"
WITHOUT_RESULT = {
    "fails": ("echo 'no such model' >&2; exit 1", "exit code 1, no result: no such model"),
    "killed": ("kill -9 $$", "killed by signal 9"),
    "says-nothing": ("exit 0", "exit code 0, no result"),
    "hangs": ("sleep 60 & sleep 60", UNTIL_ENDED),
    "endless-text": ("yes", UNTIL_ENDED),
    "endless-json": ('yes \'{"type": "system", "subtype": "noise"}\'', UNTIL_ENDED),
}


@in_turns("broken", WITHOUT_RESULT)
def test_a_session_without_a_result_was_killed(stage: Stage, mode: str, broken: tuple[str, str]) -> None:
    script, detail = broken
    # The SDK waits for the answer to its first question, also of a program that has ended in peace.
    expected = UNTIL_ENDED if (mode, script) == ("sdk", "exit 0") else detail
    step_timeout = 1 if expected == UNTIL_ENDED else 20
    told = stage.run(
        mode, working(), profile=quick(cli=fake(stage.folder, VERSION + script), step_timeout=step_timeout)
    )
    assert (told.outcome, told.result.status.value, told.handoff) == ({"kind": "killed"}, "failed", None)
    assert told.detail.startswith(expected)


@pytest.mark.parametrize("script", ["kill -9 $$", "echo 'no such model' >&2; exit 1"], ids=["killed", "fails"])
def test_how_it_ended_is_known_although_the_sdk_wrote_to_it_too_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    connect = SubprocessCLITransport.connect

    async def too_late(transport: SubprocessCLITransport) -> None:
        await connect(transport)
        assert transport._process is not None
        await transport._process.wait()

    monkeypatch.setattr(SubprocessCLITransport, "connect", too_late)
    told = stage.run("sdk", working(), profile=quick(cli=fake(stage.folder, VERSION + script)))
    assert told.detail.startswith("killed by signal 9" if "kill" in script else "exit code 1, no result")


RESULT = (
    '{"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "session_id": "s", '
    '"result": "done", "duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": 0.5}'
)


def test_a_program_that_stays_after_its_result_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LINGER_S", 0.3)
    script = f"trap '' TERM; echo '{RESULT}'; while :; do sleep 1; done"
    told = stage.run("cli", working(), profile=quick(cli=fake(stage.folder, VERSION + script)))
    assert told.result.outcome == EngineOutcome(kind="ok")


def test_what_is_wrong_with_the_program_stops_a_run_before_it_begins(project: Project, tmp_path: Path) -> None:
    old = fake(tmp_path, "echo '2.0.1 (Claude Code)'")
    env = {**project.env, "SWARM_CLAUDE_CLI": str(old)}
    done = Project(project.root, env).swarm("start", "build", "--mode", "cli", code=1)
    assert done.stderr.splitlines() == [
        f"git-swarm: {old} is claude 2.0.1, and 2.1.295 or newer is needed",
        "hint: claude update",
    ]
    assert project.git("for-each-ref", "refs/heads/shadow") == ""


@pytest.fixture
def startable(project: Project, tmp_path: Path) -> Project:
    """Where a session could be started."""
    return Project(project.root, {**project.env, "SWARM_CLAUDE_CLI": str(fake(tmp_path, VERSION))})


@pytest.mark.parametrize("mode", ["cli", "sdk"])
def test_a_flow_that_needs_a_task_is_not_started_without_one(startable: Project, mode: str) -> None:
    done = startable.swarm("start", "plan", "build", "--mode", mode, code=2)
    assert done.stderr.splitlines() == [
        "git-swarm: plan needs a task",
        f"hint: git swarm start plan build -m 'what is to be done' --mode {mode}",
    ]
    assert startable.git("for-each-ref", "refs/heads/shadow") == ""


def test_an_own_flow_says_whether_it_needs_a_task(startable: Project) -> None:
    startable.git("config", "swarm.engines.claude.mode", "cli")
    steps = "steps: [{id: go, station: fixer}]\n"
    startable.commit({".swarm/flows/own.yaml": f"id: own\nneeds_task: true\n{steps}"})
    startable.commit({".swarm/flows/other.yaml": f"id: other\n{steps}"})
    done = startable.swarm("start", "own", code=2)
    assert done.stderr.splitlines() == [
        "git-swarm: own needs a task",
        "hint: git swarm start own -m 'what is to be done'",
    ]
    startable.swarm("start", "other", "--dry-run")


def test_a_rehearsal_needs_no_task(project: Project) -> None:
    project.swarm("start", "build", "--until", "load_context")


@pytest.mark.parametrize("name", ["HOME", "CLAUDE_CONFIG_DIR"])
def test_a_folder_that_keeps_no_conversations_stops_a_run_before_it_begins(
    project: Project, tmp_path: Path, name: str
) -> None:
    program = fake(tmp_path, VERSION)
    file = tmp_path / "file"
    file.write_text("")
    folder = file / ".claude" if name == "HOME" else file
    identity = {"GIT_CONFIG_GLOBAL": str(tmp_path / "home" / ".gitconfig")}
    env = {**project.env, **identity, "SWARM_CLAUDE_CLI": str(program), name: str(file)}
    here = Project(project.root, env)

    done = here.swarm("start", "build", "--mode", "cli", code=1)

    assert done.stderr.splitlines() == [
        f"git-swarm: claude cannot keep its conversations in {folder}",
        "hint: export CLAUDE_CONFIG_DIR=FOLDER",
    ]
    assert project.git("for-each-ref", "refs/heads/shadow") == ""
    found = {(each["engine"], each["mode"]): each for each in here.json("engines")}
    assert found["claude-step", "cli"]["problem"] == (
        f"claude cannot keep its conversations in {folder}: export CLAUDE_CONFIG_DIR=FOLDER"
    )
