"""`compare`, and `diff` of two runs: a run, its fork, and one on another base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = """\
id: two
steps:
  - {id: plan, station: context-loader}
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
"""
SCRIPT = """\
default: {status: VERIFIED}
steps:
  write: {run: ['cat "$HOME/words" > src/app.py'], tokens: {prompt: 100, completion: 20}, cost_usd: 0.5}
  test: {run: ["grep -q one src/app.py"]}
"""


@dataclass(frozen=True)
class Runs:
    project: Project
    first: str
    fork: str
    later: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    project = new_project(tmp_path_factory.mktemp("compare"))
    project.commit({".swarm/flows/two.yaml": FLOW})
    script = project.script(SCRIPT)
    words = Path(project.env["HOME"]) / "words"
    words.write_text("one\ntwo\n", encoding="utf-8")
    project.swarm("start", "two", "-m", "Write it", "--script", script)
    first = project.json("list")[0]["run_id"]
    words.write_text("three\n", encoding="utf-8")
    project.swarm("fork", "plan", "--run", first, code=4)
    fork = project.json("list")[0]["run_id"]
    project.commit({"other.txt": "another base\n"})
    project.swarm("start", "two", "-m", "Write it", "--until", "plan", "--script", script)
    return Runs(project, first, fork, project.json("list")[0]["run_id"])


def columns_of(shown: Mapping[str, Any], *names: str) -> list[list[Any]]:
    return [[run[name] for name in names] for run in shown["runs"]]


def test_the_facts_of_each_run(runs: Runs) -> None:
    shown = runs.project.json("compare", runs.first, runs.fork, runs.later)
    assert columns_of(shown, "run_id", "state", "tests", "steps") == [
        [runs.first, "rehearsal", "tests passed", 3],
        [runs.fork, "not proven", "tests failed", 3],
        [runs.later, "stopped", "no tests have run", 1],
    ]
    assert columns_of(shown, "files", "insertions", "deletions", "tokens", "cost_usd") == [
        [1, 2, 1, 120, 0.5],
        [1, 1, 1, 120, 0.5],
        [0, 0, 0, 0, 0.0],
    ]


def test_where_a_fork_parted(runs: Runs) -> None:
    shown = runs.project.json("compare", runs.first, runs.fork, runs.later)
    (parted,) = shown["parted"]
    plan = runs.project.json("log", runs.first)[0]
    assert parted == {
        "runs": [runs.first, runs.fork],
        "n": 1,
        "commit": plan["commit"],
        "flow": "two",
        "step": "plan",
        "iteration": 1,
    }
    words = runs.project.swarm("compare", runs.fork, runs.first).stdout.split()
    assert " ".join(words).endswith(f"{runs.fork} and {runs.first} parted after two/plan (#1)")


def test_what_all_have_in_common_is_left_out(runs: Runs) -> None:
    shown = runs.project.swarm("compare", runs.first, runs.fork).stdout.splitlines()
    names = [line.split()[0] for line in shown[1:]]
    assert ("base" in names, "task" in names, "state" in names) == (False, False, True)
    later = runs.project.swarm("compare", runs.first, runs.later).stdout.splitlines()
    assert "base" in [line.split()[0] for line in later[1:]]


def test_one_run_is_not_enough(runs: Runs) -> None:
    answer = ask(runs.project, "compare", runs.first, runs.first)
    assert (answer.code, answer.stderr.splitlines()[0]) == (2, "git-swarm: compare needs two runs")


def test_the_diff_of_two_runs_is_git_s(runs: Runs) -> None:
    project = runs.project
    answer = ask(project, "diff", runs.first, runs.fork)
    paths = ("--", ":(top,exclude).swarm/runs")
    theirs = project.git("diff", f"shadow/{runs.first}", f"shadow/{runs.fork}", *paths)
    assert (answer.code, answer.stdout, answer.stderr) == (0, theirs + "\n", "")
    assert "-one" in theirs


def test_a_diff_of_other_bases_says_so(runs: Runs) -> None:
    answer = ask(runs.project, "diff", runs.first, runs.later, "--stat")
    assert answer.stderr == "their bases differ: what was changed between those is shown too\n"
    assert "other.txt" in answer.stdout


def test_the_diff_of_two_steps_is_from_one_to_the_other(runs: Runs) -> None:
    answer = ask(runs.project, "diff", "test", "plan", "--run", runs.first, "--stat")
    assert answer.stdout.splitlines()[-1] == " 1 file changed, 1 insertion(+), 2 deletions(-)"


def test_a_diff_of_three_is_refused(runs: Runs) -> None:
    assert ask(runs.project, "diff", "a", "b", "c").stderr.splitlines() == [
        "git-swarm: give two at most",
        "hint: git swarm diff a b",
    ]
