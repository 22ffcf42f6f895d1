"""What `fleet submit` gives to a batch system: one job that executes each run of the hub, however often."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from gitswarm.cli.fleet.batch import Batch, job_manifest, slurm_script
from tests.conftest import Project
from tests.fleet.fleets import FLOW, STEPS, FleetProject
from tests.projects import ask
from tests.tables import table

BATCH = Batch("git-swarm-x", ("run-a", "run-b", "run-c"), 2, "ssh://h/it's here.git")


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def fleet(project: Project) -> FleetProject:
    project.commit({".swarm/flows/trip.yaml": FLOW}, "the flow")
    project.git("init", "-q", "--bare", "../hub.git")
    project.git("config", "swarm.hub", "../hub.git")
    return FleetProject(project, project.root.parent)


def test_a_file_submitted_twice_is_one_run_each_and_the_script_executes_its_own(fleet: FleetProject) -> None:
    words = ("fleet", "submit", "--on", "slurm", "--issues", fleet.issues("tidy up", "mend"), "--flow", "trip")
    script, again = (fleet.project.swarm(*words, "--print").stdout for _time in range(2))
    assert script == again
    first, second = sorted(fleet.steps_on_hub())
    node = {"SLURM_ARRAY_TASK_ID": "1", "SLURMD_NODENAME": "n7"}
    done = subprocess.run(
        ["sh"], input=script, env={**fleet.project.env, **node}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert fleet.steps_on_hub() == {first: [], second: list(STEPS)}
    clones = Path(fleet.project.env["XDG_STATE_HOME"], "git-swarm", "fleet", "n7")
    assert [clone.name.partition("-")[0] for clone in clones.glob("*.git")] == ["hub"]
    left = fleet.project.swarm(*words, "--print")
    assert "#SBATCH --array=0-0%1\n" in left.stdout
    assert "1 of 2 runs ended, or need a person" in left.stderr

    fleet.project.swarm("gc", "--hub", "--archive", "0s")
    assert fleet.steps_on_hub() == {first: []}
    assert fleet.project.swarm(*words, "--print").stdout == left.stdout
    assert fleet.project.json("fleet", "status", *words[4:8])["states"] == {"queued": 1, "rehearsal": 1}


@table(
    ("says", "code", "attempts"),
    [
        ("exit 0", 0, 1),
        ("exit 4", 0, 1),
        ("exit 5", 0, 1),
        ("exit 75", 0, 1),
        ("exit 1", 1, 3),
        ('[ "$(grep -c . said)" = 2 ]', 0, 2),
        ('kill -TERM "$PPID"; exit 143', 143, 1),
    ],
)
def test_the_script_tries_again_what_may_still_end_well(tmp_path: Path, says: str, code: int, attempts: int) -> None:
    """But not when it was told to end: then the run was stopped in good order."""
    said = tmp_path / "said"
    said.unlink(missing_ok=True)
    program(tmp_path / "bin", "git", f'echo "$*" >>said\n{says}')
    program(tmp_path / "bin", "sleep", "")
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "2", "SLURMD_NODENAME": "n1"}
    script = slurm_script(structs.replace(BATCH, folder="/var/w w"), tmp_path)
    done = subprocess.run(["sh"], input=script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, len(said.read_text().splitlines())) == (code, attempts)
    assert said.read_text().splitlines()[0] == "swarm fleet-exec run-c --hub ssh://h/it's here.git --dir /var/w w/n1"


def test_a_manifest_is_an_indexed_job_whose_pods_execute_a_run_each(tmp_path: Path) -> None:
    """As https://kubernetes.io/docs/concepts/workloads/controllers/job has its fields."""
    job = yaml.safe_load(job_manifest(BATCH, "registry/it:1", ["keys"]))
    pod = job["spec"].pop("template")["spec"]
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "git-swarm-x"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 2,
            "backoffLimitPerIndex": 3,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailIndex",
                        "onExitCodes": {"containerName": "git-swarm", "operator": "In", "values": [4, 5, 75]},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
        },
    }
    (container,) = pod.pop("containers")
    assert pod == {"restartPolicy": "Never", "shareProcessNamespace": True}
    command = container.pop("command")
    assert container == {
        "name": "git-swarm",
        "image": "registry/it:1",
        "resources": {"requests": {"cpu": "1"}},
        "envFrom": [{"secretRef": {"name": "keys"}}],
    }
    program(tmp_path / "bin", "git", 'echo "$*"; exit 75')
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "JOB_COMPLETION_INDEX": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "swarm fleet-exec run-b --hub ssh://h/it's here.git --dir /tmp/git-swarm\n"
    assert done.returncode == 75


