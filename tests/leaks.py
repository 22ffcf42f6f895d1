"""Plants secrets in runs, and looks for them in everything that a repository keeps."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import Project
from tests.safety.redact.corpus import SHAPED, Dice, Planted

STATIONS = {
    "maker": "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n",
    "reader": "id: reader\ntitle: Reader\ncategory: critic\nidentity: You read.\ninvariants: [Be fair.]\n",
}
FLOW = """\
id: leak
title: Leak
steps:
  - {id: write, station: maker, teaching: {outputs: [notes.md, data.json, raw.bin, "src/**"]}}
  - {id: check, engine: command, command: {run: 'cat "$HOME/read.txt"; true'}}
  - {id: close, station: maker}
"""


def with_flow(project: Project, flow: str = FLOW, **files: str) -> Project:
    stations = {f".swarm/flows/stations/{key}.yaml": text for key, text in STATIONS.items()}
    project.commit({".swarm/flows/leak.yaml": flow, **stations, **files}, "the flow")
    return project


def token(seed: int = 1, kind: str = "github-classic") -> str:
    return SHAPED[kind](Dice(seed))


def kept_bytes(project: Project) -> bytes:
    """Every object, reachable or not, and every local file of ours but those that were put into quarantine."""
    objects = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"],
        cwd=project.root,
        env=dict(project.env),
        capture_output=True,
        check=True,
    ).stdout
    common = project.root / ".git"
    files = [*(common / "logs").rglob("*"), *(common / "swarm").rglob("*"), *(common / "worktrees").rglob("*")]
    told = [path for path in files if path.is_file() and "quarantine" not in path.parts]
    names = "\n".join(str(path) for path in common.rglob("*") if "quarantine" not in path.parts)
    return b"\n".join([objects, names.encode(), *(path.read_bytes() for path in told)])


def leaked(project: Project, secrets: Iterable[Planted | str]) -> list[str]:
    """Which of them can be found anywhere."""
    kept = kept_bytes(project)
    found = []
    for item in secrets:
        kind, secret = (item.kind, item.secret) if isinstance(item, Planted) else ("", item)
        escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
        if secret.encode() in kept or escaped.encode() in kept:
            found.append(f"{kind} {secret[:40]}")
    return found


def quarantined(project: Project, run: str) -> dict[str, tuple[str, int]]:
    """Name → content and mode of what was put into quarantine."""
    folder = project.root / ".git" / "swarm" / "quarantine" / run
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: (path.read_text("utf-8"), path.stat().st_mode & 0o777) for path in found}


def events_of(project: Project, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in project.swarm("events", "--json").stdout.splitlines()]
    return [event["payload"] for event in events if event["kind"] == kind]


def clean(project: Project, run: str) -> str:
    """What git says about the run's worktree; empty when it is as the tip."""
    return project.git("status", "--porcelain", cwd=project.worktree(run))


def journals(project: Project) -> Sequence[Path]:
    return sorted((project.root / ".git" / "swarm" / "journal").rglob("*.jsonl"))
