"""An engine of others is confined as ours are, with what it starts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import yaml

from tests.claude.runs import asked
from tests.conftest import Project
from tests.engines.errand import with_errand
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap


def test_it_works_in_its_worktree_and_reaches_nothing_else(confined: Project, tmp_path: Path) -> None:
    home = Path(confined.env["HOME"])
    orders = [
        {"run": "sh reach.sh"},
        {"write": {"file_path": "a.txt", "content": "one\n"}},
        {"hand_over": {"status": "VERIFIED", "summary": "did it"}},
    ]
    (tmp_path / "site").mkdir()
    with with_errand(tmp_path / "site") as site:
        env = {**confined.env, "PYTHONPATH": str(site), "PATH": f"{site}/bin{os.pathsep}{confined.env['PATH']}"}
        made = replace(confined, env=env)
        made.commit(
            {
                **MAKER,
                "reach.sh": f"touch {home}/reached\ncat {home}/.gitconfig > taken.txt\ntrue\n",
                ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker"))),
            }
        )
        task = "\n".join(f"errand: {json.dumps(order)}" for order in orders)
        made.swarm_process("start", "one", "--engine", "errand", "--mode", "cli", "-m", task)

    run = only_run(made)
    assert not (home / "reached").exists()
    assert made.git("show", f"shadow/{run}:a.txt") == "one"
    (entry,) = asked(made, "log", run)
    assert (entry["engine"], entry["status"]) == ("errand-step", "VERIFIED")
    receipt = json.loads(made.git("show", f"shadow/{run}:.swarm/runs/{run}/one/receipts/write-maker.json"))
    assert (receipt["sandbox"], receipt["network"]) == ("bubblewrap", [])
