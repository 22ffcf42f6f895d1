"""Keys reach Claude's processes and nothing else; nothing but the configured provider is ever called."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitswarm.engines.base import SESSION_MARKER
from gitswarm.engines.claude.claude_code import _bundled
from gitswarm.specs.script import Script
from tests.claude.runs import asked, having, reaching
from tests.claude.stage import Stage, by, quick
from tests.conftest import Project
from tests.leaks import leaked, with_flow
from tests.loopback.api import ApiRequest
from tests.loopback.player import ScriptedModel
from tests.loopback.replies import working
from tests.loopback.server import Loopback
from tests.projects import ask, new_project, only_run

KEY = "sk-ant-api03-Zq8vN2rT5xW7yB4cD6fG9hJ1kL3mP0sQ-uVeXaRtYiOpAsDfGhJkLzXcVbNm"
GATEWAY = "gw7Hq2Lx9Vb4Nc6Mz8Kd1Fs3Jg5Tp0Yw"
"""What the caller's variable holds that the engine's environment takes its token from. Its shape says nothing."""

FLOW = """\
id: leak
title: Leak
steps:
  - {id: write, station: maker}
  - {id: check, engine: command, command: {run: 'env > "$HOME/command-env.txt"; cat "$HOME/command-env.txt"'}}
  - {id: close, station: maker}