@pytest.mark.soak
def test_a_manifest_is_one_to_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="make soak-slurm installs it")
    job = yaml.safe_load(job_manifest(BATCH, "registry/it:1", ["keys"]))
    for version in ("1.33", validate.latest_version()):
        validate.validate(job, version, strict=True)
    with pytest.raises(validate.ValidationError):
        validate.validate({**job, "spec": {**job["spec"], "backoffLimitPerIndexes": 3}}, "1.33", strict=True)


IMAGE = "--image is what pods are made of"


@table(
    ("words", "says"),
    [
        ("RUN", ("name the system", "hint: git swarm fleet submit --on slurm|k8s --issues FILE")),
        (
            "--on slurm",
            ("name a file with entries", "hint: git swarm fleet submit --on slurm --issues FILE"),
        ),
        ("--on k8s RUN --print", (IMAGE, "hint: git swarm fleet submit --on k8s --image IMAGE")),
        ("--on slurm RUN --secret keys --print", (IMAGE, "--secret for them")),
        ("--on k8s RUN --image x --print", ("which no pod has: ../hub.git", "--hub ssh://git@HOST/runs.git")),
        ("--on slurm RUN --print --hub https://me:word@host/x", ("has a password",)),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_the_command_to_type(
    fleet: FleetProject, words: str, says: tuple[str, ...]
) -> None:
    refused = ask(fleet.project, "fleet", "submit", *words.split())
    assert refused.code == 2
    told = " ".join(refused.stderr.split())
    assert [each for each in says if each not in told] == []
    assert "word@" not in told


@table(
    ("words", "takes"),
    [("--on slurm", "sbatch --parsable < job"), ("--on k8s --image x", "kubectl apply -f - < job")],
)
def test_without_the_program_that_takes_a_job_it_can_be_printed(project: Project, words: str, takes: str) -> None:
    bare = replace(project, env={**project.env, "PATH": str(project.root)})
    refused = ask(bare, "fleet", "submit", "RUN", *words.split())
    assert refused.code == 1
    assert f"there is no {takes.partition(' ')[0]} on PATH" in refused.stderr
    assert f"--print > job (where it is: {takes})" in " ".join(refused.stderr.split())


def test_a_job_is_given_on_stdin_and_what_to_type_next_is_said(fleet: FleetProject) -> None:
    folder = fleet.door / "bin"
    project = replace(fleet.project, env={**fleet.project.env, "PATH": f"{folder}:{fleet.project.env['PATH']}"})
    program(folder, "sbatch", f'cat >"{fleet.door}/$1"; echo "17;cluster"')
    words = ("--flow", "trip", "--issues", fleet.issues("tidy up"))
    said = project.swarm("fleet", "submit", "--on", "slurm", *words).stdout
    assert "squeue --job 17\n" in said
    assert "git swarm fleet status\n" in said
    script = (fleet.door / "--parsable").read_text()
    assert script == project.swarm("fleet", "submit", "--on", "slurm", *words, "--print").stdout

    k8s = ("fleet", "submit", "--on", "k8s", "--image", "x", "--hub", "ssh://h/x", *words)
    program(folder, "kubectl", f'cat >"{fleet.door}/$*"; echo "job.batch/it created"')
    assert project.swarm(*k8s).stdout.startswith("job it created: 1 run, 1 at a time\n")
    name = yaml.safe_load((fleet.door / "apply -f -").read_text())["metadata"]["name"]
    program(folder, "kubectl", 'echo "spec.template: field is immutable" >&2; exit 1')
    refused = ask(project, *k8s)
    assert refused.code == 1
    assert "kubectl did not take the job: spec.template: field is immutable" in refused.stderr
    assert f"hint: kubectl delete job {name} " in refused.stderr
