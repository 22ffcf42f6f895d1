"""One run of the hub is executed to its end, by whoever is asked to, however often."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitswarm.cli.invocation import now
from gitswarm.git.remote import remote_of
from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.runner.hub.leased_run import LeasedRun
from tests.hub.clones import STEPS, Clones, two_clones


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return two_clones(tmp_path)


def executed(clones: Clones, run: str, code: int = 0) -> str:
    """By a worker with a folder of its own."""
    place = ("--hub", str(clones.hub), "--dir", str(clones.door / "worker"))
    done = clones.there.swarm("fleet-exec", run, *place, code=code)
    return done.stdout + done.stderr


def begun_in_vain(clones: Clones, run: str) -> None:
    """As if a process had taken the run over and died."""
    repository = open_repository(clones.here.root, clones.here.env)
    remote = remote_of(repository, "hub", clones.here.env)
    LeasedRun(repository, remote, RunLayout(run), now).take(executes=True)


def test_a_worker_executes_a_run_of_which_it_had_nothing(clones: Clones) -> None:
    clones.here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    begun_in_vain(clones, run)
    executed(clones, run)
    executed(clones, run)
    assert clones.pushed() == list(STEPS)
    assert clones.trace == list(STEPS)
    clone = next((clones.door / "worker").glob("*.git"))
    assert clones.here.git("worktree", "list", cwd=clone).splitlines()[1:] == []
    assert clones.here.git("for-each-ref", "refs/heads/main", cwd=clone) == ""


def test_a_run_that_never_gets_further_waits_for_a_person(clones: Clones) -> None:
    clones.here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    for _attempt in range(3):
        begun_in_vain(clones, run)
    said = executed(clones, run, code=5)
    assert "begun 3 times without a new step" in said
    assert f"git swarm release {run}" in said
    clones.here.swarm("release", run)
    executed(clones, run)
    assert clones.pushed() == list(STEPS)


def test_a_run_that_was_to_stop_when_its_owner_died_stops(clones: Clones) -> None:
    clones.here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    begun_in_vain(clones, run)
    clones.here.swarm("stop", run, "--hub")
    executed(clones, run)
    assert (clones.here.json("status", "--hub")["state"], clones.pushed()) == ("stopped", ["first"])
    executed(clones, run)
    assert clones.pushed() == list(STEPS)


def test_the_exit_code_says_whether_to_try_again(clones: Clones) -> None:
    script = clones.here.script('steps: {second: [{fail: "no"}]}')
    clones.here.swarm("start", "trip", "--hub", "--script", script, "--until", "first")
    run = clones.run
    executed(clones, run, code=4)
    tip = clones.on_hub("rev-parse", f"shadow/{run}")
    executed(clones, run, code=4)
    assert clones.on_hub("rev-parse", f"shadow/{run}") == tip
