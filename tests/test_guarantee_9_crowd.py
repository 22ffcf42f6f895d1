"""Guarantee 9 with a crowd: whatever many people do at once in one repository, each run ends as if it were alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.projects import ask
from tests.test_guarantee_9_parallel import FLOW, SCRIPT, STATION, answer, contents, swarming


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its state, its log without ids and times, its code, what lies uncommitted in its worktree."""

    state: str
    log: tuple[tuple[str, int, str, str], ...]
    code: dict[str, str]
    uncommitted: str


@pytest.fixture
def trail(project: Project) -> Project:
    project.commit({".swarm/flows/trek.yaml": FLOW, ".swarm/flows/stations/walker.yaml": STATION}, "the flow")
    project.script(SCRIPT.replace("NAME", "we"))
    return project


Command = Callable[..., str]
"""A command line of the product; its stdout."""


def in_here(project: Project) -> Command:
    def command(*arguments: str) -> str:
        said = ask(project, *arguments)
        assert said.code == 0, said.stderr
        return said.stdout

    return command


def in_a_process(project: Project) -> Command:
    return lambda *arguments: project.swarm_process(*arguments).stdout


def straight(swarm: Command, script: str) -> list[str]:
    return [run_in(swarm("start", "trek", "--script", script, "--json"))]


def interrupted(swarm: Command, script: str) -> list[str]:
    run = run_in(swarm("start", "trek", "--script", script, "--json", "--until", "walk"))
    swarm("resume", run, "--until", "judge")
    swarm("rollback", "walk", "--run", run)
    swarm("stop", run)
    swarm("resume", run)
    return [run]


def void_commits(swarm: Command, script: str) -> list[str]:
    run = run_in(swarm("start", "trek", "--script", script, "--json"))
    swarm("rollback", "judge@1", "--run", run)
    swarm("resume", run)
    swarm("rollback", "0", "--run", run)
    swarm("rollback", "--undo", "--run", run)
    return [run]


def forked(swarm: Command, script: str) -> list[str]:
    run = run_in(swarm("start", "trek", "--script", script, "--json", "--until", "walk"))
    fork = run_in(swarm("fork", "walk", "--run", run, "--json"))
    swarm("rollback", "0", "--run", run)
    swarm("resume", run)
    return [run, fork]


def run_in(lines: str) -> str:
    (run,) = {json.loads(line)["run_id"] for line in lines.splitlines()}
    return str(run)


LIVES = (straight, interrupted, void_commits, forked)


def outcome(project: Project, run: str) -> Outcome:
    log = json.loads(ask(project, "log", run, "--json").stdout)
    return Outcome(
        state=json.loads(ask(project, "status", run, "--json").stdout)["state"],
        log=tuple((entry["step"], entry["iteration"], entry["result"], entry["summary"]) for entry in log),
        code=contents(project, f"shadow/{run}"),
        uncommitted=project.git("status", "--porcelain", cwd=worktrees(project) / run),
    )


def worktrees(project: Project) -> Path:
    return project.root.parent / "repo.swarm"


def check_crowd(project: Project, size: int) -> None:
    """Each life alone first, then `size` of them at once."""
    script = str(project.root.parent / "script.yaml")
    alone = [[outcome(project, run) for run in life(in_here(project), script)] for life in LIVES]
    before = fingerprint(project.root)
    lives = [LIVES[number % len(LIVES)] for number in range(size)]
    with ThreadPoolExecutor(size) as crowd:
        runs = list(crowd.map(lambda life: life(in_a_process(project), script), lives))
    together = [[outcome(project, run) for run in own] for own in runs]
    assert together == [alone[number % len(LIVES)] for number in range(size)]
    assert fingerprint(project.root).entries == before.entries
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""


def test_two_lives_at_once_with_forks_and_rollbacks_end_as_each_alone(trail: Project) -> None:
    check_crowd(trail, 2)


@pytest.mark.soak
def test_sixteen_lives_at_once_with_forks_and_rollbacks_end_as_each_alone(trail: Project) -> None:
    check_crowd(trail, 16)


def check_starts(project: Project, number: int) -> None:
    """So many starts in the same instant: each gets its run, its worktree and its first step."""
    script = str(project.root.parent / "script.yaml")
    arguments = ("start", "trek", "--script", script, "--until", "walk", "--json")
    before = fingerprint(project.root)
    with ExitStack() as stack:
        started = [stack.enter_context(swarming(project, *arguments)) for _ in range(number)]
        answers = [answer(process) for process in started]
    assert [code for code, _out, _err in answers] == [0] * number, [err for code, _out, err in answers if code]
    runs = {run_in(out) for _code, out, _err in answers}
    assert len(runs) == number
    assert {path.name for path in worktrees(project).iterdir()} == runs
    expected = contents(project, "main") | {"src/same.txt": "we first"}
    code = {name: text for name, text in expected.items() if not name.startswith(".swarm/")}
    for run in runs:
        found = {name: (worktrees(project) / run / name).read_text(encoding="utf-8").rstrip("\n") for name in code}
        assert found == code
    states = {run["run_id"]: run["state"] for run in json.loads(ask(project, "list", "--json").stdout)}
    assert states == dict.fromkeys(runs, "stopped")
    assert fingerprint(project.root).entries == before.entries
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""


def test_four_starts_in_the_same_instant_make_four_worktrees(trail: Project) -> None:
    check_starts(trail, 4)


@pytest.mark.soak
def test_a_hundred_starts_in_the_same_instant_make_a_hundred_worktrees(trail: Project) -> None:
    check_starts(trail, 100)
