"""Runs that are killed, resumed, rolled back and forked at random spend their limit and one step more, at most; and
what is recorded of them is never less than what the engine told."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults import NONE, Server
from tests.projects import new_project
from tests.routed import MAKER, flow, step

RUNS = int(os.environ.get("RUNS", "200"))
SAMPLE = 3
DEAREST = 50
"""Cents that one step costs at most."""
BESIDE = 2
"""Steps that are executed at the same time at most."""

STEPS = (
    step("one", "maker"),
    step("two", "maker", kind="fork", fork_targets=["left", "right"]),
    step("left", "maker"),
    step("right", "maker"),
    step("both", "maker", kind="join", join_from=["left", "right"]),
    step("check", "maker", kind="microloop", loop_target="both", max_iterations=3),
    step("last", "maker"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


class Story:
    """One random run, with its forks."""

    def __init__(self, seed: int, folder: Path, server: Server) -> None:
        self.dice = random.Random(seed)
        self.server, self.told = server, folder / "told"
        self.told.mkdir()
        self.project = new_project(folder)
        self.project.commit({".swarm/flows/f.yaml": yaml.safe_dump(flow("f", *STEPS)), **MAKER})
        self.limit = self.dice.randrange(20, 300)
        self.seen: Counter[str] = Counter()

    def script(self) -> str:
        steps = {each["id"]: [self.entry(each["id"]) for _ in range(4)] for each in STEPS}
        return self.project.script(json.dumps({"steps": steps}))

    def entry(self, name: str) -> dict[str, Any]:
        """What it costs is told to git-swarm and, behind its back, to a file per run."""
        cents = self.dice.randrange(DEAREST + 1)
        unknown = self.dice.random() < 0.05
        line = f'echo {0 if unknown else cents} >> "{self.told}/$RUN_ID"'
        found: dict[str, Any] = {"run": [line], "cost_usd": None if unknown else cents / 100}
        if name == "check" and self.dice.random() < 0.5:
            found |= {"status": "UNVERIFIED", "can_further_iteration_help": "yes"}
        if self.dice.random() < 0.05:
            found["fail"] = "overloaded"
        return found

    def swarm(self, *arguments: str) -> None:
        """Perhaps killed on the way."""
        point = str(self.dice.randrange(1, 900)) if self.dice.random() < 0.5 else NONE
        done = self.server.execute(point, arguments, self.project.root, self.project.env)
        assert done.returncode in (0, 1, 4, 5, -9), f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.seen.update((arguments[0], f"ended {done.returncode}"))
        self.check()

    def play(self) -> None:
        self.swarm("start", "f", "--script", self.script(), "--max-cost", f"{self.limit / 100}")
        for _ in range(8):
            runs = [each["run_id"] for each in self.project.json("list")]
            if not runs:
                return
            run, act = self.dice.choice(runs), self.dice.random()
            if act < 0.55:
                self.swarm("resume", run)
            elif act < 0.65:
                self.limit += self.dice.randrange(1, 100)
                self.swarm("resume", run, "--max-cost", f"{self.limit / 100}")
            elif act < 0.85:
                self.swarm("rollback", self.dice.choice(("0", "one", "two", "both", "1", "3")), "--run", run)
            elif act < 0.9:
                self.swarm("rollback", "--undo", "--run", run)
            else:
                self.swarm("fork", self.dice.choice(("one", "two", "both")), "--run", run)

    def check(self) -> None:
        for found in self.project.json("list"):
            budget, path = found["budget"], self.told / found["run_id"]
            told = sum(map(int, path.read_text(encoding="utf-8").split())) if path.exists() else 0
            counted = round(100 * (budget["cost_usd"] + budget["reserved_usd"]))
            assert round(100 * budget["cost_usd"]) >= told, f"{found['run_id']}: less than the engine told"
            assert counted < self.limit + BESIDE * DEAREST + 1, f"{found['run_id']}: {budget['told']}"


def play(seeds: range, folder: Path, server: Server) -> Counter[str]:
    """How often each command was executed, and how they ended."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        try:
            story = Story(seed, place, server)
            story.play()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        seen.update(story.seen)
    return seen


def test_a_sample_of_runs_keeps_within_the_limit(tmp_path: Path, server: Server) -> None:
    seen = play(range(SAMPLE), tmp_path, server)
    assert {"start", "resume", "rollback", "fork", "ended -9", "ended 5"} <= seen.keys(), seen


@pytest.mark.soak
def test_runs_keep_within_the_limit(tmp_path: Path, server: Server) -> None:
    seen = play(range(SAMPLE, RUNS), tmp_path, server)
    sys.stdout.write(f"{dict(seen)}\n")
