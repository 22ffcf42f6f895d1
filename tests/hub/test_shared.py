"""A run that is on a hub too: hints continue it under its lease, and nobody does its steps twice unasked."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gitswarm.web.pages import ACTIONS
from gitswarm.web.site import Site
from tests.hub.clones import STEPS, Clones, two_clones
from tests.waiting import wait_until


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return two_clones(tmp_path)


def test_hints_of_a_shared_run_continue_it_on_the_hub(clones: Clones) -> None:
    here, there = clones.here, clones.there
    started = here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    onward = f"git swarm resume {run} --hub"
    assert f"next       {onward}\n" in started.stdout
    assert f"hint      {onward}\n" in here.swarm("status", run).stdout
    assert [each["hint"] for each in here.json("list")] == [onward]
    assert here.json("status", run, "--hub")["hint"] == onward
    assert f"next       {onward}\n" in here.swarm("rollback", "0", "--run", run).stdout
    assert f"hint: {onward}\n" in here.swarm("approve", run, code=1).stderr
    there.swarm("pull", run)
    assert there.json("status", run)["hint"] == onward
    there.swarm(*onward.split()[2:])
    assert clones.pushed() == list(STEPS)


def test_the_page_continues_a_shared_run_on_the_hub(clones: Clones) -> None:
    here = clones.here
    here.swarm(*clones.start(), "--until", "first")

    answer = ACTIONS["resume"](Site(here.root, here.env), clones.run, {})

    assert (answer.is_done, answer.line) == (True, f"git swarm resume {clones.run} --hub")
    wait_until(lambda: clones.pushed() == list(STEPS), "the second step is on the hub")


def test_a_list_that_was_kept_knows_of_a_push(clones: Clones) -> None:
    here = clones.here
    here.swarm("start", "trip", "--script", here.script(clones.script()), "--until", "first")
    (before,) = here.json("list")
    here.swarm("push")
    assert [each["hint"] for each in here.json("list")] == [f"{before['hint']} --hub"]
    here.git("config", "--unset", "swarm.hub")
    assert [each["hint"] for each in here.json("list")] == [before["hint"]]


@pytest.mark.parametrize("command", ["resume", "skip"])
def test_steps_that_another_clone_executed_are_not_executed_again(clones: Clones, command: str) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    there.swarm("resume", run, "--hub")
    words = ["resume", run] if command == "resume" else ["skip", "second", "--run", run]

    refused = here.swarm(*words, code=1)

    assert f"continued {run}: the hub has commits of it that are not here" in refused.stderr
    assert f"hint: git swarm pull {run}   (or: git swarm resume {run} --hub)" in refused.stderr
    assert clones.trace == list(STEPS)
    here.swarm("pull", run)
    assert "nothing to do" in here.swarm("resume", run).stderr
    assert clones.trace == list(STEPS)


def test_a_hub_that_is_behind_or_out_of_reach_keeps_nobody_from_continuing(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    here.swarm("resume", run, "--until", "second")
    there.swarm("resume", run, "--hub")
    here.git("remote", "set-url", "hub", "../nowhere.git")
    here.swarm("resume", run)
    assert clones.trace == ["first", "second", "second", "third", "third"]


def test_a_run_that_another_clone_executes_is_not_resumed_beside_it(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(second=['kill -9 "$PPID"']), "--until", "first")
    run = clones.run
    there.swarm_process("resume", run, "--hub", code=-signal.SIGKILL)
    refused = here.swarm("resume", run, code=1)
    assert f"executes {run}, by its lease on hub" in refused.stderr
    assert f"hint: git swarm resume {run} --hub\n" in refused.stderr
    assert clones.trace == ["first", "second"]
