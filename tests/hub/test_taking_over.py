"""A run that is executed on one clone is taken over by another: no step is doubled, nobody's work is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitswarm.git.remote import Move, Remote
from gitswarm.runner.hub import leased_run
from tests.faults import COUNT
from tests.forking import WRITERS, with_flow
from tests.hub.clones import STEPS, Clones, two_clones
from tests.unseen import unseen
from tests.waiting import DEADLINE_S, wait_until

ROUNDS = int(os.environ.get("ROUNDS", "50"))
SHARDS = 8
ONCE = "mkdir '{door}/once' 2>/dev/null || exit 0"
"""What follows in a shell line is done by the first execution of its step alone."""
GATE = f"{ONCE}; touch '{{door}}/reached'; while [ ! -e '{{door}}/open' ]; do sleep 0.02; done; touch '{{door}}/left'"
DIE = f'{ONCE}; kill -9 "$PPID"'


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return two_clones(tmp_path)


def check_whole(clones: Clones) -> None:
    """Each step once on the hub, and the same there, here and on the hub."""
    run = clones.run
    assert clones.pushed() == list(STEPS)
    assert clones.on_hub("fsck", "--full", "--strict", "--no-dangling") == ""
    log = clones.there.json("log", run)
    assert [(entry["step"], entry["status"]) for entry in log] == [(step, "VERIFIED") for step in STEPS]
    clones.here.swarm("pull", run)
    assert clones.here.json("log", run) == log
    assert clones.here.json("status", run)["state"] == "succeeded"
    assert clones.here.git("status", "--porcelain", cwd=clones.here.worktree(run)) == ""


def test_a_run_whose_owner_was_killed_is_taken_over(clones: Clones) -> None:
    killed = clones.here.swarm_process(*clones.start(second=[DIE]), code=-signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    (left,) = clones.there.json("list", "--hub")
    assert (left["state"], left["next_step"], left["hub"]["executes"]) == ("running", "second", True)
    clones.there.swarm("pull")
    assert "takes it over at once" in clones.there.swarm("push", clones.run, code=1).stderr

    clones.there.swarm("resume", "--hub")

    (done,) = clones.there.json("list", "--hub")
    assert (done["state"], done["hub"]["generation"], done["hub"]["executes"]) == ("succeeded", 2, False)
    assert clones.trace == ["first", "second", "second", "third"]
    check_whole(clones)


def test_who_was_taken_over_is_fenced_and_its_work_is_kept(clones: Clones) -> None:
    argv = clones.here.argv(*clones.start(second=[GATE]))
    with subprocess.Popen(
        argv, cwd=clones.here.root, env=dict(clones.here.env), stderr=subprocess.PIPE, text=True
    ) as old:
        wait_until((clones.door / "reached").exists, "the step is reached")
        clones.there.swarm("resume", "--hub")
        (clones.door / "open").touch()
        said = old.communicate(timeout=DEADLINE_S)[1]

    run = clones.run
    kept = f"refs/swarm/{run}/rollback/1"
    assert old.returncode == 75
    assert (clones.door / "left").exists()
    assert f"belongs to {clones.there.json('status', '--hub')['hub']['owner']} now" in said
    assert f"what only this clone had is kept in {kept}" in said
    assert f"hint: git log {kept}" in said
    assert "trip/second" in clones.here.git("log", "-1", "--format=%s", f"{kept}^1")
    assert clones.here.git("show", f"{kept}:src/second.txt") == "second"
    assert clones.trace == ["first", "second", "second", "third"]
    check_whole(clones)


def test_a_run_elsewhere_stops_behind_its_step_when_it_is_asked_to(clones: Clones) -> None:
    here, there = clones.here, clones.there
    argv = here.argv(*clones.start(second=[GATE]))
    with subprocess.Popen(argv, cwd=here.root, env=dict(here.env), stderr=subprocess.PIPE, text=True) as old:
        wait_until((clones.door / "reached").exists, "the step is reached")
        run = clones.run
        assert "--now reaches a run of this machine" in there.swarm("stop", run, "--hub", "--now", code=2).stderr
        there.swarm("pull", run)
        elsewhere = there.swarm("stop", run, code=1).stderr
        assert f"executes {run}, by its lease on hub of" in elsewhere
        assert f"hint: git swarm stop {run} --hub" in elsewhere
        assert f"{run} will stop after its current step" in there.swarm("stop", run, "--hub").stdout
        (clones.door / "open").touch()
        said = old.communicate(timeout=DEADLINE_S)[1]
    assert old.returncode == 0, said
    assert clones.pushed() == ["first", "second"]
    status = there.json("status", "--hub")
    assert (status["state"], status["hub"]["generation"], status["hub"]["executes"]) == ("stopped", 1, False)
    refused = there.swarm("stop", run, "--hub", code=1).stderr
    assert f"{run} is stopped: nobody executes it" in refused
    assert f"hint: git swarm hold {run}" in refused

    there.swarm("resume", run, "--hub")
    check_whole(clones)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_run_killed_at_any_moment_is_taken_over(clones: Clones, number: int) -> None:
    """Killed, or stopped and waking up when the run is over, at a random moment."""
    chance = random.Random(number)
    sent = chance.choice((signal.SIGKILL, signal.SIGSTOP))
    lines = {step: ["sleep 0.1"] for step in STEPS}
    argv = clones.here.argv(*clones.start(**lines))
    with subprocess.Popen(
        argv, cwd=clones.here.root, env=dict(clones.here.env), stderr=subprocess.PIPE, text=True
    ) as old:
        wait_until(lambda: bool(clones.on_hub("for-each-ref", "refs/heads/shadow/")), "the run is on the hub")
        time.sleep(chance.random() * 1.5)
        old.send_signal(sent)
        clones.there.swarm("resume", "--hub")
        old.send_signal(signal.SIGCONT)
        said = old.communicate(timeout=DEADLINE_S)[1]
    codes = (-signal.SIGKILL, 0) if sent == signal.SIGKILL else (75, 0)
    assert old.returncode in codes, said
    check_whole(clones)


def test_a_push_whose_answer_is_lost_has_arrived(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    push = Remote.push

    def lose_answer(remote: Remote, moves: Sequence[Move]) -> str | None:
        push(remote, moves)
        return "the remote end hung up"

    monkeypatch.setattr(Remote, "push", lose_answer)
    clones.here.swarm(*clones.start())
    assert clones.here.json("status", "--hub")["hub"]["generation"] == 1
    assert clones.pushed() == list(STEPS)


def test_a_hub_that_cannot_be_reached_ends_the_process_and_no_step_is_lost(
    clones: Clones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased_run, "_PAUSES_S", (0.0,))
    away = clones.hub.with_name("away.git")
    ended = clones.here.swarm(*clones.start(second=[f"mv '{clones.hub}' '{away}'"]), code=1)
    away.rename(clones.hub)
    assert f"hint: git swarm resume {clones.run}   (when that is fixed" in ended.stderr
    assert clones.pushed() == ["first"]

    clones.here.swarm("resume", "--hub")

    assert clones.trace == list(STEPS)
    assert clones.pushed() == list(STEPS)


def test_a_resume_that_fails_before_it_executes_leaves_no_owner(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "second")
    assert "no proposal" in there.swarm("resume", "--hub", "--approve", code=1).stderr
    assert not here.json("status", "--hub")["hub"]["executes"]


@pytest.mark.soak
def test_a_resume_that_has_nothing_to_do_leaves_no_owner(clones: Clones) -> None:
    clones.here.swarm(*clones.start())
    assert "succeeded already" in clones.there.swarm("resume", "--hub").stderr
    assert not clones.here.json("status", "--hub")["hub"]["executes"]


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every point of such a run at which something durable happens, as `tests.faults` names it."""
    clones = two_clones(tmp_path_factory.mktemp("points"))
    return killed_at(clones, COUNT).stdout.splitlines()


