"""Which containment works on this machine: found by starting it with the flags that are used later."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitswarm.containment import Containment, Uncontained
from gitswarm.safety.sandbox.bubblewrap import NAMESPACES, Bubblewrap
from gitswarm.safety.sandbox.machine import look_around
from gitswarm.safety.sandbox.seatbelt import Seatbelt

_TRIAL_S = 10.0
INSTALL = "install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """`wall`: what agents are confined by, before it is told what they may see; None: nothing, and why in `reason`.
    Both are empty where nobody asked for one."""

    wall: Bubblewrap | Seatbelt | None = None
    reason: str = ""

    @property
    def containment(self) -> Containment:
        return self.wall or Uncontained("none" if self.reason else "")

    @property
    def line(self) -> str:
        """For people; empty: there is nothing to say."""
        if self.wall is not None:
            return f"sandbox: {self.wall.name}"
        return f"no sandbox: {self.reason}" if self.reason else ""


def find_sandbox(env: Mapping[str, str], home: Path | None) -> Sandbox:
    """
    :param env: of the programs that will be confined.
    """
    if sys.platform == "darwin":
        return _tried_seatbelt(env, home)
    if sys.platform != "linux":
        return Sandbox(reason=f"git-swarm knows none for {sys.platform}")
    program = shutil.which("bwrap", path=env.get("PATH"))
    if program is None:
        return Sandbox(reason=f"there is no bwrap on PATH; {INSTALL}")
    machine = look_around(env, home)
    prlimit = shutil.which("prlimit", path="/usr/bin:/bin")
    problem = ""
    for flags in NAMESPACES:
        wall = Bubblewrap(program, flags, machine, prlimit)
        problem = _problem(wall, env)
        if not problem:
            return Sandbox(wall)
    return Sandbox(reason=f"bwrap does not work here ({problem}); docs/sandbox.md says what it needs")


def _tried_seatbelt(env: Mapping[str, str], home: Path | None) -> Sandbox:
    wall = Seatbelt(home)
    problem = _problem(wall, env)
    return Sandbox(reason=f"sandbox-exec does not work here ({problem})") if problem else Sandbox(wall)


def _problem(wall: Bubblewrap | Seatbelt, env: Mapping[str, str]) -> str:
    """Why nothing can be started; empty: it can."""
    try:
        done = subprocess.run(
            wall.wrap(["/bin/sh", "-c", ":"]),
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"exit code {done.returncode}")
