"""An honest bad day, all flows in one run: how it goes, and that it ends the same when it is killed on the way.

    POINTS=1000 python -m pytest -m soak tests/days/test_bad_day.py

`POINTS`: at how many seeded points it is killed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.days.till import APP, BAD_DAY, FILES, OFF, ROUNDED
from tests.faults import COUNT, NONE, Server
from tests.projects import new_project
from tests.test_guarantee_1_kill import check_repository, each, named, points_of

SEED = 3
POINTS = int(os.environ.get("POINTS", "200"))
SHARDS = 20
STOPS = (
    "signal/finalize",
    "plan/finalize",
    "build/run_tests",
    "build/finalize",
    "review/finalize",
    "build/finalize",
    "gate/decide_merge",
    "deploy/finalize",
)
"""Behind these the run is stopped in good order and kept, so that what follows can be played more than once."""

SAMPLED = (8,)
"""Parts of the run, each killed once in the usual run of the tests: the later, the cheaper."""

BUILT_AGAIN = [
    "load_context VERIFIED > advance clarify",
    "clarify VERIFIED > advance author_tests",
    "author_tests VERIFIED > advance critique_tests",
    "critique_tests VERIFIED > advance implement",
    "implement VERIFIED > advance critique_code",
    "critique_code VERIFIED > advance run_tests",
    "run_tests VERIFIED > branch mutate",
    "mutate VERIFIED > advance fix",
    "fix VERIFIED > advance verify_tests",
    "verify_tests VERIFIED > branch write_docs",
    "write_docs VERIFIED > advance self_review",
    "self_review VERIFIED > advance finalize",
    "finalize VERIFIED > advance create_pr",
]


@dataclass(frozen=True)
class End:
    """What has to be the same, whatever happened on the way.

    :ivar steps: flow, step, status, what was decided behind it, and by what.
    :ivar code: trees of `src` and `tests` behind each step.
    :ivar main: of each commit on the user's branch its tree and its subject.
    """

    state: str
    steps: tuple[tuple[Any, ...], ...]
    code: tuple[str, ...]
    main: tuple[str, ...]
    concerns: tuple[str, ...]
    wisdom: tuple[str, ...]

    @classmethod
    def of(cls, project: Project) -> End:
        """With all that has to hold of a run that has ended."""
        (told,) = project.json("list")
        run, log = told["run_id"], project.json("log", told["run_id"])
        project.swarm("verify", run)
        check_repository(project, run)
        assert project.git("status", "--porcelain") == ""
        assert project.git("status", "--porcelain", cwd=Path(told["worktree"])) == ""
        keys = ("decision", "to_step", "routing_source")
        trees = [f"{step['commit']}:{folder}" for step in log for folder in ("src", "tests")]
        return cls(
            state=told["state"],
            steps=tuple(
                (step["flow"], step["step"], step["status"], *(step["routing"][key] for key in keys)) for step in log
            ),
            code=tuple(project.git("rev-parse", *trees).split()),
            main=tuple(project.git("log", "--format=%T %s", "main").splitlines()),
            concerns=tuple(each["id"] for each in told["open_concerns"]),
            wisdom=tuple(
                name.replace(run, "RUN")
                for name in project.git("ls-tree", "--name-only", "refs/swarm/wisdom").splitlines()
            ),
        )


@dataclass(frozen=True)
class Day:
    """The run that nothing happened to.

    :ivar parts: command lines of the run, one after the other, and what was there when each began.
    :ivar points: of each part, where it can be killed.
    """

    folder: Path
    server: Server
    project: Project
    parts: tuple[tuple[tuple[str, ...], Path], ...]
    points: tuple[tuple[str, ...], ...]
    end: End

    def kill(self, part: int, point: int) -> None:
        """Plays a part up to one point of it, and all the rest after a SIGKILL there."""
        words, before = self.parts[part]
        shutil.rmtree(self.folder)
        shutil.copytree(before, self.folder, symlinks=True)
        root, env = self.project.root, self.project.env
        with named(f"{' '.join(words)} killed at {point} {self.points[part][point - 1]}"):
            killed = self.server.execute(point, words, root, env)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            begun = self.project.git("for-each-ref", "refs/heads/shadow/") != ""
            on = self.server.execute(NONE, ("resume",) if begun else words[:-2], root, env)
            assert on.returncode == 0, on.stdout + on.stderr
            assert End.of(self.project) == self.end


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    folder = tmp_path_factory.mktemp("day")
    (folder / "place").mkdir()
    project = new_project(folder / "place")
    project.commit(dict(FILES), "a till")
    script = project.script(json.dumps({"steps": dict(BAD_DAY)}))
    start = ("start", "all", "-m", "teach the till", "--autopilot", "--allow-stub", "--script", script)
    lines = [("resume", "--until", stop) for stop in STOPS[1:]]
    parts: list[tuple[tuple[str, ...], Path]] = []
    points: list[tuple[str, ...]] = []
    with Server(folder) as server:
        for words in ((*start, "--until", STOPS[0]), *lines, ("resume",)):
            before = folder / str(len(parts))
            shutil.copytree(folder / "place", before, symlinks=True)
            counted = server.execute(COUNT, words, project.root, project.env)
            assert counted.returncode == 0, counted.stderr
            parts.append((words, before))
            points.append(points_of(counted))
        yield Day(folder / "place", server, project, tuple(parts), tuple(points), End.of(project))


def test_a_day_on_which_much_goes_wrong_ends_with_a_landed_commit(day: Day) -> None:
    project, end = day.project, day.end
    (told,) = project.json("list")
    run = told["run_id"]
    assert (end.state, end.concerns) == ("succeeded", ())
    flows = [flow for flow, _steps in itertools.groupby(end.steps, key=lambda step: step[0])]
    again = ["build", "review", "gate"]
    assert flows == ["signal", "plan", *again, *again, "deploy", "wisdom"]
    lines = [f"{flow}/{step} {status} > {way} {to}" for flow, step, status, way, to, _by in end.steps]
    assert lines[2:9] == [
        "signal/author_reqs VERIFIED > advance critique_reqs",
        "signal/critique_reqs UNVERIFIED > loop author_reqs",
        "signal/author_reqs VERIFIED > advance critique_reqs",
        "signal/critique_reqs UNVERIFIED > loop author_reqs",
        "signal/author_reqs VERIFIED > advance critique_reqs",
        "signal/critique_reqs VERIFIED > advance author_bdd",
        "signal/author_bdd VERIFIED > advance critique_bdd",
    ]
    # Red; then one criterion proven and one open, which the tests tell; then no progress.
    assert [line for line in lines if line.startswith(("build/run_tests", "build/implement"))] == [
        "build/implement VERIFIED > advance critique_code",
        "build/run_tests UNVERIFIED > branch implement",
        "build/implement VERIFIED > advance critique_code",
        "build/run_tests UNVERIFIED > branch author_tests",
        "build/implement VERIFIED > advance critique_code",
        "build/run_tests UNVERIFIED > branch mutate",
        "build/implement VERIFIED > advance critique_code",
        "build/run_tests VERIFIED > branch mutate",
    ]
    back = lines.index("gate/approve VERIFIED > advance load_context")
    assert lines[back + 1 : back + 14] == [f"build/{line}" for line in BUILT_AGAIN]
    assert lines.count("gate/approve VERIFIED > advance read_gate") == 1
    assert "deploy/execute_merge VERIFIED > branch watch_ci" in lines
    assert project.git("show", "main:src/till.py") + "\n" == APP + OFF + ROUNDED
    assert project.git("log", "--format=%s", "main").splitlines() == ["teach the till", "a till", "first"]
    assert f"Swarm-Landed: {run}" in project.git("log", "-1", "--format=%B", "main")
    assert project.tree("main") == project.tree(f"shadow/{run}")


def test_what_the_gate_has_found_stands_in_every_prompt_of_the_build_that_it_sends_back(day: Day) -> None:
    project = day.project
    log = project.json("log")
    back = next(n for n, step in enumerate(log) if step["step"] == "approve") + 1
    told = "## Why the gate sent the run back\n\n- BOUNCE_BUILD: "
    blocker = "- AC-2: no test shows that cents are rounded (build/evidence/run_tests.json)"
    for step in log:
        if step["flow"] != "build" or step["engine"] == "command":
            continue
        name = f"build/{step['step']}@{step['iteration']}"
        prompt = project.swarm("show", name, "--prompt").stdout
        is_again = step["n"] > back
        assert (told in prompt, blocker in prompt) == (is_again, is_again), name


def sampled(day: Day, part: int) -> int:
    return random.Random(SEED * 100 + part).randint(1, len(day.points[part]))


@pytest.mark.parametrize("part", SAMPLED)
def test_a_day_that_is_killed_at_a_sampled_point_ends_the_same(day: Day, part: int) -> None:
    day.kill(part, sampled(day, part))


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_day_that_is_killed_at_any_point_ends_the_same(day: Day, shard: int) -> None:
    every = [(part, point) for part, points in enumerate(day.points) for point in range(1, len(points) + 1)]
    chosen = random.Random(SEED).sample(every, POINTS)
    each(range(shard, POINTS, SHARDS), lambda number: day.kill(*chosen[number]))
