"""A Slurm of two nodes on this machine, out of packages that were only unpacked (tests/fetch_slurm.sh)."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.fleet.fleets import free_port
from tests.waiting import DEADLINE_S, wait_until

UNPACKED = Path(sys.prefix, "slurm").resolve()
NODES = ("n1", "n2")
_LOOK_S = 0.5
"""Each look is a process."""

# A job of a node that is lost may not begin again before credentials of its old one have expired.
_CONFIGURATION = """\
ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdTimeout=10
ReturnToService=2
JobRequeue=0
KillWait=20
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class SlurmCluster:
    """`env`: what its commands need, over that of a user."""

    env: dict[str, str]
    daemons: dict[str, subprocess.Popen[bytes]]

    def asked(self, *words: str) -> str:
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=True).stdout

    def wait_until_empty(self) -> None:
        wait_until(lambda: not self.jobs(), "no job is left", seconds=10 * DEADLINE_S)

    def jobs(self) -> list[str]:
        time.sleep(_LOOK_S)
        return self.asked("squeue", "--noheader", "--format=%i %T %r %N").splitlines()

    def lose(self, node: str) -> None:
        """Kills whatever is on a node: the daemon, what watches jobs, and the jobs."""
        self.daemons[node].kill()
        for process in _processes_on(node, self.env["SLURM_CONF"]):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _processes_on(node: str, configuration: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            env = process.environ()
            if (env.get("SLURMD_NODENAME"), env.get("SLURM_CONF")) != (node, configuration):
                continue
            watcher = process.parent()
            found += [watcher] if watcher is not None and watcher.name().startswith("slurmstepd") else []
            found.append(process)
    return found


@contextlib.contextmanager
def slurm_cluster(env: Mapping[str, str]) -> Iterator[SlurmCluster]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a socket's path may have no more than 107 bytes
    configuration = folder / "slurm.conf"
    host, names = socket.gethostname().partition(".")[0], {"plugins": UNPACKED / "plugins", "folder": folder}
    whole = _CONFIGURATION.format(host=host, port=free_port(), user=getpass.getuser(), **names)
    there = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2"
    nodes = "".join(f"NodeName={node} {there} Port={free_port()}\n" for node in NODES)
    configuration.write_text(f"{whole}{nodes}", encoding="utf-8")
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = {name: folder / f"munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")}
    files["key-file"] = key
    stepd = UNPACKED / "unpacked" / "usr" / "sbin" / "slurmstepd-wlm"
    # Forced: nobody else has to reach the socket, whose folder is the test's alone.
    commands = {
        "munged": ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items())],
        "slurmctld": ["slurmctld", "-D", "-f", str(configuration)],
        **{node: ["slurmd", "-D", "-N", node, "-f", str(configuration), "-d", str(stepd)] for node in NODES},
    }
    path = f"{UNPACKED / 'bin'}{os.pathsep}{env['PATH']}"
    made = SlurmCluster({**env, "PATH": path, "SLURM_CONF": str(configuration)}, {})
    try:
        for name, line in commands.items():
            with (folder / f"{name}.out").open("wb") as output:
                daemon = subprocess.Popen(line, env=made.env, cwd=folder, stdout=output, stderr=output)
            made.daemons[name] = daemon
            if name == "munged":
                wait_until((folder / "munge.socket").exists, "munged listens")
        wait_until(lambda: _idle(made) == len(NODES), "all nodes are there")
        yield made
    finally:
        for node in NODES:
            if node in made.daemons:
                made.lose(node)
        for daemon in made.daemons.values():
            daemon.kill()
            daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _idle(cluster: SlurmCluster) -> int:
    time.sleep(_LOOK_S)
    asked = ("sinfo", "--noheader", "--format=%D", "--states=idle")
    try:
        return int(cluster.asked(*asked).strip() or 0)
    except subprocess.CalledProcessError:
        return 0
