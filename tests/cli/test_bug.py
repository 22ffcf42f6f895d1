"""What is told of an error that nobody expected."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gitswarm import __version__
from gitswarm.cli import log
from tests.conftest import Project
from tests.projects import ask

KEY = "sk-ant-api03-" + "Q7x" * 31 + "AA"


@pytest.fixture
def broken(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """`log` has a bug here, and the environment a key."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise LookupError(f"no such thing: {KEY}")

    monkeypatch.setattr(log, "open_run", fail)
    return replace(project, env={**project.env, "XDG_STATE_HOME": str(tmp_path / "state"), "ANTHROPIC_API_KEY": KEY})


def test_a_bug_is_told_in_a_line_and_reported_whole_in_a_file(broken: Project, tmp_path: Path) -> None:
    answer = ask(broken, "log", "run-x")
    report = tmp_path / "state" / "git-swarm" / f"crash-{os.getpid()}.log"
    text = report.read_text(encoding="utf-8")
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert (answer.code, answer.stdout) == (3, "")
    assert answer.stderr.startswith("git-swarm: a bug: LookupError: no such thing: ")
    assert str(report) in "".join(answer.stderr.split("\n"))
    versions = (f"git-swarm {__version__}", git, f"Python {sys.version.split()[0]}", "arguments: ['log', 'run-x']")
    assert [each for each in versions if each not in text] == []
    assert "in fail" in text
    assert KEY not in text + answer.stderr


def test_where_no_file_can_be_written_the_report_is_on_standard_error(broken: Project, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")
    answer = ask(broken, "log", "run-x")
    assert answer.code == 3
    assert "Traceback (most recent call last)" in answer.stderr
    assert KEY not in answer.stderr
