"""Builds by the real Claude Code, many at once: a worker is lost on the way, and so is the money; the hub knows what
each cost, as its provider does."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.cli import rehearsals as demo
from tests.claude.runs import reaching, scripted
from tests.fleet.fleets import FleetProject, fleet_project, joined, processes_of, runs_in, send
from tests.fleet.test_fleet_kills import with_hub
from tests.loopback.api import ApiRequest, Model, Reply
from tests.loopback.server import Loopback, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BUILDS", "20"))
SLOTS = 4
MODEL = "claude-sonnet-4-5"
COST = 0.0006
"""Of an answer, in US dollars: 100 tokens in, 20 out."""
ANSWERS, DEAREST = 55, 7
"""For a whole Build, and for the longest of its steps."""
BOUND_S = 60.0 * 20

SOURCE = Path(demo.__file__).with_name("demo_project")
PYTHON = shlex.quote(sys.executable)
BUILD = [
    "load_context",
    "clarify",
    "author_tests",
    "critique_tests",
    "implement",
    "critique_code",
    "run_tests",
    "mutate",
    "fix",
    "verify_tests",
    "write_docs",
    "self_review",
    "finalize",
]


def script() -> str:
    """The demo's, in which nothing is done twice: so what a step does is the same however often it is begun."""
    text = (SOURCE / "script.yaml").read_text(encoding="utf-8").replace("@PYTHON@", PYTHON)
    found: dict[str, Any] = yaml.safe_load(text)
    steps = found["steps"]
    return yaml.safe_dump({**found, "steps": {k: e[-1] if isinstance(e, list) else e for k, e in steps.items()}})


class Till:
    """A model that notes for which run each answer was paid, and in which session."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.paid = list[tuple[str, str]]()

    def __call__(self, asked: ApiRequest) -> Reply:
        reply = self._model(asked)
        session = json.loads(asked.body["metadata"]["user_id"])["session_id"]
        self.paid.append((runs_in(json.dumps(asked.body))[0], session))
        return reply

    def of(self, runs: set[str]) -> float:
        return round(COST * sum(run in runs for run, _session in self.paid), 6)


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


@pytest.fixture
def till() -> Till:
    return Till(scripted(script(), reads_first=True))


@pytest.fixture
def fleet(tmp_path: Path, loopback: Loopback, till: Till) -> Iterator[FleetProject]:
    with fleet_project(tmp_path) as made:
        files: dict[str, str] = yaml.safe_load((SOURCE / "project.yaml").read_text(encoding="utf-8"))
        config = yaml.safe_dump({"commands": {"test": f"{PYTHON} -m pytest -q"}}, width=1000)
        made.project.commit({**files, ".swarm/config.yaml": config}, "slugline")
        with_hub(made)
        yield replace(made, project=reaching(made.project, loopback, till))


def executed(fleet: FleetProject) -> dict[str, list[str]]:
    """By run, the executions that the hub has, as `step@iteration`."""
    form = "%(trailers:key=Swarm-Step,valueonly,separator=)@%(trailers:key=Swarm-Iteration,valueonly,separator=)"
    base = fleet.project.git("rev-parse", "main")
    return {
        run: fleet.project.git(
            "log", "--reverse", "--grep=^Swarm-Step:", f"--format={form}", run, f"^{base}", cwd=fleet.hub
        ).split()
        for run in fleet.steps_on_hub()
    }


def standings(fleet: FleetProject, issues: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fleet.project.json("fleet", "status", "--issues", issues)["runs"]
    return found


def ended(fleet: FleetProject) -> int:
    runs: list[dict[str, Any]] = fleet.project.json("fleet", "status")["runs"]
    return sum(each["state"] == "succeeded" for each in runs)


def test_builds_by_claude_code_are_each_whole_and_cost_what_was_paid(fleet: FleetProject, till: Till) -> None:
    """Both transports, four slots on two machines, of which one is lost and replaced; the limit of cost is reached in
    the middle, and the same line without it finishes the rest."""
    lines = (json.dumps({"task": f"task {n}", "mode": ("cli", "sdk")[n % 2]}) for n in range(RUNS))
    issues = fleet.issues(*lines)
    url, _groups = joined(fleet, ["one", "two"], slots=SLOTS // 2)
    words = ("fleet", "run", "--issues", issues, "--model", MODEL, "--scheduler", url)
    limit = RUNS / 2 * ANSWERS * COST
    run = fleet.begin(*words, "--max-cost", f"{limit:.4f}")

    wait_until(lambda: ended(fleet) >= 2, "two Builds have ended", seconds=BOUND_S)
    two = fleet.door / "two"
    wait_until(lambda: len(list(two.glob("*.swarm/run-*"))) == SLOTS // 2, "both slots of a machine are taken")
    lost = {path.name for path in two.glob("*.swarm/run-*")}
    send(processes_of(two), signal.SIGKILL)
    fleet.begin("fleet", "work", url, "--slots", str(SLOTS // 2), "--dir", str(fleet.door / "three"))

    said = run.communicate(timeout=BOUND_S)[0]
    assert run.returncode == 5, said
    assert "no more runs are begun" in said
    found = standings(fleet, issues)
    assert Counter(each["state"] for each in found).keys() == {"succeeded", "not begun"}, said
    check_bill(till, lost, found)
    begun = [each for each in found if each["run_id"]]
    assert limit <= sum(each["cost_usd"] for each in begun) < limit + SLOTS * ANSWERS * COST
    before = executed(fleet)

    again = fleet.begin(*words)
    said = again.communicate(timeout=BOUND_S)[0]
    assert again.returncode == 0, said
    found = standings(fleet, issues)
    assert [each["state"] for each in found] == ["succeeded"] * RUNS
    check_bill(till, lost, found)
    assert {run: executed(fleet)[run] for run in before} == before
    assert list(fleet.steps_on_hub().values()) == [BUILD] * RUNS
    assert all(len(set(each)) == len(BUILD) for each in executed(fleet).values())
    assert fleet.project.git("fsck", "--full", "--strict", "--no-dangling", cwd=fleet.hub) == ""
    for each in found:
        fleet.project.swarm("verify", each["run_id"])
    sys.stdout.write(f"{len(till.paid)} answers, $%.4f\n" % till.of({each["run_id"] for each in found}))


def check_bill(till: Till, lost: set[str], found: list[dict[str, Any]]) -> None:
    """To the last answer; but what a lost machine had not pushed, nobody has told: at most a step of each slot."""
    costs = {each["run_id"]: each["cost_usd"] for each in found if each["run_id"]}
    more = {run: round(till.of({run}) - cost, 6) for run, cost in costs.items()}
    assert {run for run, difference in more.items() if difference} <= lost
    assert all(0 <= difference <= DEAREST * COST for difference in more.values()), more
    assert till.of(set(costs)) == round(COST * len(till.paid), 6)
