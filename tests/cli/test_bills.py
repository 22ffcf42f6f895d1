"""`cost`: every amount once, however it is grouped; the sum is what `status` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = """\
id: two
steps:
  - {id: one, station: code-implementer}
  - {id: check, engine: command, command: {run: "true"}}
  - {id: two, station: fixer}
"""
SCRIPT = {
    "default": {"status": "VERIFIED"},
    "steps": {
        "one": {"write": {"a.txt": "1\n"}, "tokens": {"prompt": 100, "completion": 20}, "cost_usd": 0.25},
        "two": {"tokens": {"prompt": 7}, "cost_usd": 0.5},
    },
}
BY = ("step", "flow", "station", "engine", "model", "run")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two runs; in the older one the last step was taken back and executed again."""
    made = new_project(tmp_path_factory.mktemp("bills"))
    made.commit({".swarm/flows/two.yaml": FLOW}, "the flow")
    for _ in range(2):
        made.swarm("start", "two", "--script", made.script(json.dumps(SCRIPT)))
    run = made.json("list")[1]["run_id"]
    made.swarm("rollback", "check", "--run", run)
    made.swarm("resume", run)
    return made


def runs(project: Project) -> tuple[str, str]:
    newest, older = project.json("list")
    return str(newest["run_id"]), str(older["run_id"])


def cost(project: Project, *words: str) -> Any:
    return json.loads(ask(project, "cost", *words, "--json").stdout)


@pytest.mark.parametrize("by", BY)
def test_the_sum_is_that_of_status_however_it_is_grouped(project: Project, by: str) -> None:
    _newest, older = runs(project)
    status = json.loads(ask(project, "status", older, "--json").stdout)
    found = cost(project, older, "--by", by)
    assert (
        (found["total"]["tokens"], found["total"]["cost_usd"])
        == (status["tokens"], status["cost_usd"])
        == (134, 1.25)
    )
    for name in ("tokens", "executions", "duration_ms"):
        assert sum(line[name] for line in found["lines"]) == found["total"][name]


def test_a_step_that_was_taken_back_is_paid_for(project: Project) -> None:
    newest, older = runs(project)
    lines = {line["step"]: line for line in cost(project, older)["lines"]}
    assert {name: (line["executions"], line["tokens"], line["cost_usd"]) for name, line in lines.items()} == {
        "two/one": (1, 120, 0.25),
        "two/check": (1, 0, 0.0),
        "two/two": (2, 14, 1.0),
    }
    assert (lines["two/one"]["station"], lines["two/check"]["engine"]) == ("code-implementer", "command/local")
    assert cost(project, newest)["total"]["cost_usd"] == 0.75


def test_over_all_runs(project: Project) -> None:
    found = cost(project, "--all")
    assert [line["run"] for line in found["lines"]] == list(runs(project))
    assert (found["total"]["tokens"], found["total"]["cost_usd"]) == (261, 2.0)
    stations = {line["station"]: line["cost_usd"] for line in cost(project, "--all", "--by", "station")["lines"]}
    assert (stations["code-implementer"], stations["fixer"]) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("words", "said"), [(["--by", "moon"], "--by moon: step, flow"), (["run-x", "--all"], "it takes no RUN")]
)
def test_what_is_no_question(project: Project, words: list[str], said: str) -> None:
    answer = ask(project, "cost", *words)
    assert (answer.code, answer.stdout) == (2, "")
    assert said in answer.stderr


def test_without_runs(tmp_path: Path) -> None:
    empty = new_project(tmp_path)
    assert ask(empty, "cost", "--all").stdout == "nothing has been spent yet\n"
    assert ask(empty, "cost").code == 1
