"""200 flows and stations with one mistake each: every one is an error with file and line, found in one process."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.resources import bundled
from tests.conftest import Project
from tests.in_process import Answer
from tests.projects import ask, new_project

pytestmark = pytest.mark.processes

FILES = 200
SEED = 20261121
Mutation = Callable[[dict[str, Any], random.Random], None]


def delete(content: dict[str, Any], chance: random.Random) -> None:
    """Takes away a key without which nothing works."""
    if "steps" in content:
        where = chance.choice([content, *content["steps"]])
        keys = ["id", "steps"] if where is content else ["id"] if where.get("engine") else ["id", "station"]
        del where[chance.choice(keys)]
    else:
        del content[chance.choice(["id", "title", "category", "identity", "invariants"])]


def retype(content: dict[str, Any], chance: random.Random) -> None:
    """Puts a value of another kind in its place."""
    if "steps" in content:
        step = chance.choice(content["steps"])
        key = chance.choice(["objective", "teaching", "routing", "id"])
        step[key] = {"objective": ["a", "list"], "teaching": "text", "routing": 5, "id": {"a": "mapping"}}[key]
    else:
        key = chance.choice(["invariants", "tools", "max_turns", "handoff", "io", "identity"])
        wrong = {"invariants": "text", "tools": {"a": 1}, "max_turns": "many", "handoff": [1], "io": 7}
        content[key] = wrong.get(key, ["a", "list"])


def misspell(content: dict[str, Any], chance: random.Random) -> None:
    """One letter too many, in a key at any depth."""
    below = [value for value in content.values() if isinstance(value, dict)]
    where = chance.choice([content, *below, *content.get("steps", [])])
    key = chance.choice(sorted(where))
    where[f"{key}x"] = where.pop(key)


def circle(content: dict[str, Any], chance: random.Random) -> None:
    """A way that leads back without an end, or to a step that is not there; of a station, an unknown tier."""
    if "steps" not in content:
        content["category"] = chance.choice(["crtic", "implementer", "wisdom"])
        return
    steps = content["steps"]
    index = chance.randrange(1, len(steps))
    target = chance.choice([steps[chance.randrange(index)]["id"], "nowhere"])
    steps[index]["routing"] = {"kind": "linear", "next": target}


MUTATIONS: tuple[Mutation, ...] = (delete, retype, misspell, circle)


@cache
def parsed(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@cache
def mutated() -> Mapping[str, str]:
    """Text of every file, by path."""
    found: dict[str, str] = {}
    chance = random.Random(SEED)
    flows = sorted(bundled("flows").glob("*.yaml"))
    stations = sorted((bundled("flows") / "stations").glob("*.yaml"))
    for number in range(FILES):
        kind, sources = [("", flows), ("stations/", stations)][number % 2]
        content = copy.deepcopy(parsed(chance.choice(sources)))
        name = f"m{number}"
        content["id"] = name
        MUTATIONS[number // 2 % len(MUTATIONS)](content, chance)
        found[f".swarm/flows/{kind}{name}.yaml"] = yaml.safe_dump(content, sort_keys=False)
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    project: Project = new_project(tmp_path_factory.mktemp("mutated"))
    project.write(mutated())
    return ask(project, "flows", "validate")


def test_one_process_finds_them_all(told: Answer) -> None:
    found = set(re.findall(r"^git-swarm: (\.swarm/flows/\S+?):\d+: ", told.stderr, re.MULTILINE))
    assert (told.code, sorted(found)) == (1, sorted(mutated()))
    assert "Traceback" not in told.stderr


def test_every_line_is_one_of_the_file(told: Answer) -> None:
    for path, line in re.findall(r"^git-swarm: (\.swarm/flows/\S+?):(\d+): ", told.stderr, re.MULTILINE):
        assert 1 <= int(line) <= mutated()[path].count("\n")


def test_a_misspelt_key_is_told_with_the_nearest_known_one(told: Answer) -> None:
    near = re.findall(r"unknown key '(?:[\w.]+\.)?(\w+)x' \(did you mean '(\w+)'\?\)", told.stderr)
    assert len(near) > FILES // 8
    assert all(wrong == meant for wrong, meant in near)
