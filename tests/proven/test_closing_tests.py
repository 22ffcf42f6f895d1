"""Code that changes behind the last test step is tested again, by the base's own command, and only that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.proven.stories import APP, BASE, BROKEN, TESTS
from tests.routed import routed
from tests.unseen import unseen

TAIL = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - id: test
    engine: command
    command: test
    routing: {kind: branch, when: [{if: evidence.tests.passed == true, next: polish}], default: write, next: polish}
  - {id: polish, station: code-implementer}
"""
EXTENDED = APP + "\n\ndef off(x):\n    return x - 1\n"
START = {**BASE, ".swarm/flows/work.yaml": TAIL}


def run_of(project: Project, steps: dict[str, Any], *options: str) -> tuple[str, dict[str, Any]]:
    path = project.script(unseen(json.dumps({"steps": steps})))
    ask(project, "start", "work", "--script", path, *options)
    (found,) = project.json("list")
    project.swarm("verify", found["run_id"])
    return found["run_id"], found


def blocking(run: dict[str, Any]) -> list[str]:
    return [each["id"] for each in run["open_concerns"] if each["blocking"]]


@pytest.mark.parametrize(
    ("polish", "executed"),
    [
        pytest.param({"app.py": EXTENDED + "\n\ny = 2\n"}, ["write", "test", "polish", "tests"], id="code"),
        pytest.param({"README.md": "# App\n"}, ["write", "test", "polish"], id="words for people"),
        pytest.param({}, ["write", "test", "polish"], id="nothing"),
    ],
)
def test_what_changes_after_the_tests_is_tested(
    project: Project, polish: dict[str, str], executed: list[str]
) -> None:
    project.commit(START)
    run, found = run_of(project, {"write": {"write": {"app.py": EXTENDED}}, "polish": {"write": polish}})
    assert (found["state"], [each["step"] for each in project.json("log", run)]) == ("succeeded", executed)


LINKED = "mkdir -p docs; git mv app.py docs/app.txt; ln -s docs/app.txt app.py; git add -A"
BY_DOCS = (
    "mkdir -p docs; git mv app.py docs/app.txt; ln -s ../docs/app.txt docs/b.txt; ln -s docs/b.txt app.py; git add -A"
)
BY_FOLDER = "mkdir -p docs; git mv app.py docs/app.txt; ln -s docs code; ln -s code/app.txt app.py; git add -A"
PROGRAM = "mkdir -p docs; printf '#!/bin/sh\\n' > docs/run.txt; git add -A"
WITH_MODE = "mkdir -p docs; echo true > docs/run.txt; chmod +x docs/run.txt; git add -A"


@pytest.mark.parametrize(
    ("does", "path"),
    [
        pytest.param(LINKED, "docs/app.txt", id="a link leads to it"),
        pytest.param(BY_DOCS, "docs/app.txt", id="a link leads to it by another"),
        pytest.param(BY_FOLDER, "docs/app.txt", id="a link leads to its folder"),
        pytest.param(PROGRAM, "docs/run.txt", id="it names its interpreter"),
        pytest.param(WITH_MODE, "docs/run.txt", id="it can be executed"),
        pytest.param("mkdir -p bin", "bin/history", id="its name is a document's"),
    ],
)
def test_code_that_is_called_as_documentation_is_tested(project: Project, does: str, path: str) -> None:
    project.commit(START)
    steps = {"write": {"write": {"x.py": "x = 1\n"}, "run": [does]}, "polish": {"run": [f"echo '# 1' >> {path}"]}}
    run, found = run_of(project, steps)
    assert (found["state"], [each["step"] for each in project.json("log", run)]) == (
        "succeeded",
        ["write", "test", "polish", "tests"],
    )


def test_documentation_that_documentation_links_to_is_not(project: Project) -> None:
    project.commit(START)
    does = "mkdir docs; echo a > README.md; ln -s ../README.md docs/index.md; ln -s docs documentation; git add -A"
    steps = {"write": {"write": {"x.py": "x = 1\n"}, "run": [does]}, "polish": {"run": ["echo b >> README.md"]}}
    run, _found = run_of(project, steps)
    assert [each["step"] for each in project.json("log", run)] == ["write", "test", "polish"]


