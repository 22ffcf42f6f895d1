"""A command step that runs no tests: nowhere is it taken for a test run."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from gitswarm.web.forensic import topics
from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = """\
id: work
steps:
  - {id: edit, engine: command, command: {run: "echo hi >> hello.txt"}}
  - {id: check, engine: command, command: {run: "grep hi hello.txt"}}
"""


@dataclass(frozen=True)
class Worked:
    project: Project
    run: str


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    project = new_project(tmp_path_factory.mktemp("commands"))
    project.commit({".swarm/flows/work.yaml": FLOW})
    assert ask(project, "start", "work").code == 0
    return Worked(project, project.json("list")[0]["run_id"])


def test_show_says_command(worked: Worked) -> None:
    shown = worked.project.swarm("show", "check", "--run", worked.run).stdout
    assert "  command   grep hi hello.txt: passed\n" in shown
    assert "  tests " not in shown


def test_why_names_no_test_run(worked: Worked) -> None:
    assert "  tests " not in worked.project.swarm("why", "hello.txt:1", "--run", worked.run).stdout
    (line,) = worked.project.json("why", "hello.txt:1", "--run", worked.run)
    assert line["step"]["tests"] is None


def test_the_report_says_that_no_tests_have_run(worked: Worked) -> None:
    report = worked.project.swarm("report", worked.run).stdout
    assert "**succeeded**: no tests have run; 2 steps" in report


def test_the_report_offers_no_command_that_wrote_the_change(worked: Worked) -> None:
    found = json.loads(worked.project.swarm("report", worked.run, "--format", "json").stdout)["proofs"]
    again = [each["command"].rpartition(" && ")[2] for each in found if "git worktree add" in each["command"]]
    assert again == ["grep hi hello.txt"]


def test_the_page_says_command(worked: Worked) -> None:
    evidence = json.loads(worked.project.swarm("show", "check", "--evidence", "--run", worked.run).stdout)
    named = {each.name: each.shown for each in topics(None, evidence, of_tests=False)}
    assert named["command"] == ("grep hi hello.txt: passed",)
    assert "tests" not in named
