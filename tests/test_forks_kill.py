"""Guarantee 1 in a fork: kill -9 at any point; what was paid for is not executed again, and the run ends the same."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.conftest import GIT_CONFIG, Project
from tests.faults import COUNT, NONE, Server
from tests.forking import STATIONS, sibling_refs
from tests.test_guarantee_1_kill import (
    chain,
    check_repository,
    check_worktree,
    code,
    decisions,
    each,
    environment,
    files,
    named,
    points_of,
    sampled,
)

SEED = 5
SAMPLED_POINTS = 8
SAMPLED_PAIRS = 2
SHARDS = 32

FLOW = """\
id: fan
title: Fan out
steps:
  - {id: begin, station: maker, routing: {kind: fork, fork_targets: [slow, quick, check]}}
  - {id: slow, station: maker, teaching: {outputs: [slow.md]}}
  - {id: quick, station: reader, teaching: {outputs: [quick.md]}}
  - {id: check, engine: command, command: {run: 'echo check >> "$SWARM_TRACE"; echo checked > check.txt'}}
  - {id: both, station: maker, routing: {kind: join, join_from: [slow, quick, check]}}
"""
SCRIPT = """\
steps:
  begin: {write: {src/app.py: "begun\\n"}, run: ['echo begin >> "$SWARM_TRACE"']}
  slow:
    delay_ms: 500
    write: {src/app.py: "slow\\n", RUN_BASE/fan/slow.md: "slow\\n"}
    run: ['echo slow >> "$SWARM_TRACE"']
  quick: {write: {RUN_BASE/fan/quick.md: "quick\\n"}, run: ['echo quick >> "$SWARM_TRACE"']}
  check: {delay_ms: 250}
  both: {write: {src/both.py: "both\\n"}, run: ['echo both >> "$SWARM_TRACE"']}
