"""Runs of the real Claude Code, executed once more without it; and a rehearsed step, once more by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.claude.runs import STUB, Played, asked, setting
from tests.claude.test_parity import FILES, FORK_SCRIPT, LINE_SCRIPT
from tests.loopback.server import Loopback
from tests.projects import ask, only_run

pytestmark = pytest.mark.soak


def replayed(played: Played) -> Played:
    """The run made of it, which is equal as far as the product says."""
    loopback_gone = {name: value for name, value in played.project.env.items() if not name.startswith("ANTHROPIC_")}
    answer = ask(type(played.project)(played.project.root, loopback_gone), "replay", played.run, "--json")
    assert answer.code == 0, answer.stdout + answer.stderr
    return Played(played.project, json.loads(answer.stdout)["replay"])


def test_a_line_of_steps(tmp_path: Path, loopback: Loopback) -> None:
    line = setting(tmp_path / "line", "cli", LINE_SCRIPT, FILES, loopback)
    played = line.start("line", code=5)
    line.project.swarm_process("resume", "-m", "blue")
    again = replayed(played)
    assert again.trees() == played.trees()
    assert {entry["mode"] for entry in again.log()} == {"stub", "local"}


def test_steps_side_by_side(tmp_path: Path, loopback: Loopback) -> None:
    played = setting(tmp_path / "fan", "cli", FORK_SCRIPT, FILES, loopback).start("fan")
    assert replayed(played).trees()[-1] == played.trees()[-1]


def test_a_rehearsed_step_once_more_by_claude(tmp_path: Path, loopback: Loopback) -> None:
    project = setting(tmp_path / "again", "cli", LINE_SCRIPT, FILES, loopback).project
    script = project.script(LINE_SCRIPT)
    project.swarm_process("start", "line", "-m", "the answer", "--script", script, "--until", "write")
    run = only_run(project)
    project.swarm_process("fork", "write", "--run", run, "--again", "--mode", "cli", "--until", "write")
    fork = str(asked(project, "list")[0]["run_id"])
    told = asked(project, "compare", run, fork)["step"]
    names = ("step", "mode", "status", "files", "insertions", "deletions")
    assert [[each[name] for name in names] for each in told] == [
        ["write", STUB, "VERIFIED", 3, 2, 1],
        ["write", "cli", "VERIFIED", 3, 2, 1],
    ]
    assert Played(project, run).trees()[-1] == Played(project, fork).trees()[-1]
