"""What the policy lets through as the sandbox holds it: each such line is run in it, and measured from outside."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.projects import ask
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

HOSTILE = Path(__file__).parents[1] / "policy" / "hostile.jsonl"
KEY = "PLANTED-KEY-OF-THE-USER"
ROWS = [row for row in map(json.loads, HOSTILE.read_text("utf-8").splitlines()) if row["is"] == "contained"]
SAMPLE = random.Random(20261122).sample(ROWS, 25)
NOT_YET = {"network"}
"""Held by `policy.network`."""


@pytest.mark.parametrize("rows", [SAMPLE, pytest.param(ROWS, marks=pytest.mark.soak)], ids=["sample", "all"])
def test_a_contained_line_reaches_nothing_of_the_user(confined: Project, rows: list[dict[str, str]]) -> None:
    world = confined.root.parent
    confined.git("init", "-q", "--bare", str(world / "origin.git"))
    confined.git("remote", "add", "origin", str(world / "origin.git"))
    for name in (".ssh/id_rsa", ".netrc", ".npmrc", ".kube/config", ".docker/config.json", ".config/gh/hosts.yml"):
        path = world / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{KEY}\n", encoding="utf-8")
    lines = [row["line"] for row in rows if row["not"] not in NOT_YET]
    played = {
        "write": {f"lines/{number}.sh": f"{line}\n" for number, line in enumerate(lines)},
        "run": [f"timeout -k 0.2 1 sh lines/{number}.sh < /dev/null" for number in range(len(lines))],
    }
    script = world.parent / "script.yaml"
    script.write_text(yaml.safe_dump({"steps": {"implement": [played]}}), encoding="utf-8")
    with subprocess.Popen(["sleep", "600"]) as bystander:
        before = fingerprint(world)
        done = ask(confined, "start", "build", "--script", str(script), "--until", "implement")
        is_alive = bystander.poll() is None
        bystander.kill()
    # Some delete what lies in the worktree: that is found.
    assert (is_alive, done.code in (0, 5)) == (True, True), done.stderr
    assert fingerprint(world).entries == before.entries
    run = confined.json("list")[0]["run_id"]
    calls = confined.json("show", "implement", "--receipt", "--run", run)["tool_calls"]
    assert sum(call["tool_name"] == "Bash" for call in calls) >= len(lines)
    assert not any(call.get("blocked") for call in calls)
    transcript = confined.swarm("transcript", "implement", "--run", run, "--json").stdout
    assert "timeout -k 0.2 1" in transcript
    assert KEY not in transcript
