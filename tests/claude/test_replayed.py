"""Runs of the real Claude Code, played once more without it: a loop, a navigator, a question and its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.claude.runs import Played, setting
from tests.claude.test_parity import FILES, FORK_SCRIPT, LINE_SCRIPT
from tests.loopback.server import Loopback
from tests.projects import ask

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
