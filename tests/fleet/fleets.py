"""A project whose runs note that they are executed, and the processes of a fleet."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.conftest import Project, environment
from tests.unseen import unseen
from tests.waiting import DEADLINE_S, wait_until

STEPS = ("one", "two")
FLOW = "id: trip\nsteps:\n" + "".join(f"  - {{id: {step}, station: code-implementer}}\n" for step in STEPS)


@dataclass(frozen=True)
class FleetProject:
    """`door`: what steps leave for the test."""

    project: Project
    door: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def hub(self) -> Path:
        """The configured one, else that of the fleet."""
        made = self.project.root / ".git" / "swarm" / "hub.git"
        return made if made.exists() else self.project.root.parent / "hub.git"

    def issues(self, *lines: str) -> str:
        file = self.door / "issues.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(file)

    def script(self, *lines: str, cost: float = 0.0) -> str:
        """Each step notes how many are executed at the same time; `lines`: shell lines of the second one."""
        counted = f"touch '{self.door}'/now.$$; ls '{self.door}'/now.* | wc -l >> '{self.door}/counts'; sleep 0.7;"
        usual = f"{counted} rm '{self.door}'/now.$$"
        second = [usual, *(line.format(door=self.door) for line in lines)]
        steps = {"one": {"run": [usual], "cost_usd": cost}, "two": {"run": second, "cost_usd": cost}}
        return self.project.script(unseen(json.dumps({"steps": steps})))

    def begin(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """A process of git-swarm in a session of its own, as on another machine."""
        process = subprocess.Popen(
            self.project.argv(*words),
            cwd=self.project.root,
            env={**self.project.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def steps_on_hub(self) -> dict[str, list[str]]:
        """By run: the steps that the hub has, oldest first."""
        form = "%(trailers:key=Swarm-Step,valueonly,separator=)"
        names = self.project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/shadow/", cwd=self.hub)
        base = self.project.git("rev-parse", "main")
        return {
            name: self.project.git("log", "--reverse", f"--format={form}", name, f"^{base}", cwd=self.hub).split()
            for name in names.split()
        }


@contextlib.contextmanager
def fleet_project(folder: Path) -> Iterator[FleetProject]:
    door = folder / "door"
    door.mkdir(parents=True)
    project = Project(folder / "repo", environment(folder / "home"))
    project.root.mkdir(parents=True)
    project.git("init", "-q", "-b", "main")
    project.commit({"README.md": "# trip\n", ".swarm/flows/trip.yaml": FLOW}, "first")
    made = FleetProject(project, door)
    try:
        yield made
    finally:
        for process in made.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE_S)


def listening(pid: int) -> set[str]:
    """Addresses on which a process and those below it listen."""
    found = [psutil.Process(pid)]
    found += found[0].children(recursive=True)
    listens = set[str]()
    for one in found:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            listens |= {each.laddr.ip for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN}
    return listens


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def joined(
    fleet: FleetProject, workers: Sequence[str], slots: int = 2, ttl: str = "60s", tls: Sequence[str] = ()
) -> tuple[str, list[int]]:
    """A scheduler and workers, each with a folder of its own; its address, and their process groups.

    :param tls: options of all that speak with it.
    """
    port = free_port()
    scheduler = fleet.begin("fleet", "serve", "--port", str(port), *tls, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=ttl)
    url = f"{'tls' if tls else 'tcp'}://127.0.0.1:{port}"
    options = ("--slots", str(slots), *tls)
    begun = [fleet.begin("fleet", "work", url, *options, "--dir", str(fleet.door / name)) for name in workers]
    wait_until(lambda: listening(scheduler.pid), "the scheduler listens")
    return url, [scheduler.pid, *(each.pid for each in begun)]


def runs_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"run-\d{8}-\d{6}-[0-9a-f]{6}", text)))


def send(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def processes_of(folder: Path) -> list[int]:
    """Whatever works for the worker of this folder: the name is on the command line, or they are in it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
            around = str((entry / "cwd").readlink()) if line else ""
        except OSError:
            continue
        if bytes(folder) in line or around.startswith(str(folder)):
            found.append(int(entry.name))
    return found