def killed_at(clones: Clones, point: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.faults", point, *clones.start()]
    return subprocess.run(
        argv, cwd=clones.here.root, env=dict(clones.here.env), capture_output=True, text=True, check=False
    )


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_run_killed_at_any_point_of_a_push_is_taken_over(points: list[str], tmp_path: Path, shard: int) -> None:
    """Before and after every push, and at every tenth point behind the first one."""
    pushes = [number for number, name in enumerate(points, 1) if "git push" in name]
    chosen = sorted({*pushes, *range(pushes[1], len(points) + 1, 10)})
    for point in chosen[shard::SHARDS]:
        clones = two_clones(tmp_path / str(point))
        killed = killed_at(clones, str(point))
        assert killed.returncode == -signal.SIGKILL, f"{points[point - 1]}: {killed.stderr}"
        if point == pushes[0]:
            assert clones.on_hub("for-each-ref", "refs/heads/shadow") == ""
            continue
        try:
            clones.there.swarm("resume", "--hub")
            check_whole(clones)
        except AssertionError as error:
            error.add_note(f"killed at {points[point - 1]}")
            raise


@pytest.mark.soak
def test_steps_beside_others_are_taken_over_and_back(clones: Clones) -> None:
    """Both clones execute the same fork: each has commits under names that the other uses too."""
    here, there = clones.here, clones.there
    with_flow(here, WRITERS)
    dying = ONCE.format(door=clones.door) + "; sleep 0.5; " + DIE.partition("; ")[2]
    steps = {name: {"write": {f"{name}.txt": name}} for name in ("begin", "left", "both", "close")}
    script = here.script(
        unseen(json.dumps({"steps": {**steps, "right": {"run": [dying], "write": {"right.txt": "r"}}}}))
    )
    here.swarm_process("start", "fan", "--hub", "--script", script, code=-signal.SIGKILL)
    run = clones.run
    there.swarm("resume", "--hub")

    here.swarm("pull", run)
    assert here.json("log", run) == there.json("log", run)
    here.swarm("rollback", "begin", "--run", run)
    here.swarm("resume", run, "--hub")
    there.swarm("pull", run)

    log = there.json("log", run)
    assert log == here.json("log", run)
    steps_done = [f"{entry['step']}@{entry['iteration']}" for entry in log]
    assert steps_done == ["begin@1", "left@2", "right@2", "both@1", "close@1"]
    for clone in (here, there):
        assert "verified, no changes found" in clone.swarm("verify", run).stdout