def test_red_sends_the_code_back_once(project: Project) -> None:
    project.commit(START)
    steps = {
        "write": [{"write": {"app.py": EXTENDED}}, {"write": {"app.py": EXTENDED + "\nz = 3\n"}}],
        "polish": [{"write": {"app.py": BROKEN}}, {"write": {"app.py": BROKEN + "\n"}}],
    }
    run, found = run_of(project, steps)
    assert [line.split(" (")[0].strip() for line in routed(project, run)] == [
        "work/write VERIFIED > advance:test",
        "work/test VERIFIED > branch:polish",
        "work/polish VERIFIED > advance:tests",
        "work/tests UNVERIFIED > branch:write",
        "work/write@2 VERIFIED > advance:test",
        "work/test@2 VERIFIED > branch:polish",
        "work/polish@2 VERIFIED > advance:tests",
        "work/tests@2 UNVERIFIED > terminate",
    ]
    assert (found["state"], blocking(found)) == ("unproven", ["tests_red@work/tests"])


def test_nobody_approves_what_no_test_has_seen(project: Project) -> None:
    project.commit(START)
    run, found = run_of(project, {"write": {"write": {"app.py": EXTENDED}}}, "--until", "write", "--allow-stub")
    assert found["state"] == "stopped"
    refused = ask(project, "approve", run)
    assert refused.code != 0
    assert "tests_not_run@work/tests" in refused.stdout + refused.stderr
    project.swarm("approve", run, "--accept", "tests_not_run@work/tests=a hot fix, tested by hand")
    project.swarm("verify", run)
    project.swarm("land", run)


def test_the_tests_are_what_the_base_calls_its_tests(project: Project) -> None:
    files = {**START, "Makefile": "test:\n\tpython -m pytest -q -p no:cacheprovider\n"}
    del files[".swarm/config.yaml"], files["conftest.py"]
    project.commit(files)
    pytest_ini = {"write": {"app.py": BROKEN, "noxfile.py": "", "package.json": '{"scripts": {"test": "true"}}'}}
    run, found = run_of(project, {"write": pytest_ini}, "--autopilot")
    assert project.json("show", "test", "--run", run)["evidence"]["tests"]["command"] == "make test"
    assert "tests_red@work/tests" in blocking(found) or "tests_red@work/test" in blocking(found)


def test_what_tests_leave_behind_is_no_part_of_the_run(project: Project) -> None:
    leaving = TESTS + "\n\ndef test_writes():\n    open('.gitlab-ci.yml', 'w').write('x')\n"
    project.commit({**START, "tests/test_app.py": leaving})
    run, found = run_of(project, {"write": {"write": {"app.py": EXTENDED}}})
    assert (found["state"], found["open_concerns"]) == ("succeeded", [])
    assert project.json("show", "test", "--run", run)["evidence"]["put_back"] == [".gitlab-ci.yml"]


SUITES = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: api, engine: command, command: api}
  - {id: web, engine: command, command: {run: python -m pytest -q web}, tests: true}
  - {id: polish, station: code-implementer}
"""
CONFIG = "commands: {tests: {api: {run: python -m pytest -q api, paths: ['api/*']}}}\n"


def test_each_suite_is_compared_with_itself(project: Project) -> None:
    one = "def test_one():\n    import sys\n\n    assert 1 + 1 == len('ab')\n"
    files = {f"{name}/test_{name}.py": one.replace("one", name) for name in ("api", "web")}
    project.commit({**files, ".swarm/flows/work.yaml": SUITES, ".swarm/config.yaml": CONFIG, "x.py": "x = 1\n"})
    broken = files["web/test_web.py"].replace("ab", "abc")
    steps = {"write": {"write": {"web/test_web.py": broken}}, "polish": {"write": {"web/y.py": "y = 1\n"}}}
    run, found = run_of(project, steps, "--autopilot")
    assert (found["state"], blocking(found)) == ("unproven", ["tests_red@work/tests-2"])
    steps_done = [each["step"] for each in project.json("log", run)]
    assert steps_done == ["write", "api", "web", "polish", "tests-2"]  # nothing that api is about has changed


def test_a_command_that_may_fail_is_no_concern(project: Project) -> None:
    flow = "id: work\nsteps:\n  - {id: lint, engine: command, command: {run: 'exit 3'}, may_fail: true}\n"
    project.commit({**BASE, ".swarm/flows/work.yaml": flow})
    _run, found = run_of(project, {})
    assert (found["state"], found["open_concerns"]) == ("succeeded", [])


def test_extra_runs_have_an_end(project: Project) -> None:
    slow = (
        "import os, time\n\n\ndef test_it():\n    time.sleep(0 if os.path.exists('done') else 60)\n    assert 1 + 1\n"
    )
    config = BASE[".swarm/config.yaml"] + "proof: {max_time: 2}\n"
    project.commit({**BASE, "tests/test_app.py": slow, ".swarm/config.yaml": config})
    _run, found = run_of(project, {"write": {"write": {"done": "", "conftest.py": "x = 1\n"}}}, "--autopilot")
    assert (found["state"], blocking(found)) == ("unproven", ["not_compared@work/test"])
