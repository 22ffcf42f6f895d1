"""Runs that wait in the middle of a step until a test lets them go on, and commands that follow them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import pytest
import yaml

from tests.conftest import Project
from tests.projects import new_project

GATE = 'cat "$HOME/gate"'
"""A command that waits until the test opens the gate."""


@contextmanager
def running(project: Project, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test; killed at the end if it still does."""
    pipe = subprocess.PIPE
    argv = project.argv(*arguments)
    with subprocess.Popen(
        argv, cwd=project.root, env=dict(project.env), stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def following(project: Project, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return running(project, "transcript", "--follow", *arguments)


def read_until(
    process: subprocess.Popen[str], sign: str, stream: Literal["stdout", "stderr"] = "stdout", times: int = 1
) -> str:
    """What the process says up to the line with this sign, or the n-th of them. JSON may escape quotes in it."""
    said = []
    for line in cast("IO[str]", getattr(process, stream)):
        said.append(line)
        times -= sign in line or json.dumps(sign)[1:-1] in line
        if times == 0:
            return "".join(said)
    pytest.fail(f"it ended without '{sign}': {''.join(said)}")


def open_gate(project: Project, name: str = "gate") -> None:
    """Lets the step pass that waits there, or will."""
    (Path(project.env["HOME"]) / name).write_text("open\n", encoding="utf-8")


def open_nobody_s_gate(project: Project) -> None:
    """Lets the orphaned `cat` of a killed run end."""
    gate = os.open(Path(project.env["HOME"]) / "gate", os.O_RDWR | os.O_NONBLOCK)
    os.write(gate, b"over\n")
    os.close(gate)


def gated(folder: Path, flow: str, steps: Mapping[str, Any], *gates: str) -> Project:
    """A project with a flow, a script of these steps, the pipe that `GATE` reads, and other pipes."""
    project = new_project(folder)
    project.commit({f".swarm/flows/{yaml.safe_load(flow)['id']}.yaml": flow}, "flow")
    for gate in ("gate", *gates):
        os.mkfifo(Path(project.env["HOME"]) / gate)
    project.script(yaml.safe_dump({"steps": dict(steps)}))
    return project


def start(project: Project, flow: str) -> tuple[str, ...]:
    return ("start", flow, "--json", "--script", str(project.root.parent / "script.yaml"))
