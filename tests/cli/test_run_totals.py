"""One run, one number of steps and one time, whichever command says them; and what else a newcomer stumbled over."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gitswarm.cli.console import duration
from tests.cli.test_reading import FLOWS, SCRIPT
from tests.conftest import Project
from tests.projects import new_project

SLOW = SCRIPT.replace("  test:\n    - {run: [", "  test:\n    - {run: [sleep 0.3, ")


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = new_project(tmp_path_factory.mktemp("totals"))
    project.commit(FLOWS, "flows")
    return project


@pytest.fixture(scope="module")
def started(totals: Project) -> str:
    """What a start says of a run with a loop."""
    return totals.swarm("start", "hello", "-m", "Say hi", "--script", totals.script(SLOW), "--allow-stub").stdout


def numbers(text: str) -> tuple[str, str]:
    """`9 steps` and `1.2s`, as a line says them."""
    steps = re.search(r"(\d+) steps?", text)
    took = re.search(r"(?:in |, |all .* )(\d+m?s|\d+\.\ds)\b", text)
    assert steps is not None, text
    assert took is not None, text
    return steps[1], took[1]


def all_said(project: Project) -> dict[str, tuple[str, str]]:
    found = json.loads(project.swarm("report", "--format", "json").stdout)["verdict"]
    cost = project.json("cost")["total"]
    compared = project.json("compare", *(each["run_id"] for each in project.json("list")))["runs"][0]
    steps = str(project.json("status")["steps_executed"])
    return {
        "watch": numbers(project.swarm("watch").stdout),
        "report": (str(found["steps"]), duration(found["duration_ms"])),
        "compare": (str(compared["steps"]), duration(compared["duration_ms"])),
        "cost": (steps, duration(cost["duration_ms"])),
    }


def test_steps_and_time_of_a_run_are_the_same_everywhere(totals: Project, started: str) -> None:
    first = str(totals.json("list")[0]["run_id"])
    totals.swarm("fork", "write@1", "--run", first, "--until", "critique")
    totals.swarm("resume")
    said = totals.swarm("rollback", "write@1").stdout
    assert said.splitlines()[-4:-3] == ["kept       files that git ignores stay in the worktree"]
    again = numbers(totals.swarm("resume").stdout)
    assert set(all_said(totals).values()) == {again}
    totals.swarm("discard", str(totals.json("list")[0]["run_id"]), "--force")
    assert numbers(started)[0] == str(totals.json("status")["steps_executed"])
    assert numbers(started) == numbers(totals.swarm("watch").stdout)


def test_cost_lists_what_was_taken_back_where_it_was_executed(totals: Project, started: str) -> None:
    assert started
    before = [line["step"] for line in totals.json("cost")["lines"]]
    totals.swarm("rollback", "write@1")
    assert [line["step"] for line in totals.json("cost")["lines"]] == before
    totals.swarm("rollback", "--undo")


@pytest.mark.parametrize(("command", "state"), [("stop", "stopped"), ("pause", "paused")])
def test_a_run_that_stands_already_is_not_ended_again(tmp_path: Path, command: str, state: str) -> None:
    project = new_project(tmp_path)
    project.commit(FLOWS, "flows")
    project.start(SCRIPT, "--until", "critique", flow="hello")
    run = str(project.json("list")[0]["run_id"])
    project.swarm("rollback", "write@1")
    assert project.swarm(command).stdout == f"{run} {state}\n"
    assert project.swarm(command).stdout == f"{run} is already {state} at step 1: no process executes it\n"
    project.swarm("resume")
    assert project.swarm(command).stdout == f"{run} has already ended, succeeded: no process executes it\n"


def test_why_names_the_run_that_changed_a_file_and_the_one_that_was_discarded(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    project.commit(FLOWS, "flows")
    run = project.start(SCRIPT, "--allow-stub", flow="hello")
    asked = project.swarm("why", "src/app.py:1")
    assert asked.stderr == (
        f"{run} changed src/app.py and has not landed\nhint: git swarm why src/app.py:1 --run {run}\n"
    )
    project.swarm("approve")
    project.swarm("land")
    assert (project.swarm("why", "src/app.py:1").stderr, project.swarm("why", "src/app.py:1").returncode) == ("", 0)
    project.swarm("discard", run)
    gone = project.swarm("why", "src/app.py:1").stdout
    assert gone.splitlines()[-2:] == [
        "  discarded in the trash, with what this answered, its tests and evidence",
        f"  restore   git swarm discard --restore {run}",
    ]
    project.swarm("discard", "--restore", run)
    assert "discarded" not in project.swarm("why", "src/app.py:1").stdout
