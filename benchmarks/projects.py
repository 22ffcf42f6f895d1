"""Repositories to measure on, cut off from the machine's own git configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FILES_PER_FOLDER = 50
FLOW = "bench"
STATION = """\
id: measured
title: Promises nothing, so that nothing is repeated
category: implementation
identity: You change files.
invariants: [The change is small.]
"""


def environment(home: Path) -> dict[str, str]:
    """What every measured process is given."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[user]\nname = Bench\nemail = bench@example.org\n", encoding="utf-8")
    return {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository with its checkout, and git in it."""

    root: Path
    env: Mapping[str, str] = field(repr=False)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=dict(self.env), check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()


def make_checkout(root: Path, env: Mapping[str, str], files: int, *, max_iterations: int) -> Checkout:
    """`files` small files in folders of 50, and a flow of two steps that loops `max_iterations` times."""
    root.mkdir(parents=True)
    checkout = Checkout(root, env)
    checkout.git("init", "-q", "-b", "main")
    for number in range(files):
        path = root / source_name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 8, encoding="utf-8")
    flows = root / ".swarm" / "flows"
    (flows / "stations").mkdir(parents=True)
    (flows / f"{FLOW}.yaml").write_text(_flow(max_iterations), encoding="utf-8")
    (flows / "stations" / "measured.yaml").write_text(STATION, encoding="utf-8")
    checkout.git("add", "-A")
    checkout.git("commit", "-q", "-m", "first")
    return checkout


def source_name(number: int) -> str:
    folder = number // FILES_PER_FOLDER
    return f"src/part{folder // FILES_PER_FOLDER}/folder{folder % FILES_PER_FOLDER}/file{number}.py"


def _flow(max_iterations: int) -> str:
    return f"""\
id: {FLOW}
title: Two steps that loop
steps:
  - {{id: write, station: measured}}
  - id: critique
    station: measured
    routing: {{kind: microloop, loop_target: write, max_iterations: {max_iterations}}}
"""
