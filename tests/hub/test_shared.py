"""A run that is on a hub too: it continues under its lease, and nobody does its steps twice unasked."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from gitswarm.git.repository import Repository
from gitswarm.ledger.state import RunState
from gitswarm.runner.hub.leased_run import reaches_all
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
    onward = f"git swarm resume {run}"
    assert f"next       {onward}\n" in started.stdout
    assert f"hint      {onward}\n" in here.swarm("status", run).stdout
    assert [each["hint"] for each in here.json("list")] == [onward]
    assert here.json("status", run, "--hub")["hint"] == f"{onward} --hub"
    assert f"next       {onward}\n" in here.swarm("rollback", "0", "--run", run).stdout
    assert f"hint: {onward}\n" in here.swarm("approve", run, code=1).stderr
    there.swarm("pull", run)
    assert there.json("status", run)["hint"] == onward
    resumed = there.swarm(*onward.split()[2:])
    assert f"{run} continues on hub: each step is pushed (here alone: --no-hub)\n" in resumed.stderr
    assert clones.pushed() == list(STEPS)
    standing = here.json("status", run, "--hub")["hub"]
    assert (standing["generation"], standing["executes"]) == (2, False)


def test_the_page_continues_a_shared_run_on_the_hub(clones: Clones) -> None:
    here = clones.here
    here.swarm(*clones.start(), "--until", "first")

    answer = ACTIONS["resume"](Site(here.root, here.env), clones.run, {})

    assert (answer.is_done, answer.line) == (True, f"git swarm resume {clones.run}")
    wait_until(lambda: clones.pushed() == list(STEPS), "the second step is on the hub")


def test_a_run_that_was_pushed_by_hand_continues_on_the_hub_as_long_as_one_is_configured(clones: Clones) -> None:
    here = clones.here
    here.swarm("start", "trip", "--script", here.script(clones.script()), "--until", "first")
    run = here.json("list")[0]["run_id"]
    here.swarm("push")
    here.swarm("resume", run, "--until", "second")
    assert clones.pushed() == ["first", "second"]
    here.git("config", "--unset", "swarm.hub")
    here.swarm("resume", run)
    assert clones.trace == list(STEPS)
    assert clones.pushed() == ["first", "second"]


def test_a_step_is_skipped_on_the_hub(clones: Clones) -> None:
    here = clones.here
    here.swarm(*clones.start(), "--until", "first")
    assert f"{clones.run} continues on hub" in here.swarm("skip", "second", "--run", clones.run).stderr
    assert clones.trace == ["first", "third"]
    assert here.json("status", clones.run, "--hub")["state"] == "succeeded"


def test_a_run_continues_here_alone_where_it_is_to(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    assert f"{run} continues" not in here.swarm("resume", run, "--no-hub", "--until", "second").stderr
    assert clones.pushed() == ["first"]
    there.swarm("resume", run, "--hub")
    assert "continued" in here.swarm("resume", run, code=1).stderr
    here.swarm("skip", "third", "--run", run, "--no-hub")
    assert clones.trace == ["first", "second", "second", "third"]
    assert "set aside" in here.swarm("pull", run).stdout


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
    here.swarm("resume", run, "--no-hub", "--until", "second")
    there.swarm("resume", run, "--hub")
    here.git("remote", "set-url", "hub", "../nowhere.git")
    alone = here.swarm("resume", run).stderr
    assert f"{run} continues here alone: hub: fatal: '../nowhere.git' does not appear to be" in alone
    assert f"hint: git swarm push {run}   (brings it to the hub later)" in alone
    assert clones.trace == ["first", "second", "second", "third", "third"]


def test_a_run_that_the_hub_lost_or_does_not_take_continues_here_alone(clones: Clones) -> None:
    here = clones.here
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    refs = clones.on_hub(
        "for-each-ref", "--format=%(refname)", "refs/heads/shadow", "refs/notes", "refs/swarm"
    ).split()
    here.git("push", "-q", "--no-verify", "hub", "--delete", *refs)
    gone = here.swarm("resume", run, "--until", "second").stderr
    assert f"{run} continues here alone: hub does not have {run}\n" in gone
    assert clones.on_hub("for-each-ref", "refs/heads/shadow") == ""

    here.swarm("push", run)
    hook = clones.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no runs today >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    declined = here.swarm("resume", run).stderr
    assert f"{run} continues here alone: hub did not take {run}: no runs today" in declined
    assert clones.trace == list(STEPS)


def test_an_archived_run_continues_on_the_hub_where_all_of_it_is(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    there.swarm("resume", run, "--hub")
    there.swarm("gc", "--hub", "--archive", "0s")
    assert f"somebody continued {run}: the hub has commits" in here.swarm("resume", run, code=1).stderr
    there.swarm("rollback", "second", "--run", run)
    there.swarm("resume", run)
    assert clones.run == run
    assert clones.trace == [*STEPS, "third"]


def test_a_run_whose_process_was_killed_here_continues_on_the_hub(clones: Clones) -> None:
    here = clones.here
    here.swarm_process(
        *clones.start(second=["mkdir '{door}/once' 2>/dev/null || exit 0; kill -9 \"$PPID\""]), code=-9
    )
    assert here.json("status", "--hub")["hub"]["executes"]
    here.swarm("resume", clones.run)
    assert clones.trace == ["first", "second", "second", "third"]
    assert clones.pushed() == list(STEPS)


def test_a_run_that_another_clone_holds_is_not_resumed_here(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    there.swarm("hold", run)
    assert f"{run} is held by" in here.swarm("resume", run, code=75).stderr
    assert clones.trace == ["first"]


def test_a_run_that_another_clone_executes_is_not_resumed_beside_it(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(second=['kill -9 "$PPID"']), "--until", "first")
    run = clones.run
    there.swarm_process("resume", run, "--hub", code=-signal.SIGKILL)
    refused = here.swarm("resume", run, code=1)
    assert f"executes {run}, by its lease on hub" in refused.stderr
    assert f"hint: git swarm resume {run} --hub\n" in refused.stderr
    answer = ACTIONS["resume"](Site(here.root, here.env), run, {})
    assert (answer.is_done, f"hint: git swarm resume {run} --hub" in answer.text) == (False, True)
    assert clones.trace == ["first", "second"]


def test_who_is_slower_than_another_clone_executes_nothing(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run

    def overtaken(repository: Repository, commits: Iterable[str], state: RunState) -> bool:
        there.swarm_process("resume", run, "--hub", "--until", "second")
        return reaches_all(repository, commits, state)

    monkeypatch.setattr("gitswarm.runner.hub.transfer.reaches_all", overtaken)
    refused = here.swarm("resume", run, code=75)
    assert f"{run} belongs to" in refused.stderr
    assert clones.trace == ["first", "second"]
