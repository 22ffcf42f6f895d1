"""Sessions of the real Claude CLI reach their provider by its name, and no other."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gitswarm.specs.script import Script
from tests.claude.runs import having, reaching
from tests.claude.stage import by
from tests.conftest import Project
from tests.loopback.player import ScriptedModel
from tests.loopback.server import Loopback, serving
from tests.projects import ask
from tests.routed import MAKER, flow, step
from tests.safety.network.conftest import started
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap


@dataclass
class Relay:
    """A proxy of the user's that takes every name for the scripted provider. `asked`: those names."""

    url: str
    asked: list[str]


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


@pytest.fixture
def relay(loopback: Loopback) -> Iterator[Relay]:
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            url = urlsplit(self.path)
            asked.append(url.netloc)
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            there = http.client.HTTPConnection("127.0.0.1", loopback.port, timeout=60)
            there.request("POST", f"{url.path}?{url.query}", body, dict(self.headers))
            answer = there.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "request-id"):
                if answer.headers[name]:
                    self.send_header(name, answer.headers[name])
            self.send_header("Connection", "close")
            self.end_headers()
            while chunk := answer.read1():
                self.wfile.write(chunk)
            self.close_connection = True

        def log_message(self, *_arguments: object) -> None:
            """Says nothing."""

    with started(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as server:
        yield Relay(f"http://127.0.0.1:{server.server_address[1]}", asked)


def product(confined: Project, loopback: Loopback, relay: Relay) -> Project:
    """Its provider is `llm.example`, which only the user's proxy knows."""
    work = {"write": {"write": {"made.txt": "x"}, "run": ["env | grep -c -i ^https_proxy=http://127.0.0.1:3128"]}}
    made = reaching(confined, loopback, ScriptedModel(Script.from_plain({"steps": work})))
    url = made.env["ANTHROPIC_BASE_URL"].replace(f"127.0.0.1:{loopback.port}", "llm.example")
    made = having(made, ANTHROPIC_BASE_URL=url, HTTP_PROXY=relay.url, NO_PROXY="localhost,127.0.0.1")
    made.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write", "maker")))})
    return made


@by("cli")
def test_a_session_reaches_its_provider_by_name(
    confined: Project, loopback: Loopback, relay: Relay, mode: str
) -> None:
    made = product(confined, loopback, relay)
    done = ask(made, "start", "one", "--mode", mode, "-m", "do it")
    receipt = json.loads(made.swarm("show", "write", "--receipt").stdout)
    assert receipt["outcome"]["kind"] == "ok", done.stderr
    assert receipt["tool_calls"][-1]["output"].strip() == "2"
    assert set(relay.asked) == {"llm.example:80"}


def test_a_provider_that_nobody_named_is_no_bad_key(confined: Project, loopback: Loopback, relay: Relay) -> None:
    """Claude Code's own settings send the session elsewhere."""
    settings = Path(confined.env["HOME"]) / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://other.example"}}), encoding="utf-8")
    made = product(confined, loopback, relay)
    made.git("config", "swarm.engines.claude.settingSources", "[user]")
    done = ask(made, "start", "one", "--mode", "cli", "-m", "do it")
    assert done.code == 4
    outcome = json.loads(made.swarm("show", "write", "--receipt").stdout)["outcome"]
    place = "(the place for it is .swarm/config.yaml, committed before a run starts)"
    assert outcome["detail"] == f"not in policy.allow_hosts: other.example:80 {place}"
    assert "not in policy.allow_hosts: other.example:80" in " ".join(done.stderr.split())
    assert relay.asked == []
