"""`demo --all`, and what its two runs leave in `examples/`: a landed one and a dishonest one, as git shows them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

EXAMPLES = Path(__file__).parents[2] / "examples"
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,40}\b")
_RUN = re.compile(r"run-\d{8}-\d{6}-[0-9a-f]{6}")
_TESTED = re.compile(r"(?<=_tests: passed: ).*")
_DURATION = re.compile(r"\b\d+(?:\.\d+)?(?:ms|s)\b")


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
    outside = new_project(folder)
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
    """They are made anew by: EXAMPLES=write make test T=tests/cli/test_demo_all.py"""
    project, base = demo.project, demo.base
    run = (demo.honest if name == "honest" else demo.lying)["run_id"]
    form = "%s%n    %an, %(trailers:key=Swarm-Status,separator=%x2C)"
    made = {"commits.txt": project.git("log", "--reverse", f"--format={form}", f"{base}..shadow/{run}")}
    if name == "honest":
        made["landed.txt"] = project.git("log", "-1", "--format=%B")
    for file, text in made.items():
        plain = _TESTED.sub("COMMAND", _DURATION.sub("TIME", _HASH.sub("HASH", _RUN.sub("RUN", text))))
        stored = EXAMPLES / name / file
        if os.environ.get("EXAMPLES") == "write":
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_text(f"{plain}\n", encoding="utf-8")
        assert f"{plain}\n" == stored.read_text(encoding="utf-8")
