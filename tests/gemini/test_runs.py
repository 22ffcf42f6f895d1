"""Runs of the product with Gemini CLI: confined, and beside other engines, killed and continued."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.claude.runs import asked, reaching
from tests.claude.stage import living
from tests.claude.test_mixed import begin, is_running, kill
from tests.conftest import Project
from tests.gemini.conftest import FETCHED, access
from tests.loopback.api import Asked, Reply, say, use
from tests.loopback.replies import bash, handed_over, working
from tests.loopback.server import Loopback
from tests.projects import ask, only_run
from tests.routed import MAKER, command, flow, step
from tests.safety.sandbox.conftest import confined, needs_bwrap
from tests.waiting import wait_until

__all__ = ["confined"]

pytestmark = pytest.mark.soak
SECTION = {"mode": "cli", "cli": str(FETCHED), "attempts": 1}


@needs_bwrap
def test_it_works_in_its_worktree_and_reaches_its_provider_and_nothing_else(
    confined: Project, loopback: Loopback
) -> None:
    home = Path(confined.env["HOME"])
    line = f"touch {home}/reached; cat {home}/.gitconfig > taken.txt; true"
    url = loopback.play("confined", working(bash("sh reach.sh"), bash("echo one > a.txt"), handed_over()))
    made = replace(confined, env={**confined.env, **access(url)})
    made.commit(
        {
            **MAKER,
            "reach.sh": line,
            ".swarm/config.yaml": yaml.safe_dump({"engines": {"default": "gemini", "gemini": SECTION}}),
            ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker"))),
        }
    )

    made.swarm_process("start", "one", "-m", "x")

    run = only_run(made)
    assert not (home / "reached").exists()
    assert made.git("show", f"shadow/{run}:a.txt") == "one"
    assert "Test User" not in made.git("show", f"shadow/{run}:taken.txt")
    (entry,) = asked(made, "log", run)
    assert (entry["engine"], entry["mode"], entry["status"]) == ("gemini-step", "cli", "VERIFIED")
    receipt = json.loads(made.git("show", f"shadow/{run}:.swarm/runs/{run}/one/receipts/write-maker.json"))
    assert (receipt["sandbox"], receipt["network"]) == ("bubblewrap", [f"127.0.0.1:{loopback.port}"])
    assert [call["success"] for call in receipt["tool_calls"]] == [True, True]


def test_claude_writes_gemini_criticizes_a_command_judges_and_each_is_killed(
    project: Project, loopback: Loopback, tmp_path: Path
) -> None:
    """As in tests/claude/test_mixed.py, with two models."""
    has_begun, is_released = threading.Event(), threading.Event()

    def author(request: Asked) -> Reply:
        if request.wants_result:
            return handed_over()
        return use("Write", file_path="a.txt", content="one\n") if request.turn == 0 else say("done")

    def critic(request: Asked) -> Reply:
        if request.turn == 0:
            return use("Read", file_path="a.txt")
        has_begun.set()
        return handed_over() if is_released.is_set() else Reply(hang_s=300)

    go = tmp_path / "go"
    engines = {
        "default": "claude",
        "claude": {"mode": "cli"},
        "gemini": SECTION,
        "steps": {"mix/critic": "gemini"},
    }
    line = f"test -e {go} || exec sleep 30072; grep -q one a.txt"
    written = flow("mix", step("author", "maker"), step("critic", "maker"), command("test", line))
    project.commit(
        {
            **MAKER,
            ".swarm/config.yaml": yaml.safe_dump({"engines": engines}),
            ".swarm/flows/mix.yaml": yaml.safe_dump(written),
        }
    )
    made = reaching(project, loopback, author)
    made = replace(made, env={**made.env, **access(loopback.play("critic", critic))})

    process = begin(made, "start", "mix", "-m", "write a.txt")
    assert has_begun.wait(60)
    kill(process)
    is_released.set()
    process = begin(made, "resume")

    wait_until(lambda: is_running("30072"), "the command works")
    kill(process)
    go.touch()
    made.swarm_process("resume")

    steps = [(each["step"], each["engine"], each["mode"], each["status"]) for each in asked(made, "log")]
    assert steps == [
        ("author", "claude-step", "cli", "VERIFIED"),
        ("critic", "gemini-step", "cli", "VERIFIED"),
        ("test", "command", "local", "VERIFIED"),
    ]
    assert ask(made, "verify").code == 0
    assert living("GOOGLE_GEMINI_BASE_URL", made.env["GOOGLE_GEMINI_BASE_URL"]) == []