"""
STEPS = ("begin", "slow", "quick", "check", "both")
ARTIFACTS = ("fan/slow.md", "fan/quick.md")


@dataclass(frozen=True)
class Told:
    """What must be the same, whatever happened on the way."""

    steps: tuple[str, ...]
    statuses: tuple[str, ...]
    trees: tuple[dict[str, str], ...]
    artifacts: tuple[dict[str, str | None], ...]
    decisions: tuple[tuple[str, str | None, str], ...]
    names: tuple[str, ...]


@dataclass
class Place:
    """A copy of the template in which a run is executed, killed and resumed."""

    folder: Path
    project: Project
    server: Server
    paid: dict[str, int] = field(default_factory=dict)
    """Steps that had a commit of any kind when a process was killed, with what they had left in the trace by then."""

    @property
    def run(self) -> str | None:
        found = self.project.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").split()
        return found[0] if found else None

    @property
    def trace(self) -> Counter[str]:
        path = self.folder / "tmp" / "trace"
        return Counter(path.read_text(encoding="utf-8").split() if path.exists() else ())

    def swarm(self, *arguments: str, point: int | str = NONE) -> subprocess.CompletedProcess[str]:
        return self.server.execute(point, arguments, self.project.root, self.project.env)

    @property
    def next(self) -> tuple[str, ...]:
        if self.run is not None:
            return ("resume",)
        return ("start", "fan", "--script", str(self.folder / "script.yaml"))

    def killed_at(self, point: int) -> None:
        """Executes up to a point. Which one that is depends a little on the order in which branches end."""
        done = self.swarm(*self.next, point=point)
        assert done.returncode in (0, -signal.SIGKILL), f"exit code {done.returncode}\n{done.stderr}"
        trace = self.trace
        self.paid |= {step: trace[step] for step in self._committed() if step not in self.paid}

    def _committed(self) -> set[str]:
        run = self.run
        if run is None:
            return set()
        tips = [f"refs/heads/shadow/{run}"]
        tips += self.project.git("for-each-ref", "--format=%(refname)", f"refs/swarm/{run}/next").split()
        return {told.step for tip in tips for told in chain(self.project, tip) if told.kind == "step"} | {
            step.partition("@")[0] for step in sibling_refs(self.project, run)
        }

    def finish(self) -> Told:
        done = self.swarm(*self.next)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return self.check()

    def check(self) -> Told:
        project, run = self.project, self.run
        assert run is not None
        told = chain(project, f"refs/heads/shadow/{run}")
        steps = [item for item in told if item.kind == "step"]
        listed = {item.commit: dict(files(project, item.commit)) for item in steps}
        base = f".swarm/runs/{run}/"
        check_repository(project, run)
        check_worktree(project, run)
        assert project.git("worktree", "list").count("\n") == 1
        assert [path.name for path in (project.root.parent / "repo.swarm").iterdir()] == [run]
        trace = self.trace
        assert {step: trace[step] for step in self.paid} == self.paid, "a paid step was executed again"
        assert set(trace) == set(STEPS)
        form = "--format=%(trailers:key=Swarm-Status,valueonly,separator=)"
        statuses = project.git("log", "--first-parent", "--reverse", form, f"shadow/{run}")
        last = listed[steps[-1].commit]
        return Told(
            steps=tuple(item.step for item in steps),
            statuses=tuple(statuses.split()),
            trees=tuple(code(listed[item.commit]) for item in steps),
            artifacts=tuple({name: listed[item.commit].get(base + name) for name in ARTIFACTS} for item in steps),
            decisions=tuple(decisions(project, run, steps)),
            names=tuple(sorted(_name(name.removeprefix(base)) for name in last if name.startswith(base))),
        )


def _name(path: str) -> str:
    """Without the number of the execution: an interrupted one has used up its own."""
    return path.partition("@")[0]


@dataclass(frozen=True)
class Undisturbed:
    template: Path
    server: Server
    told: Told
    points: tuple[str, ...]

    def place(self, folder: Path) -> Place:
        shutil.copytree(self.template, folder, symlinks=True)
        return Place(folder, Project(folder / "repo", environment(folder)), self.server)


@contextmanager
def executed_undisturbed(folder: Path) -> Iterator[Undisturbed]:
    template = folder / "template"
    (template / "repo").mkdir(parents=True)
    (template / "home").mkdir()
    (template / "tmp").mkdir()
    (template / "home" / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    (template / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    project = Project(template / "repo", environment(template))
    project.git("init", "-q")
    stations = {f".swarm/flows/stations/{key}.yaml": text for key, text in STATIONS.items()}
    config = {
        ".gitignore": "setup.log\n",
        ".swarm/config.yaml": "worktree: {copy: [local.cfg], setup: 'cat local.cfg > setup.log'}\n",
    }
    project.commit({"src/app.py": "first\n", ".swarm/flows/fan.yaml": FLOW, **stations, **config}, "first")
    project.write({"local.cfg": "KEY=1\n"})
    with Server(folder) as server:
        bare = Undisturbed(template, server, Told((), (), (), (), (), ()), ())
        told = bare.place(folder / "whole").finish()
        counted = bare.place(folder / "counted")
        done = counted.swarm(*counted.next, point=COUNT)
        assert done.returncode == 0, done.stderr
        yield replace(bare, told=told, points=points_of(done))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with executed_undisturbed(tmp_path_factory.mktemp("fan")) as executed:
        yield executed


def in_fork(undisturbed: Undisturbed) -> range:
    """The points from the first journal of a branch to the end of the run."""
    journals = [number for number, name in enumerate(undisturbed.points, start=1) if name == "before Journal"]
    return range(journals[1], len(undisturbed.points) + 1)


def kill_at(undisturbed: Undisturbed, points: Sequence[int], folder: Path) -> None:
    """Killed at these points, one process after the other, then taken on."""
    place = undisturbed.place(folder)
    where = ", ".join(f"{point} (about: {undisturbed.points[point - 1]})" for point in points)
    with named(f"killed at {where}"):
        for point in points:
            place.killed_at(point)
        assert place.finish() == undisturbed.told
    shutil.rmtree(folder)


def test_the_undisturbed_run_has_everything_once(undisturbed: Undisturbed) -> None:
    told = undisturbed.told
    assert told.steps == STEPS
    assert told.statuses == ("VERIFIED",) * 5
    names = {name: name in told.trees[-1] for name in ("check.txt", "src/both.py", "src/app.py")}
    assert names == {"check.txt": True, "src/both.py": True, "src/app.py": True}
    assert told.decisions == (
        ("fork", "slow", "fast_path"),
        ("fork", "quick", "fast_path"),
        ("fork", "check", "fast_path"),
        ("advance", "both", "fast_path"),
        ("terminate", None, "fast_path"),
    )


@pytest.mark.parametrize("number", range(SAMPLED_POINTS))
def test_a_fork_killed_at_a_sampled_point_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, number: int
) -> None:
    points = in_fork(undisturbed)
    chosen = sampled([undisturbed.points[point - 1] for point in points], SAMPLED_POINTS, SEED)[number]
    kill_at(undisturbed, [points[chosen - 1]], tmp_path / "killed")


@pytest.mark.parametrize("number", range(SAMPLED_PAIRS))
def test_a_fork_killed_twice_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, number: int
) -> None:
    points = in_fork(undisturbed)
    first, second = sampled([undisturbed.points[point - 1] for point in points], SAMPLED_PAIRS * 2, SEED + 1)[
        number * 2 : number * 2 + 2
    ]
    kill_at(undisturbed, [points[first - 1], second], tmp_path / "killed")


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_fork_killed_at_any_point_ends_as_if_nothing_had_happened(
    undisturbed: Undisturbed, tmp_path: Path, shard: int
) -> None:
    points = in_fork(undisturbed)[shard::SHARDS]
    each(points, lambda point: kill_at(undisturbed, [point], tmp_path / str(point)))
