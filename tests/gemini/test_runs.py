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
from tests.codex.stage import FETCHED as CODEX
from tests.conftest import Project
from tests.gemini.conftest import FETCHED, access
from tests.loopback.api import ApiRequest, Reply, say, use
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


class Turns:
    """Three models one after the other; each waits in its first session, until it is released."""

    def __init__(self) -> None:
        self.begun = {name: threading.Event() for name in ("author", "critic", "fixer")}
        self.released = {name: threading.Event() for name in self.begun}

    def _held(self, name: str) -> Reply | None:
        self.begun[name].set()
        return None if self.released[name].is_set() else Reply(hang_s=300)

    def author(self, request: ApiRequest) -> Reply:
        if request.wants_result:
            return handed_over()
        if request.turn == 0:
            return use("Write", file_path="a.txt", content="one\n")
        return self._held("author") or say("done")

    def critic(self, request: ApiRequest) -> Reply:
        return use("Read", file_path="a.txt") if request.turn == 0 else self._held("critic") or handed_over()

    def fixer(self, request: ApiRequest) -> Reply:
        if request.wants_result:
            return handed_over()
        return bash("echo two >> a.txt") if request.turn == 0 else self._held("fixer") or say("done")


def test_claude_writes_gemini_criticizes_codex_mends_a_command_judges_and_each_is_killed(
    project: Project, loopback: Loopback, tmp_path: Path
) -> None:
    """As in tests/claude/test_mixed.py, with three models."""
    if not CODEX.exists():
        pytest.skip("codex is not fetched (404 MB): make .venv/codex/.fetched")
    turns, go = Turns(), tmp_path / "go"
    engines = {
        "default": "claude",
        "claude": {"mode": "cli"},
        "gemini": SECTION,
        "codex": {"mode": "cli", "cli": str(CODEX)},
        "steps": {"mix/critic": "gemini", "mix/fixer": "codex"},
    }
    line = f"test -e {go} || exec sleep 30072; test $(wc -l < a.txt) -eq 2"
    written = flow("mix", *(step(name, "maker") for name in turns.begun), command("test", line))
    project.commit(
        {
            **MAKER,
            ".swarm/config.yaml": yaml.safe_dump({"engines": engines}),
            ".swarm/flows/mix.yaml": yaml.safe_dump(written),
        }
    )
    made = reaching(project, loopback, turns.author)
    codex = {"OPENAI_API_KEY": "sk-dummy", "OPENAI_BASE_URL": f"{loopback.play('fixer', turns.fixer)}/v1"}
    made = replace(made, env={**made.env, **access(loopback.play("critic", turns.critic)), **codex})

    process = begin(made, "start", "mix", "-m", "write a.txt")
    for name, begun in turns.begun.items():
        assert begun.wait(60), name
        kill(process)
        turns.released[name].set()
        process = begin(made, "resume")
    wait_until(lambda: is_running("30072"), "the command works")
    kill(process)
    go.touch()
    made.swarm_process("resume")

    steps = [(each["step"], each["engine"], each["mode"], each["status"]) for each in asked(made, "log")]
    assert steps == [
        ("author", "claude-step", "cli", "VERIFIED"),
        ("critic", "gemini-step", "cli", "VERIFIED"),
        ("fixer", "codex-step", "cli", "VERIFIED"),
        ("test", "command", "local", "VERIFIED"),
    ]
    assert ask(made, "verify").code == 0
    assert living("GOOGLE_GEMINI_BASE_URL", made.env["GOOGLE_GEMINI_BASE_URL"]) == []
    assert living("OPENAI_BASE_URL", codex["OPENAI_BASE_URL"]) == []
