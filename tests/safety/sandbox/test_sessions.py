"""Sessions of the real Claude CLI inside of the sandbox, by both transports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gitswarm.specs.script import Script
from tests.claude.runs import having, reaching
from tests.claude.stage import KEY, by, living
from tests.conftest import Project
from tests.loopback.api import ApiRequest, Reply
from tests.loopback.player import ScriptedModel
from tests.loopback.replies import bash, working
from tests.loopback.server import Loopback, serving
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.safety.sandbox.conftest import needs_bwrap
from tests.waiting import wait_until

pytestmark = needs_bwrap


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


def _product(confined: Project, loopback: Loopback, steps: dict[str, object], **env: str) -> Project:
    made = having(reaching(confined, loopback, ScriptedModel(Script.from_plain({"steps": steps}))), **env)
    made.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker")))})
    return made


def test_a_login_is_brought_in_without_what_renews_it(confined: Project, loopback: Loopback) -> None:
    config = Path(confined.env["HOME"]) / ".claude"
    config.mkdir()
    (config / "settings.json").write_text("{}", encoding="utf-8")
    login = {
        "accessToken": "sk-ant-oat01-planted-0123456789abcdefghij",
        "refreshToken": "sk-ant-ort01-planted-0123456789abcdefghij",
        "expiresAt": int(time.time() + 7200) * 1000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    kept = json.dumps({"claudeAiOauth": login, "mcpOAuth": {"x": 1}})
    (config / ".credentials.json").write_text(kept, encoding="utf-8")
    look = (
        'cd "$CLAUDE_CONFIG_DIR"; grep -c accessToken .credentials.json; grep -c refresh .credentials.json; ls -a\n'
    )
    steps: dict[str, object] = {"write": {"write": {"look.sh": look}, "run": ["sh look.sh"]}}
    product = _product(confined, loopback, steps, ANTHROPIC_API_KEY="")
    product.swarm_process("start", "one", "--mode", "cli", "-m", "do it")
    receipt = json.loads(product.swarm("show", "write", "--receipt").stdout)
    assert receipt["outcome"]["kind"] == "ok"
    output = receipt["tool_calls"][-1]["output"].splitlines()
    assert output[:2] == ["1", "0"]
    assert "settings.json" not in output
    assert (config / ".credentials.json").read_text(encoding="utf-8") == kept
    assert sorted(path.name for path in config.iterdir()) == [".credentials.json", "settings.json"]


def test_the_key_of_a_console_login_is_brought_in_alone(confined: Project, loopback: Loopback) -> None:
    """Sessions that are not confined read it where it is."""
    told = {"primaryApiKey": KEY, "oauthAccount": {"emailAddress": "user@example.org"}}
    (Path(confined.env["HOME"]) / ".claude.json").write_text(json.dumps(told), encoding="utf-8")
    asked: list[ApiRequest] = []
    model = working(bash("grep -c oauthAccount $CLAUDE_CONFIG_DIR/.claude.json"))

    def answer(ask: ApiRequest) -> Reply:
        asked.append(ask)
        return model(ask)

    product = _product(confined, loopback, {}, ANTHROPIC_API_KEY="")
    loopback.play(product.root.parent.name, answer)
    product.swarm("start", "one", "--mode", "cli", "-m", "do it", "--until", "write")
    assert {each.headers.get("x-api-key") for each in asked} == {KEY}
    receipt = json.loads(product.swarm("show", "write", "--receipt").stdout)
    assert receipt["tool_calls"][0]["output"].startswith("0") or not receipt["tool_calls"][0]["success"]


@pytest.mark.soak
@by("sdk")
def test_an_interrupt_reaches_the_session_and_leaves_nothing(
    confined: Project, loopback: Loopback, mode: str
) -> None:
    waits = {"run": ["touch up; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"]}
    product = _product(confined, loopback, {"write": [waits, {"write": {"again.txt": "x"}}]})
    process = _started(product, mode)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    run = only_run(product)
    assert process.returncode in (5, 130)
    assert living("SWARM_STEP_OF", run) == []
    product.swarm_process("resume", run)
    assert "again.txt" in product.tree(f"shadow/{run}")
    assert product.json("status")["cost_usd"] is not None


@by("cli")
def test_nothing_outlives_git_swarm(confined: Project, loopback: Loopback, mode: str) -> None:
    line = "setsid env -i sh -c 'touch up; sleep 600' & sleep 600"
    product = _product(confined, loopback, {"write": {"write": {"x.sh": line}, "run": ["sh x.sh"]}})
    process = _started(product, mode)
    process.kill()
    process.communicate()
    up = str(product.root)
    wait_until(lambda: not _inside(up), "the sandbox is gone", seconds=10)


def _inside(word: str) -> list[str]:
    """Processes of another PID namespace than ours that belong to the project."""
    found = []
    own = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.readlink(folder / "ns/pid") != own:  # noqa: PTH115 - same
                cwd = os.readlink(folder / "cwd")  # noqa: PTH115 - same
                found += [folder.name] if word in cwd else []
        except OSError:
            continue
    return found


def _started(product: Project, mode: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        product.argv("start", "one", "--mode", mode, "-m", "do it"),
        cwd=product.root,
        env=dict(product.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def is_up() -> bool:
        assert process.poll() is None, process.communicate()
        return any((product.root.parent / "repo.swarm").glob("*/up"))

    wait_until(is_up, "the tool works")
    assert _inside(str(product.root))
    return process
