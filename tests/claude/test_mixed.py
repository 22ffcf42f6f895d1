"""One run by three engines: Claude writes, one of others looks, the project's command judges; each is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml

from tests.claude.runs import asked, reaching
from tests.conftest import Project
from tests.engines.errand import with_errand
from tests.loopback.api import ApiRequest, Reply, say, use
from tests.loopback.server import Loopback
from tests.projects import ask
from tests.routed import MAKER, command, fires_after, flow, quest, step
from tests.waiting import wait_until

SAID = {"status": "VERIFIED", "summary": "looked at it"}
READER = {
    "id": "reader",
    "title": "Reader",
    "category": "critic",
    "identity": f"You read.\nerrand: {json.dumps({'hand_over': SAID})}\n",
    "invariants": ["Be fair."],
}


@dataclass
class Author:
    """Writes a file; in its first session it then says nothing for a long time."""

    is_released: threading.Event = field(default_factory=threading.Event)
    has_written: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: ApiRequest) -> Reply:
        if request.wants_result:
            return use("StructuredOutput", status="VERIFIED", summary="wrote a.txt")
        if request.turn == 0:
            return use("Write", file_path="a.txt", content="one\n")
        self.has_written.set()
        return say("done") if self.is_released.is_set() else Reply(hang_s=300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with with_errand(tmp_path_factory.mktemp("installed")) as folder:
        yield folder


def team(project: Project, installed: Path, line: str) -> None:
    """By flow, step and sidequest: Claude has what nobody else has."""
    engines = {
        "default": "claude",
        "claude": {"mode": "cli"},
        "errand": {"mode": "cli", "cli": str(installed / "bin" / "errand")},
        "flows": {"close": "errand"},
        "steps": {"mix/critic": "errand", "sq-glance-see": "errand-step"},
    }
    glance = quest("glance", fires_after("author", "VERIFIED"), steps=[{"id": "see", "station": "reader"}])
    files = {
        ".swarm/config.yaml": {"engines": engines},
        ".swarm/flows/stations/reader.yaml": READER,
        ".swarm/sidequests/glance.yaml": {**glance, "max_uses_per_run": 1},
        ".swarm/flows/mix.yaml": flow(
            "mix", step("author", "maker"), step("critic", "reader"), command("test", line)
        ),
        ".swarm/flows/close.yaml": flow("close", step("sum-up", "reader")),
    }
    project.commit({**MAKER, **{name: yaml.safe_dump(said) for name, said in files.items()}}, "three engines")


def is_running(word: str) -> bool:
    """A program of ours whose command line has this word."""
    return any(word in each.info["cmdline"] for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"])


def begin(project: Project, *words: str) -> subprocess.Popen[bytes]:
    """A process of the product; its output goes nowhere."""
    nowhere = subprocess.DEVNULL
    argv, env = project.argv(*words), dict(project.env)
    return subprocess.Popen(argv, cwd=project.root, env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_mixed_run_killed_in_each_engine(
    project: Project, loopback: Loopback, installed: Path, tmp_path: Path
) -> None:
    author, go = Author(), tmp_path / "go"
    held = tmp_path / "orders"
    held.write_text('errand: {"sleep": 300}\n', encoding="utf-8")
    team(project, installed, f"test -e {go} || exec sleep 30071; grep -q one a.txt")
    path = os.pathsep.join([str(installed), project.env.get("PYTHONPATH", "")]).strip(os.pathsep)
    made = reaching(Project(project.root, {**project.env, "PYTHONPATH": path}), loopback, author)
    slow = Project(made.root, {**made.env, "ERRAND_ORDERS": str(held)})

    process = begin(slow, "start", "mix", "close", "-m", "write a.txt")
    assert author.has_written.wait(60)
    kill(process)
    author.is_released.set()
    process = begin(slow, "resume")
    wait_until(lambda: is_running(str(installed / "bin" / "errand")), "errand works")
    kill(process)
    process = begin(made, "resume")
    wait_until(lambda: is_running("30071"), "the command works")
    kill(process)
    go.touch()
    made.swarm_process("resume")

    steps = [
        (f"{each['flow']}/{each['step']}", each["engine"], each["mode"], each["status"])
        for each in asked(made, "log")
    ]
    assert steps == [
        ("mix/author", "claude-step", "cli", "VERIFIED"),
        ("mix/sq-glance-see", "errand-step", "cli", "VERIFIED"),
        ("mix/critic", "errand-step", "cli", "VERIFIED"),
        ("mix/test", "command", "local", "VERIFIED"),
        ("close/sum-up", "errand-step", "cli", "VERIFIED"),
    ]
    assert ask(made, "verify").code == 0
    assert not is_running(str(installed / "bin" / "errand"))
