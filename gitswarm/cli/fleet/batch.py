"""`fleet submit`: runs of the hub as one job of Slurm or Kubernetes, which starts `fleet-exec` for each."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import err, out, out_lines, out_verbatim, plural
from gitswarm.cli.fleet.dispatching import bring_to_hub
from gitswarm.cli.fleet.fleet_run import (
    AllowStubFlag,
    AutopilotFlag,
    BaseOption,
    EconomyFlag,
    EngineOption,
    ModelOption,
    ModeOption,
    RoutingOption,
    RunsArgument,
    ScriptOption,
    fleet_hub,
    fleet_jobs,
    planned_entries,
    refuse_both,
    usual_options,
)
from gitswarm.cli.fleet.fleet_status import FlowOption, IssuesOption
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.run_execution import EXIT_CODES, log_of
from gitswarm.errors import FencedError, SwarmError, UsageError
from gitswarm.git.remote import Remote
from gitswarm.records.execution import RunStatus
from gitswarm.runner.hub.queue import MOST_ATTEMPTS
from gitswarm.runner.run_processes import refuse_agent

_AGAIN = "git swarm fleet submit --on"
_OVER = (EXIT_CODES[RunStatus.FAILED], EXIT_CODES[RunStatus.PAUSED], FencedError.exit_code)
"""Exit codes behind which nothing is tried again: failed, waits for a person, somebody else has it."""


class BatchSystem(StrEnum):
    SLURM = "slurm"
    K8S = "k8s"

    @property
    def takes(self) -> list[str]:
        """The command that takes a job on stdin."""
        return ["sbatch", "--parsable"] if self is BatchSystem.SLURM else ["kubectl", "apply", "-f", "-"]


class Batch(Struct, frozen=True):
    """`slots`: runs at the same time. `hub`: as the machines reach it that execute. `folder`: where they have their
    clones; None: the usual place."""

    name: str
    runs: tuple[str, ...]
    slots: int
    hub: str
    folder: str | None = None

    def command(self, folder: str) -> str:
        """The command line of one run, for a shell whose first argument is the run, and which reads `folder`."""
        return f'git swarm fleet-exec "$1" --hub {shlex.quote(self.hub)} --dir {folder}'


def refuse_unready(on: BatchSystem, image: str | None, secrets: Sequence[str] | None, *, is_given: bool) -> None:
    """
    :raises SwarmError: the job could not be made, or not be given to that system.
    """
    if (image is None) == (on is BatchSystem.K8S) or (secrets and image is None):
        hint = f"{_AGAIN} k8s --image IMAGE   (one that has git, git-swarm and the engines)"
        raise UsageError("--image is what pods are made of, and --secret for them", hint=hint)
    if is_given and shutil.which(on.takes[0]) is None:
        hint = f"{_AGAIN} {on} … --print > job   (where it is: {' '.join(on.takes)} < job)"
        raise SwarmError(f"there is no {on.takes[0]} on PATH", hint=hint)


def hub_for(on: BatchSystem, remote: Remote, said: str | None) -> str:
    """The hub's URL for those that execute.

    :param said: another one than ours.
    :raises UsageError: they cannot reach it, or it has a password that the job would show.
    """
    url = said or remote.url
    again = f"{_AGAIN} {on} --hub ssh://git@HOST/runs.git"
    is_path = ":" not in url.partition("/")[0]  # else it is HOST:path, or has a scheme
    if on is BatchSystem.K8S and (is_path or url.startswith("file:")):
        raise UsageError(f"the hub is a folder of this machine, which no pod has: {url}", hint=again)
    if urlsplit(url).password:
        what = "the hub's URL has a password, which everybody could read in the job"
        raise UsageError(what, hint=f"{again}   (credentials: git help credentials)")
    here = Path() if said else remote.users.folder
    return str((here / url).resolve()) if is_path else url


def job_name(hub: str, issues: str | None, runs: Sequence[str]) -> str:
    """The same for a file, whatever of it is left. Kubernetes takes small letters and digits."""
    stem = Path(issues).stem if issues else "runs"
    words = re.sub("[^a-z0-9]+", "-", stem.lower())[:30].strip("-")
    digest = hashlib.sha256("\n".join([hub, stem, *sorted(runs)]).encode()).hexdigest()[:8]
    return "-".join(filter(None, ("git-swarm", words, digest)))


def give(on: BatchSystem, job: str, name: str) -> tuple[str, str]:
    """What the system calls the job, and the command that shows it.

    :raises SwarmError: it does not take it.
    """
    done = subprocess.run(on.takes, input=job, capture_output=True, text=True, check=False)
    said = done.stdout.strip().removeprefix("job.batch/")
    if done.returncode == 0:
        return said, f"kubectl get job {name}" if on is BatchSystem.K8S else f"squeue --job {said.partition(';')[0]}"
    hint = f"{_AGAIN} {on} … --print   (shows the job; the runs are on the hub)"
    if "immutable" in done.stderr:  # a Job of before, with other runs of the same file
        hint = f"kubectl delete job {name}   (stops what it executes, in good order; then again)"
    raise SwarmError(f"{on.takes[0]} did not take the job: {done.stderr.strip() or said}", hint=hint)


def slurm_script(batch: Batch, logs: Path) -> str:
    """An array of which each task executes a run, requeued when its node is lost.

    Jobs of the same name wait for each other: two with the same run would take it from each other. Each node has a
    folder of its own, as the disk may be shared.
    """
    usual = '"${XDG_STATE_HOME:-$HOME/.local/state}/git-swarm/fleet/$SLURMD_NODENAME"'
    folder = f'{shlex.quote(batch.folder)}/"$SLURMD_NODENAME"' if batch.folder else usual
    output = shlex.quote(f"{logs}/".replace("%", "%%") + "slurm-%A_%a.log")
    runs = "".join(f" \\\n    {run}" for run in batch.runs)
    attempts, over = " ".join(map(str, range(1, MOST_ATTEMPTS + 1))), " | ".join(map(str, _OVER))
    return f"""#!/bin/sh
