"""Machines of a fleet die, freeze and wake up: every run is whole on the hub, and has each step once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitswarm.cli.fleet import worker
from tests.fleet.fleets import STEPS, FleetProject, fleet_project, joined, listening, processes_of, send
from tests.waiting import DEADLINE_S, ends_within, wait_until

soak = pytest.mark.soak
EIGHT_OR_FIFTY = pytest.mark.parametrize("runs", [8, pytest.param(50, marks=soak)])


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetProject]:
    with fleet_project(tmp_path) as made:
        yield made


def with_hub(fleet: FleetProject) -> None:
    fleet.project.git("init", "-q", "--bare", "../hub.git")
    fleet.project.git("config", "swarm.hub", str(fleet.hub))


def check_whole(fleet: FleetProject, count: int) -> None:
    assert list(fleet.steps_on_hub().values()) == [list(STEPS)] * count
    assert fleet.project.git("fsck", "--full", "--strict", "--no-dangling", cwd=fleet.hub) == ""
    assert fleet.project.json("fleet", "status")["states"] == {"rehearsal": count}


def tasks(fleet: FleetProject, count: int) -> str:
    return fleet.issues(*(f"task {number}" for number in range(count)))


@soak
@pytest.mark.parametrize("runs", [16, 50])
def test_many_runs_never_take_more_slots_than_there_are(fleet: FleetProject, runs: int) -> None:
    issues, script = tasks(fleet, runs), fleet.script()
    words = ("--issues", issues, "--flow", "trip", "--workers", "3", "--script", script)
    done = fleet.begin("fleet", "run", *words)
    said = done.communicate(timeout=10 * DEADLINE_S)[0]
    assert done.returncode == 0, said
    check_whole(fleet, runs)
    assert max(int(line) for line in (fleet.door / "counts").read_text().split()) == 3


SLEEPING = "touch '{door}/second'; sleep 1.5"


@EIGHT_OR_FIFTY
def test_of_three_machines_one_dies_and_one_freezes_and_wakes_up(fleet: FleetProject, runs: int) -> None:
    with_hub(fleet)
    url, (_scheduler, _one, _two, three) = joined(fleet, ["one", "two", "three"], slots=2, ttl="4s")
    words = ("--issues", tasks(fleet, runs), "--flow", "trip", "--scheduler", url)
    run = fleet.begin("fleet", "run", *words, "--script", fleet.script(SLEEPING))
    dying, freezing = fleet.door / "two", fleet.door / "three"
    wait_until(lambda: all(list(each.glob("*.swarm/run-*")) for each in (dying, freezing)), "all work")
    wait_until((fleet.door / "second").exists, "a second step is executed")
    send(processes_of(dying), signal.SIGKILL)
    send(processes_of(freezing), signal.SIGSTOP)
    said = run.communicate(timeout=10 * DEADLINE_S)[0]
    assert run.returncode == 0, said
    send(processes_of(freezing), signal.SIGCONT)
    wait_until(lambda: not [pid for pid in processes_of(freezing) if pid != three], "all have ended")
    told = "".join(file.read_text(encoding="utf-8") for file in (freezing / "logs").iterdir())
    assert "belongs to" in told
    check_whole(fleet, runs)


@EIGHT_OR_FIFTY
def test_a_scheduler_and_a_worker_are_killed_and_the_same_line_finishes(fleet: FleetProject, runs: int) -> None:
    """Of the worker the process alone: what it has started is told to end."""
    with_hub(fleet)
    url, (scheduler, worker_process) = joined(fleet, ["one"], slots=3)
    options = ("--issues", tasks(fleet, runs), "--flow", "trip", "--script", fleet.script(SLEEPING))
    run = fleet.begin("fleet", "run", *options, "--scheduler", url)
    wait_until((fleet.door / "second").exists, "a second step is executed")
    os.killpg(scheduler, signal.SIGKILL)
    said = run.communicate(timeout=5 * DEADLINE_S)[0]
    assert (run.returncode, "the scheduler is gone" in said) == (1, True)
    os.kill(worker_process, signal.SIGKILL)
    wait_until(lambda: not processes_of(fleet.door / "one"), "nobody works any more")

    url, _groups = joined(fleet, ["two"], slots=3)
    again = fleet.begin("fleet", "run", *options, "--scheduler", url)
    said = again.communicate(timeout=10 * DEADLINE_S)[0]

    assert again.returncode == 0, said
    check_whole(fleet, runs)


@soak
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_machine_that_is_lost_in_the_middle_of_a_step(fleet: FleetProject, sent: signal.Signals) -> None:
    """Killed with all its processes; or frozen until it is given up, and awake again when others have its runs."""
    with_hub(fleet)
    url, (_scheduler, _first, second) = joined(fleet, ["one", "two"], ttl="4s")
    words = ("--issues", tasks(fleet, 6), "--flow", "trip", "--scheduler", url, "--script", fleet.script(SLEEPING))
    run = fleet.begin("fleet", "run", *words)
    folder = fleet.door / "two"
    wait_until(lambda: list(folder.glob("*.swarm/run-*")) and (fleet.door / "second").exists(), "both work")
    send(processes_of(folder), sent)
    said = run.communicate(timeout=5 * DEADLINE_S)[0]
    assert run.returncode == 0, said
    if sent == signal.SIGSTOP:
        logs = folder / "logs"
        send(processes_of(folder), signal.SIGCONT)
        wait_until(lambda: not [pid for pid in processes_of(folder) if pid != second], "all have ended")
        told = "".join(file.read_text(encoding="utf-8") for file in logs.iterdir())
        assert "belongs to" in told
    check_whole(fleet, 6)


@soak
def test_a_scheduler_that_was_killed_is_no_loss(fleet: FleetProject) -> None:
    with_hub(fleet)
    url, (scheduler, *_workers) = joined(fleet, ["one"], slots=3)
    options = ("--issues", tasks(fleet, 6), "--flow", "trip", "--script", fleet.script(SLEEPING))
    run = fleet.begin("fleet", "run", *options, "--scheduler", url)
    wait_until((fleet.door / "second").exists, "a second step is executed")
    os.killpg(scheduler, signal.SIGKILL)
    said = run.communicate(timeout=5 * DEADLINE_S)[0]
    assert run.returncode == 1
    assert "the scheduler is gone" in said
    assert fleet.project.json("fleet", "status")["runs"]

    url, _groups = joined(fleet, ["three"], slots=3)
    again = fleet.begin("fleet", "run", *options, "--scheduler", url)
    said = again.communicate(timeout=5 * DEADLINE_S)[0]

    assert again.returncode == 0, said
    check_whole(fleet, 6)


@soak
@pytest.mark.parametrize("sent", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGKILL]])
def test_a_fleet_that_was_ended_is_finished_by_the_same_line(fleet: FleetProject, sent: list[signal.Signals]) -> None:
    issues, script = tasks(fleet, 4), fleet.script(SLEEPING)
    options = ("--issues", issues, "--flow", "trip", "--workers", "2", "--script", script)
    run = fleet.begin("fleet", "run", *options)
    wait_until((fleet.door / "second").exists, "a second step is executed")
    for number in sent:
        os.kill(run.pid, number)
    said = run.communicate(timeout=DEADLINE_S)[0]
    assert run.returncode == (130 if sent != [signal.SIGKILL] else -signal.SIGKILL), said
    wait_until(lambda: not processes_of(fleet.project.root.parent / "repo.swarm"), "nobody works any more")

    again = fleet.begin("fleet", "run", *options)
    said = again.communicate(timeout=DEADLINE_S)[0]

    assert again.returncode == 0, said
    check_whole(fleet, 4)


@soak
def test_no_run_is_begun_when_the_money_is_spent(fleet: FleetProject) -> None:
    options = ("--issues", tasks(fleet, 3), "--flow", "trip", "--workers", "1", "--script", fleet.script(cost=0.5))
    run = fleet.begin("fleet", "run", *options, "--max-cost", "1.5")
    said = run.communicate(timeout=DEADLINE_S)[0]
    assert run.returncode == 5, said
    assert "no more runs are begun: $2.00 of $1.50 are spent" in said
    assert list(fleet.steps_on_hub().values()) == [list(STEPS)] * 2


@soak
def test_a_run_that_dies_three_times_waits_for_a_person(fleet: FleetProject) -> None:
    script = fleet.script("[ -e '{door}/mended' ] || kill -9 \"$PPID\"")
    options = ("--issues", tasks(fleet, 1), "--flow", "trip", "--workers", "1", "--script", script)
    run = fleet.begin("fleet", "run", *options)
    said = run.communicate(timeout=2 * DEADLINE_S)[0]
    assert run.returncode == 5, said
    assert "given up" in said
    (found,) = fleet.project.json("fleet", "status")["runs"]
    assert (found["state"], found["steps"], found["attempts"]) == ("given up", 1, 3)
    again = fleet.begin("fleet", "run", *options)
    assert "nothing to do" in again.communicate(timeout=DEADLINE_S)[0]
    (fleet.door / "mended").touch()
    fleet.project.swarm("release", found["run_id"])
    last = fleet.begin("fleet", "run", *options)
    assert last.wait(DEADLINE_S) == 0
    check_whole(fleet, 1)


def certificate(fleet: FleetProject) -> tuple[str, ...]:
    """Of an authority that signs itself: the options by which all of a fleet know each other."""
    key, cert = str(fleet.door / "key.pem"), str(fleet.door / "cert.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2", "-subj", "/CN=fleet"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return ("--tls-ca", cert, "--tls-cert", cert, "--tls-key", key)


@soak
@pytest.mark.parametrize("state", ["idle", "works", "works for a frozen scheduler"])
def test_a_worker_under_tls_ends_when_it_is_told_to(fleet: FleetProject, state: str) -> None:
    """With all that works for it; and until then only loopback could be reached."""
    with_hub(fleet)
    tls = certificate(fleet)
    url, (scheduler, worker) = joined(fleet, ["one"], tls=tls)
    wait_until(lambda: (fleet.door / "one" / "dask").exists() and listening(worker), "the worker listens")
    options = ("--issues", tasks(fleet, 2), "--flow", "trip", "--script", fleet.script(SLEEPING))
    run = None
    if state != "idle":
        run = fleet.begin("fleet", "run", *options, "--scheduler", url, *tls)
        wait_until((fleet.door / "second").exists, "a second step is executed")
    assert listening(scheduler) | listening(worker) == {"127.0.0.1"}
    if "frozen" in state:
        os.kill(scheduler, signal.SIGSTOP)

    os.kill(worker, signal.SIGTERM)

    process = next(each for each in fleet.processes if each.pid == worker)
    assert ends_within(process, DEADLINE_S)
    assert process.returncode == 0
    wait_until(lambda: not processes_of(fleet.door / "one"), "nothing is left of it")
    os.kill(scheduler, signal.SIGCONT)
    fleet.begin("fleet", "work", url, *tls, "--dir", str(fleet.door / "two"))
    run = run or fleet.begin("fleet", "run", *options, "--scheduler", url, *tls)
    said = run.communicate(timeout=5 * DEADLINE_S)[0]
    assert run.returncode == 0, said
    check_whole(fleet, 2)


HANGS = """\
import pathlib, threading, time

def dask_setup(worker):
    def look():
        while worker.status.name != "running":
            time.sleep(0.02)
        pathlib.Path({ready!r}).touch()
    threading.Thread(target=look, daemon=True).start()

def dask_teardown(worker):
    time.sleep(1000)
"""


@soak
def test_a_worker_ends_whatever_dask_waits_for(fleet: FleetProject) -> None:
    with_hub(fleet)
    hangs = HANGS.format(ready=str(fleet.door / "ready"))
    preload = repr([worker.__name__, hangs])
    url, _groups = joined(fleet, [])
    process = fleet.begin("fleet", "work", url, DASK_DISTRIBUTED__WORKER__PRELOAD=preload)
    wait_until((fleet.door / "ready").exists, "the worker runs")
    process.terminate()
    assert not ends_within(process, 3)
    assert ends_within(process, worker.ENDS_WITHIN_S + 10)
    assert process.returncode == 1
