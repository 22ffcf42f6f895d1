"""A command that is red at the end is no success."""

from __future__ import annotations

import json

from tests.conftest import Project
from tests.projects import ask

CHECK = "id: check\nsteps:\n  - {id: test, engine: command, command: {run: sh check.sh}}\n"
LOOP = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - id: test
    engine: command
    command: test
    routing: {kind: branch, when: [{if: evidence.tests.passed, next: close}], default: write, max_iterations: 2}
  - {id: close, station: build-cleanup}
"""


def standing(project: Project, run: str) -> list[str]:
    return [concern["id"] for concern in project.json("status", run)["open_concerns"]]


def test_a_flow_that_only_runs_a_red_command_ends_unproven(project: Project) -> None:
    project.commit({".swarm/flows/check.yaml": CHECK, "check.sh": "echo no; exit 3\n"})
    said = ask(project, "start", "check")
    run = project.json("list")[0]["run_id"]
    assert (said.code, standing(project, run)) == (4, ["command_red@check/test"])
    assert "`sh check.sh` ended with exit code 3" in said.stdout
    assert ask(project, "approve", run).code == 1


def test_red_tests_that_become_green_leave_nothing_open(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": LOOP, ".swarm/config.yaml": "commands: {test: sh check.sh}\n"})
    project.commit({"check.sh": "grep -q good src/app.py\n"})
    script = {"steps": {"write": [{"write": {"src/app.py": "bad\n"}}, {"write": {"src/app.py": "good\n"}}]}}
    run = project.start(json.dumps(script), flow="work")
    assert (project.json("status", run)["state"], standing(project, run)) == ("succeeded", [])


def test_tests_that_stay_red_end_the_run_unproven_and_resume_goes_back_to_who_can_mend_them(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": LOOP, ".swarm/config.yaml": "commands: {test: sh check.sh}\n"})
    project.commit({"check.sh": "grep -q good src/app.py\n"})
    bad = {"write": {"src/app.py": "bad\n"}}
    script = {"steps": {"write": [bad, bad, {"write": {"src/app.py": "good\n"}}]}}
    run = project.start(json.dumps(script), flow="work", code=4)
    assert standing(project, run) == ["tests_red@work/test"]
    project.swarm("resume", run)
    assert (project.json("status", run)["state"], standing(project, run)) == ("succeeded", [])


PYTEST = "python -m pytest -q -p no:cacheprovider"
OLD = "def test_old():\n    assert 1 == 2\n"


def test_tests_that_failed_before_the_run_are_no_matter_of_the_run(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": LOOP, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"})
    project.commit({"tests/test_old.py": OLD, "tests/test_x.py": "def test_x():\n    pass\n"})
    script = {"steps": {"write": [{"write": {"src/app.py": "new\n"}}]}}
    run = project.start(json.dumps(script), flow="work")
    assert [entry["step"] for entry in project.json("log", run)] == ["write", "test", "close"]
    assert (project.json("status", run)["state"], standing(project, run)) == ("succeeded", ["red_before@work/test"])
    found = json.loads(project.swarm("show", "test", "--run", run, "--evidence").stdout)["tests"]
    assert (found["passed"], found["exit_code"], found["reason"]) == (True, 1, "red_before")
    project.swarm("verify", run)


def test_one_more_failure_than_before_is_the_run_s(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": LOOP, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"})
    project.commit(
        {"tests/test_old.py": OLD, "tests/test_x.py": "import app\n\ndef test_x():\n    assert app.x == 1\n"}
    )
    project.commit({"app.py": "x = 1\n"})
    script = {"steps": {"write": [{"write": {"app.py": "x = 2\n"}}]}}
    run = project.start(json.dumps(script), flow="work", code=4)
    assert standing(project, run) == ["tests_red@work/test", "red_before@work/test"]


def test_unchanged_code_excuses_nothing(project: Project) -> None:
    flow = "id: check\nsteps:\n  - {id: test, engine: command, command: test}\n"
    project.commit({".swarm/flows/check.yaml": flow, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"})
    project.commit({"tests/test_old.py": OLD})
    assert ask(project, "start", "check").code == 4


def test_the_base_is_tested_once_in_a_run(project: Project) -> None:
    project.commit({".swarm/flows/work.yaml": LOOP, ".swarm/config.yaml": "commands: {test: sh check.sh}\n"})
    counted = 'echo x >> "$(git rev-parse --git-common-dir)/counted"; echo "not ok 1 - old"; echo "1..1"; exit 1\n'
    project.commit({"check.sh": counted})
    script = json.dumps({"steps": {"write": [{"write": {"src/app.py": "new\n"}}]}})
    project.start(script, flow="work", code=0)
    assert (project.root / ".git/counted").read_text(encoding="utf-8").count("x") == 2  # the run's own, and the base
