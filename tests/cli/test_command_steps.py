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


TESTED = "id: work\nsteps:\n  - {id: edit, station: maker}\n  - {id: check, engine: command, command: test}\n"
MAKER = "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
EDIT = '{"steps": {"edit": {"write": {"app.py": "x = 1\\n"}}}}'
CONFIGURE = "git swarm config --team commands.test 'COMMAND'"


def with_tests(project: Project, files: dict[str, str]) -> list[str]:
    """What `start` prints for a run whose tests are those of a project with these files."""
    project.commit({".swarm/flows/work.yaml": TESTED, ".swarm/flows/stations/maker.yaml": MAKER, **files})
    done = ask(project, "start", "work", "--allow-stub", "--script", project.script(EDIT))
    return [*done.stderr.splitlines(), *done.stdout.splitlines()]


def test_a_skipped_command_names_what_configures_it(project: Project) -> None:
    lines = with_tests(project, {})
    assert f"-  2 check             skipped: no test command is configured or found ({CONFIGURE})" in lines


def test_tests_that_cannot_run_name_what_configures_others(project: Project) -> None:
    lines = with_tests(project, {"test_a.py": "import no_such_module\n"})
    told = lines.index("warning    tests_cannot_run@work/check: no test could run, nor at the base")
    assert lines[told + 1 : told + 3] == [f"configure  {CONFIGURE}", "           (docs/config.md)"]
    status = project.swarm("status").stdout.splitlines()
    assert f"  configure {CONFIGURE}" in status


@pytest.mark.parametrize(
    ("files", "line", "because"),
    [
        ({}, None, None),
        ({"go.mod": "module a\n"}, "go test ./...", "there is a go.mod"),
        ({"go.mod": "", ".swarm/config.yaml": "commands: {test: ./t}\n"}, "./t", "commands.test says so"),
    ],
    ids=["none", "found", "configured"],
)
def test_which_tests_would_be_taken_is_said_before_a_run(
    project: Project, files: dict[str, str], line: str | None, because: str | None
) -> None:
    project.commit({".swarm/flows/work.yaml": TESTED, ".swarm/flows/stations/maker.yaml": MAKER, **files})
    edit, check = project.json("start", "work", "--dry-run")
    assert (edit["command"], check["command"]) == (None, {"name": "test", "line": line, "because": because})
    printed = project.swarm("start", "work", "--dry-run").stdout.splitlines()
    what = f"{line}: {because}" if line else f"none is configured or found: {CONFIGURE}"
    assert f"test       {what}" in printed
    (found,) = [each for each in project.json("doctor")["findings"] if each["check"] == "tests"]
    message = what if line else "no test command is configured or found in HEAD"
    assert (found["message"], found["hint"]) == (message, None if line else CONFIGURE)
    asked = ask(project, "config", "commands.test")
    notes = {None: "note: none is found either\n", "./t": ""}
    assert asked.stderr == notes.get(line, f"note: {line} is taken: {because}\n")
