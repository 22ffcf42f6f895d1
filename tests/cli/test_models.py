"""`engines --models`: one request to the provider, and what the model policy makes of the answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.claude.runs import having
from tests.conftest import Project
from tests.projects import ask

KEY = "sk-ant-api03-planted-0123456789abcdefghij"
LISTED = json.dumps({"data": [{"id": "claude-sonnet-5-5"}, {"id": "claude-new-9"}], "has_more": False})


@dataclass
class Provider:
    """Answers every request alike. `asked`: path and credentials of each."""

    status: int = 200
    says: str = LISTED
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers["x-api-key"], self.headers["authorization"]))
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(made.says.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            del format, args

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_models_are_listed_with_what_the_policy_says_of_them(project: Project, provider: Provider) -> None:
    here = having(project, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=f"{provider.url}/")

    told = here.swarm("engines", "--models")

    assert told.stdout == (
        "engine       model              offered  price      models.yaml\n"
        "claude-step  claude-sonnet-5-5  yes      $2 $10     primary, standard, edge\n"
        "claude-step  claude-new-9       yes      $?         -\n"
        "claude-step  claude-haiku-5-5   no       $0.1 $0.5  economy\n"
        "claude-step  claude-opus-5-5    no       $4 $20     elite\n"
    )
    assert provider.asked == [("/v1/models?limit=1000", KEY, None)]
    (first, *_others) = json.loads(here.swarm("engines", "--models", "--json").stdout)
    named = ["primary", "standard", "edge"]
    assert first == {
        "engine": "claude-step",
        "model": "claude-sonnet-5-5",
        "offered": True,
        "named": named,
        "price": [2.0, 10.0],
    }


def test_nobody_is_asked_without_a_key_or_unasked(project: Project, provider: Provider) -> None:
    here = having(project, ANTHROPIC_BASE_URL=provider.url)

    answer = ask(here, "engines", "--models")

    assert (answer.code, answer.stdout) == (1, "")
    assert "neither ANTHROPIC_API_KEY nor ANTHROPIC_AUTH_TOKEN is set" in " ".join(answer.stderr.split())
    having(here, ANTHROPIC_API_KEY=KEY).swarm("engines", "-v")
    assert provider.asked == []


@pytest.mark.parametrize(
    ("status", "says", "why"),
    [
        (401, json.dumps({"error": {"message": f"bad {KEY}"}}), "does not list its models: HTTP 401: bad ***"),
        (302, "", "does not list its models: HTTP 302: Found"),
        (200, "<html>", "does not list its models: its answer is no list of models"),
        (200, '{"data": 7}', "does not list its models: its answer is no list of models"),
    ],
)
def test_an_answer_that_is_none_is_an_error(
    project: Project, provider: Provider, status: int, says: str, why: str
) -> None:
    provider.status, provider.says, provider.headers = status, says, {"Location": f"{provider.url}/elsewhere"}
    here = having(project, ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_BASE_URL=provider.url)

    answer = ask(here, "engines", "--models")

    assert (answer.code, answer.stdout) == (1, "")
    assert why in " ".join(answer.stderr.split())
    assert KEY not in answer.stderr
    assert provider.asked == [("/v1/models?limit=1000", None, f"Bearer {KEY}")]
