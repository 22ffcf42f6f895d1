"""A session of the real Codex inside of git-swarm's own sandbox."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import yaml

from tests.claude.runs import asked
from tests.codex.stage import FETCHED, KEY
from tests.conftest import Project
from tests.loopback.api import use
from tests.loopback.replies import bash, working
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.safety.sandbox.conftest import confined, needs_bwrap

pytestmark = needs_bwrap
__all__ = ["confined"]


PLANT = """
cd "$CODEX_HOME" && rm -f config.toml; echo > config.toml; mv ../schema.json ..; rm -f ../schema.json
(grep -c hooks.PreToolUse config.toml; ls ..) > "$OLDPWD/left.txt"
"""
"""Its next turn would have no hook."""


def test_it_works_in_its_worktree_and_reaches_nothing_else(confined: Project, loopback: Loopback) -> None:
    home = Path(confined.env["HOME"])
    model = working(use("Write", file_path="a.txt", content="one"), bash("sh reach.sh"))
    url = f"{loopback.play('confined', model)}/v1"
    env = {**confined.env, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, "SWARM_CODEX_CLI": str(FETCHED)}
    made = replace(confined, env=env)
    (home / "planted").write_text("the user's\n", encoding="utf-8")
    made.commit(
        {
            **MAKER,
            "reach.sh": f"touch {home}/reached\ncat {home}/planted > taken.txt{PLANT}",
            ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker"))),
        }
    )

    made.swarm_process("start", "one", "--engine", "codex", "--mode", "cli", "-m", "do it")

    run = only_run(made)
    assert not (home / "reached").exists()
    assert made.git("show", f"shadow/{run}:a.txt") == "one"
    assert made.git("show", f"shadow/{run}:taken.txt") == ""
    assert made.git("show", f"shadow/{run}:left.txt").split() == ["1", "gate", "home", "schema.json"]
    (entry,) = asked(made, "log", run)
    assert (entry["engine"], entry["status"]) == ("codex-step", "VERIFIED")
    receipt = json.loads(made.git("show", f"shadow/{run}:.swarm/runs/{run}/one/receipts/write-maker.json"))
    assert (receipt["sandbox"], receipt["network"]) == ("bubblewrap", [f"127.0.0.1:{loopback.port}"])
    assert [(call["tool_name"], call["success"]) for call in receipt["tool_calls"]] == [
        ("Write", True),
        ("Bash", True),
    ]
    assert receipt["model"] == loopback.of("confined")[0].model
    sandbox = next(each for each in loopback.of("confined")[0].said if "permission_profile" in each)
    assert 'type="disabled"' in sandbox