#SBATCH --job-name={batch.name}
#SBATCH --dependency=singleton
#SBATCH --array=0-{len(batch.runs) - 1}%{batch.slots}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={output}
set --{runs}
shift "${{SLURM_ARRAY_TASK_ID:?}}"
stopped=
trap 'stopped=1' TERM    # this shell has to be there until git-swarm has stopped the run in good order
for attempt in {attempts}; do
    {batch.command(folder)}
    code=$?
    case $code in 0 | {over}) exit 0 ;; esac    # ended, failed, waits for a person, fenced
    [ -z "$stopped" ] || break
    echo "exit code $code at attempt $attempt" >&2
    sleep 5
done
exit "$code"
"""


def job_manifest(batch: Batch, image: str, secrets: Sequence[str]) -> str:
    """An indexed Job of which each index executes a run. A pod whose node is lost or drained counts as no failure."""
    folder = shlex.quote(batch.folder or "/tmp/git-swarm")  # noqa: S108 - in a pod nobody else is
    line = f'shift "$JOB_COMPLETION_INDEX"; exec {batch.command(folder)}'
    command = ["sh", "-c", line, "git-swarm", *batch.runs]
    container: dict[str, object] = {"name": "git-swarm", "image": image, "command": command}
    container |= {"resources": {"requests": {"cpu": "1"}}, "envFrom": [{"secretRef": {"name": k}} for k in secrets]}
    # With a process of the pod's as the first one, git gets signals, and somebody waits for what agents leave behind.
    pod = {"restartPolicy": "Never", "shareProcessNamespace": True, "containers": [container]}
    codes = {"containerName": "git-swarm", "operator": "In", "values": [*_OVER]}
    lost = [{"type": "DisruptionTarget", "status": "True"}]
    rules = [{"action": "FailIndex", "onExitCodes": codes}, {"action": "Ignore", "onPodConditions": lost}]
    spec: dict[str, object] = {
        "completionMode": "Indexed",
        "completions": len(batch.runs),
        "parallelism": batch.slots,
    }
    spec |= {"backoffLimitPerIndex": MOST_ATTEMPTS, "podFailurePolicy": {"rules": rules}, "template": {"spec": pod}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": batch.name}, "spec": spec}
    return yaml.safe_dump(job, sort_keys=False, width=sys.maxsize)


def submit(
    runs: RunsArgument = None,
    on: Annotated[BatchSystem | None, Option(help="Where to: slurm, or k8s (Kubernetes).")] = None,
    issues: IssuesOption = None,
    flow: FlowOption = None,
    hub: Annotated[str | None, Option(metavar="URL", help="The hub, as it is reached from there.")] = None,
    slots: Annotated[int, Option("--slots", metavar="N", min=1, help="Runs at the same time.")] = 4,
    folder: Annotated[str | None, Option("--dir", metavar="DIR", help="Where clones of the hub are there.")] = None,
    image: Annotated[str | None, Option(metavar="IMAGE", help="k8s: has git, git-swarm and the engines.")] = None,
    secret: Annotated[list[str] | None, Option(metavar="NAME", help="k8s: becomes environment variables.")] = None,
    print_only: Annotated[bool, Option("--print", help="Print the script or manifest; nobody gets it.")] = False,
    base: BaseOption = None,
    engine: EngineOption = None,
    mode: ModeOption = None,
    model: ModelOption = None,
    economy: EconomyFlag = False,
    script: ScriptOption = None,
    allow_stub: AllowStubFlag = False,
    routing: RoutingOption = None,
    autopilot: AutopilotFlag = False,
) -> None:
    """Give a run for every entry of a file, or runs of the hub, to Slurm or Kubernetes."""
    again = f"git swarm fleet submit --on {on or 'slurm|k8s'}"
    if on is None:
        raise UsageError("name the system that is to execute them", hint=f"{again} --issues FILE")
    refuse_both(runs, issues, again)
    refuse_unready(on, image, secret, is_given=not print_only)
    options = (base, engine, mode, model, economy, script, allow_stub, routing, autopilot)
    usual = usual_options(runs, flow, options, again)
    repository = repository_here()
    refuse_agent(os.environ, "fleet submit", repository.common_dir)
    entries = planned_entries(repository, issues, usual)
    remote = fleet_hub(repository, here=False)
    url, notices = hub_for(on, remote, hub), dict[str, None]()
    queued, jobs = fleet_jobs(repository, remote, entries, runs)
    left = [job for job in jobs if not job.ended]
    for job in left:
        bring_to_hub(repository, remote, job, queued, notices.setdefault)
    ids = tuple(job.run_id for job in left if job.run_id is not None)
    for line in notices:
        err(line)
    if len(ids) < len(jobs):
        err(f"{len(jobs) - len(ids)} of {plural(len(jobs), 'run')} ended, or need a person: git swarm fleet status")
    if not ids:
        return
    name = job_name(url, issues, runs or ())
    whole = Batch(name, ids, min(slots, len(ids)), url, folder)
    logs = log_of(repository, ids[0]).parent
    text = job_manifest(whole, image, secret or ()) if image else slurm_script(whole, logs)
    if print_only:
        out_verbatim(text.rstrip())
        return
    given, shown = give(on, text, name)
    out(f"job {given}: {plural(len(ids), 'run')}, {whole.slots} at a time")
    out_lines([f"next       {shown}", "           git swarm fleet status"])
