"""The script of `fleet submit` on a real Slurm, whose node dies: every run is whole on the hub, each step once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.fleets import STEPS, FleetProject, fleet_project
from tests.fleet.slurm import NODES, UNPACKED, SlurmCluster, slurm_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (UNPACKED / "bin").exists(), reason="no Slurm: make soak-slurm fetches it from Debian"),
]

RUNS = 8
SLEEPING = "touch '{door}/second'; sleep 1.5"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetProject]:
    with fleet_project(tmp_path) as made:
        made.project.git("init", "-q", "--bare", "../hub.git")
        made.project.git("config", "swarm.hub", str(made.hub))
        yield made


@pytest.fixture
def slurm(fleet: FleetProject) -> Iterator[SlurmCluster]:
    with slurm_cluster(fleet.project.env) as made:
        yield made


def submitted(fleet: FleetProject, slurm: SlurmCluster, *words: str) -> str:
    tasks = fleet.issues(*(f"task {number}" for number in range(RUNS)))
    place = ("--dir", str(fleet.door), "--flow", "trip", "--script", fleet.script(SLEEPING))
    project = replace(fleet.project, env=slurm.env)
    return project.swarm("fleet", "submit", "--on", "slurm", "--issues", tasks, *place, *words).stdout


def check_whole(fleet: FleetProject) -> None:
    logs = "".join(log.read_text() for log in (fleet.project.root / ".git" / "swarm" / "logs").glob("slurm*"))
    assert list(fleet.steps_on_hub().values()) == [list(STEPS)] * RUNS, logs
    assert fleet.project.git("fsck", "--full", "--strict", "--no-dangling", cwd=fleet.hub) == ""
    assert fleet.project.json("fleet", "status")["states"] == {"rehearsal": RUNS}


def executed(fleet: FleetProject) -> int:
    return len((fleet.door / "counts").read_text().split())


def test_submitted_twice_every_step_is_executed_once(fleet: FleetProject, slurm: SlurmCluster) -> None:
    first, second = (submitted(fleet, slurm, "--slots", "3") for _time in range(2))
    assert first.startswith("job 1: 8 runs, 3 at a time\n")
    assert "squeue --job 1\n" in first
    assert "squeue --job 2\n" in second
    slurm.wait_until_empty()
    check_whole(fleet)
    assert executed(fleet) == RUNS * len(STEPS)


def test_a_node_dies_in_the_middle_of_a_step(fleet: FleetProject, slurm: SlurmCluster) -> None:
    submitted(fleet, slurm)
    lost = fleet.door / NODES[1]
    wait_until(lambda: list(lost.glob("*.swarm/run-*")) and (fleet.door / "second").exists(), "both work")
    slurm.lose(NODES[1])
    slurm.wait_until_empty()
    check_whole(fleet)
    generations = [run["generation"] for run in fleet.project.json("fleet", "status")["runs"]]
    assert max(generations) > min(generations) >= 2


def test_what_was_cancelled_is_finished_by_the_same_line(fleet: FleetProject, slurm: SlurmCluster) -> None:
    submitted(fleet, slurm)
    wait_until((fleet.door / "second").exists, "a second step is executed")
    slurm.asked("scancel", "1")
    slurm.wait_until_empty()
    states = fleet.project.json("fleet", "status")["states"]
    assert set(states) <= {"stopped", "queued", "rehearsal"}
    assert "stopped" in states
    submitted(fleet, slurm)
    slurm.wait_until_empty()
    check_whole(fleet)
