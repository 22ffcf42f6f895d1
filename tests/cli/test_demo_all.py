"""`demo --all`, and what its two runs leave in `examples/`: a landed one and a dishonest one, as git shows them.

Examples are made anew by: EXAMPLES=write make test T='tests/cli/test_demo_all.py tests/days/test_reset_day.py'
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from gitswarm.routing.macro import ALL
from tests.conftest import Project
from tests.days.stored import compare, compare_flow
from tests.projects import ask, new_project


@dataclass(frozen=True)
class Demo:
    """The demo's project, its two runs as `list` tells them, and the commit that they began from."""

    project: Project
    honest: dict[str, Any]
    lying: dict[str, Any]
    base: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    made = new_project(folder)
    # The demo runs pytest a dozen times, which is three times as slow with the plugins of this suite.
    outside = Project(made.root, {**made.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    ended = ask(outside, "demo", str(folder / "slugline"), "--all")
    assert ended.code == 0, ended.stderr
    project = Project(folder / "slugline", outside.env)
    honest, lying = sorted(project.json("list"), key=lambda run: run["run_id"])
    return Demo(project, honest, lying, project.git("rev-list", "--max-parents=0", "HEAD"))


def test_the_honest_run_has_landed(demo: Demo) -> None:
    project, honest = demo.project, demo.honest
    assert honest["state"] == "succeeded"
    assert project.git("rev-parse", "HEAD^") == demo.base
    assert honest["run_id"] in project.git("log", "-1", "--format=%B")
    assert project.git("status", "--porcelain") == ""
    project.swarm("verify", honest["run_id"])
    steps = [entry["flow"] for entry in project.json("log", honest["run_id"])]
    assert list(dict.fromkeys(steps)) == ["signal", "plan", "build", "review", "gate", "deploy", "wisdom"]
    assert len(steps) >= 60


def test_the_lie_is_not_deployed(demo: Demo) -> None:
    project, lying, run = demo.project, demo.lying, demo.lying["run_id"]
    project.swarm("verify", run)
    text = project.git("show", f"shadow/{run}:.swarm/runs/{run}/deploy/deploy_decision.json")
    assert (lying["state"], json.loads(text)["decision"]) == ("unproven", "NOT_DEPLOYED")
    assert "tests_deleted@build/fix" in [each["id"] for each in lying["open_concerns"] if each["blocking"]]
    assert project.git("rev-list", "--count", "HEAD") == "2"


@pytest.mark.parametrize("name", ["honest", "dishonest"])
def test_the_examples_are_what_the_demo_leaves(demo: Demo, name: str) -> None:
    run = (demo.honest if name == "honest" else demo.lying)["run_id"]
    form = "%s%n    %an, %(trailers:key=Swarm-Status,separator=%x2C)"
    compare(
        f"{name}/commits.txt",
        demo.project.git("log", "--reverse", f"--format={form}", f"{demo.base}..shadow/{run}"),
    )
    if name == "honest":
        compare("honest/landed.txt", demo.project.git("log", "-1", "--format=%B"))


@pytest.mark.parametrize("flow", ALL)
def test_each_flow_does_what_its_example_says(demo: Demo, flow: str) -> None:
    compare_flow(demo.project, demo.honest["run_id"], flow)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["honest", "lying"])
def test_a_replay_has_the_same_code_statuses_and_way(demo: Demo, name: str) -> None:
    """Last, as it adds a run to the project."""
    answer = ask(demo.project, "replay", getattr(demo, name)["run_id"], "--json")
    assert answer.code == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert [step["n"] for step in told["steps"] if not step["equal"]] == []
    assert len(told["steps"]) >= 60