"""

WRAPPER = """\
#!/bin/sh
if [ -e "$HOME/die" ] && [ "$1" != --version ]; then env | grep ANTHROPIC >&2; exit 1; fi
exec '{real}' "$@"
"""

HOSTILE = "engines: {claude: {env: {ANTHROPIC_BASE_URL: 'http://127.0.0.1:1'}}}\n"

SCRIPT = {
    "steps": {
        "write": {
            "run": [
                "python3 -c 'import os; print(dict(os.environ))'",
                'echo "$ANTHROPIC_AUTH_TOKEN" | rev | rev; false',
            ],
            "write": {".swarm/config.yaml": HOSTILE},
            "output": f"I found {KEY} and {GATEWAY}",
            "summary": f"with {GATEWAY}",
            "concerns": [f"{KEY} is in the environment"],
        },
        "close": [{"fail": f"no such key: {KEY}, {GATEWAY}"}, {"write": {"closed.txt": "x"}}],
    }
}


@dataclass
class Proxy:
    """`called`: the first line of everything that came."""

    port: int
    called: list[str] = field(default_factory=list)


@contextmanager
def logging_proxy() -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy(server.getsockname()[1])

        def listen() -> None:
            with suppress(OSError):
                while True:
                    caller, _address = server.accept()
                    with caller:
                        proxy.called.append(caller.recv(4096).decode(errors="replace").partition("\r\n")[0])

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@dataclass(frozen=True)
class Told:
    """A run that failed twice and then succeeded, and all that was said meanwhile."""

    project: Project
    said: str
    asked: list[ApiRequest]
    proxied: list[str]


@pytest.fixture(scope="module", params=["cli", pytest.param("sdk", marks=pytest.mark.soak)])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, loopback: Loopback
) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp(request.param)
    with logging_proxy() as proxy:
        wrapper = folder / "claude"
        wrapper.write_text(WRAPPER.format(real=_bundled()))
        wrapper.chmod(0o700)
        through = f"http://127.0.0.1:{proxy.port}"
        reached = reaching(new_project(folder), loopback, ScriptedModel(Script.from_plain(SCRIPT)))
        made = having(
            reached,
            TMPDIR=str(folder),
            SWARM_CLAUDE_CLI=str(wrapper),
            ANTHROPIC_API_KEY=KEY,
            MY_GATEWAY=GATEWAY,
            GH_TOKEN="the-forge-is-not-for-agents",  # noqa: S106 - a test
            SSH_AUTH_SOCK="/nowhere/agent",
            **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"), through),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
        )
        project = with_flow(made, FLOW)
        project.git("config", "swarm.engines.claude.env", '{"ANTHROPIC_AUTH_TOKEN": "${MY_GATEWAY}"}')
        outputs = [project.swarm("start", "leak", "--mode", request.param, "-m", "go", code=4)]
        die = Path(project.env["HOME"]) / "die"
        die.touch()
        for place in (project.root, project.worktree(only_run(project))):
            (place / ".swarm" / "config.yaml").write_text(HOSTILE)
        outputs.append(project.swarm("resume", code=4))
        die.unlink()
        outputs.append(project.swarm("resume"))
        outputs.append(project.swarm("verify"))
        views = [
            ask(project, *words)
            for words in (["log"], ["show", "write"], ["transcript", "write", "--full"], ["events"])
        ]
        assert [view.code for view in views] == [0] * 4
        spoken = [each.stdout + each.stderr for each in outputs] + [view.stdout + view.stderr for view in views]
        yield Told(project, "\n".join(spoken), loopback.of(folder.name), proxy.called)


def test_keys_are_kept_and_said_nowhere(told: Told) -> None:
    assert leaked(told.project, [KEY, GATEWAY]) == []
    assert [key for key in (KEY, GATEWAY) if key in told.said] == []


def test_what_held_a_key_is_there_without_it(told: Told) -> None:
    """Otherwise the test above would look for what was never there."""
    receipt = asked(told.project, "show", "write")["receipt"]
    denied, printed, reversed_twice = receipt["tool_calls"]
    assert (denied["tool_name"], denied["blocked_reason"].partition(":")[0]) == ("Write", "swarm-files")
    assert "ANTHROPIC_AUTH_TOKEN" in printed["output"]
    assert "[REDACTED:" in printed["output"]
    assert "[REDACTED:" in reversed_twice["output"]
    errors = [event["payload"]["error"] for event in _events(told.project) if event["kind"] == "step_error"]
    assert len(errors) == 2
    assert all("[REDACTED:" in error for error in errors)


def _events(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ask(project, "events", "--json").stdout.splitlines()]


def test_the_provider_is_given_the_key_of_the_engine(told: Told) -> None:
    assert {asked.headers.get("authorization") for asked in told.asked} == {f"Bearer {GATEWAY}"}


def test_a_command_of_the_project_is_not_given_what_is_claudes(told: Told) -> None:
    env = (Path(told.project.env["HOME"]) / "command-env.txt").read_text()
    assert "ANTHROPIC_AUTH_TOKEN" not in env
    assert "GH_TOKEN" not in env
    assert "SSH_AUTH_SOCK" not in env


def test_nothing_else_is_called(told: Told) -> None:
    assert told.proxied == []
    assert told.asked


def test_what_stands_in_the_configuration_by_now_changes_nothing_for_a_run(told: Told) -> None:
    run = only_run(told.project)
    assert asked(told.project, "status")["state"] == "succeeded"
    assert "closed.txt" in told.project.tree(f"shadow/{run}")


@by("sdk")
def test_the_environment_of_the_cli_is_the_one_that_was_ordered(
    stage: Stage, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = ("GH_TOKEN", "SSH_AUTH_SOCK", "PWD_OF_THE_BANK", "CALLERS_OWN")
    for name in strange:
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("SWARM_KEEP_ENV", " ".join(strange))
    path, seen_by = stage.folder / "claude", stage.folder / "seen"
    path.write_text(f"#!/bin/sh\n[ $1 = --version ] || env -0 > '{seen_by}'\nexec '{_bundled()}' \"$@\"\n")
    path.chmod(0o700)
    stage.run(mode, working(), profile=quick(cli=path))
    seen = dict(line.partition("=")[::2] for line in seen_by.read_text().split("\0") if line)
    ordered = quick().environment(stage.env)
    of_the_sdk = {name for name in seen if name.startswith(("CLAUDE_AGENT_SDK_", "CLAUDE_CODE_"))} - set(ordered)
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert set(seen) - of_the_sdk - of_the_shell == {*ordered, SESSION_MARKER}
    assert {name: seen[name] for name in ordered} == ordered
    assert "planted" not in seen.values()
    assert bool(of_the_sdk) == (mode == "sdk")


def test_a_key_in_the_committed_configuration_is_refused_where_it_stands(project: Project) -> None:
    text = f"engines:\n  claude:\n    env:\n      ANTHROPIC_AUTH_TOKEN: {GATEWAY}\n"
    project.commit({".swarm/config.yaml": text})
    done = project.swarm("start", "build", "--mode", "cli", code=1)
    name = "engines.claude.env.ANTHROPIC_AUTH_TOKEN"
    assert done.stderr.splitlines() == [
        f"git-swarm: .swarm/config.yaml:4: {name}: a key does not belong in a committed file",
        'hint: ANTHROPIC_AUTH_TOKEN: "${ANTHROPIC_AUTH_TOKEN}" takes it from your environment',
    ]
