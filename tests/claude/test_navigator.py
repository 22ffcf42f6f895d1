"""The navigator on Anthropic's API: thirty answers, and what the note on the commit says of each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from gitswarm.engines.base import EngineAccess, RouteTerms
from gitswarm.engines.claude import anthropic_api
from gitswarm.engines.claude import engine as engine_module
from gitswarm.engines.claude.anthropic_api import MAX_TOKENS, NOT_INSTALLED
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.engine import ClaudeEngine
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.engines.claude.transports import CliTransport
from gitswarm.ledger.reading import parse_note, render_entry
from gitswarm.records.execution import Status
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Tokens
from gitswarm.records.routing import Ask, Choice, Decision, RouteAnswer, RoutingMode, RoutingSignal
from gitswarm.resources import bundled
from gitswarm.routing.choices import Situation
from gitswarm.routing.driver import decide
from gitswarm.specs.flow import Flow
from gitswarm.specs.library import load_library
from gitswarm.specs.model_policy import ModelRequest, navigator_model
from gitswarm.specs.sidequest import Sidequest
from tests.claude.runs import having
from tests.claude.stage import KEY
from tests.conftest import Project
from tests.loopback.api import Reply, Text, say, use
from tests.loopback.server import Loopback, serving
from tests.projects import ask
from tests.routed import MAKER, flow, quest, step
from tests.routing.test_driver import Outcome, situation

MODEL = "claude-haiku-5-5"
PRICE = (1.0, 5.0)
"""US dollars for a million tokens: 100 in and 20 out cost $0.0002."""

ONE, COST = 120, 0.0002
WHY: JsonValue = {"trigger": "t", "relevance_to_charter": "r"}
NODE: dict[str, JsonValue] = {"id": "n", "station": "s", "objective": "o"}
TOLD: JsonValue = {"skip_reason": "a", "why_not_needed_for_exit": "b", "replacement_assurance": "c"}


NEEDS_WHY = "needs why_now (trigger, relevance_to_charter)"
NEED_WHY = NEEDS_WHY.replace("needs", "need")
NO_KEY = f"land: unknown key (known: {', '.join(sorted(RoutingSignal.__struct_fields__))})"
AN_OBJECT = "expected `key: value`"
CUT = f"the answer was cut off after {MAX_TOKENS} tokens"
RETRIED = ("no answer: HTTP 429: no", "no answer: HTTP 500: no")


def chooses(name: str | None, **more: JsonValue) -> Reply:
    return say(json.dumps({"chosen_candidate_id": name, "reasoning": "so", **more}))


def failing(status: int, **headers: str) -> Reply:
    return Reply((Text("no"),), status=status, headers=headers)


@dataclass(frozen=True)
class Said:
    """What is in the note: where the run goes, who decided, what became of the question, tokens and cost."""

    candidate: str
    source: str
    problem: str | None = None
    tokens: int = ONE
    cost: float | None = COST


def taken(candidate: str) -> Said:
    return Said(candidate, "navigator")


def rejected(problem: str, tokens: int = ONE, cost: float | None = COST) -> Said:
    return Said("advance:b", "deterministic", problem, tokens, cost)


LINE = Flow.from_plain(flow("f", step("a", "s"), step("b", "s"), step("c", "s")))
DIG = Sidequest.from_plain(quest("dig", {"kind": "condition", "if": "false"}))


def asking(ask: Ask | None) -> Situation:
    """After a PARTIAL step of three, where the navigator has authority."""
    found = situation(LINE, "a", Outcome(status=Status.PARTIAL))
    rules = structs.replace(
        found.rules,
        mode=RoutingMode.AUTHORITATIVE,
        sidequests={"dig": DIG},
        stations=frozenset({"s"}),
        navigator_timeout_s=1.0,
    )
    return structs.replace(found, rules=rules, ask=ask)


def noted(choice: Choice) -> Said:
    """As it is read from the note."""
    place: dict[str, Any] = {
        "seq": 1,
        "ts": "2026-11-23T00:00:00.000Z",
        "flow_key": "f",
        "from_step": "a",
        "iteration": 1,
    }
    decision = Decision(**structs.asdict(choice), **place, routing_mode=RoutingMode.AUTHORITATIVE)
    (entry,) = parse_note(render_entry(decision))
    assert isinstance(entry, Decision)
    used = entry.explanation.navigator
    if used is None:
        return Said(entry.candidate_id, entry.routing_source.value, None, 0, None)
    return Said(entry.candidate_id, entry.routing_source.value, used.problem, used.tokens, used.cost_usd)


@dataclass(frozen=True)
class Case:
    """What the API answers, one reply after the other, the last one again and again; and what follows."""

    replies: tuple[Reply, ...]
    expected: Said


def case(name: str, expected: Said, *replies: Reply) -> Any:
    return pytest.param(Case(replies, expected), id=name)


ECHO = Reply((Text(f"no key {KEY} {'x' * 500}"),), status=400)
STOPPED_IN_TIME = structs.replace(chooses("repeat:a"), hang_s=1.5)
CASES = [
    case("the flow's own way", taken("advance:b"), chooses("advance:b")),
    case("the step again", taken("repeat:a"), chooses("repeat:a")),
    case("in two blocks", taken("repeat:a"), say('{"chosen_candidate_id": ', '"repeat:a"}')),
    case("a detour", Said("detour:dig", "navigator:detour"), chooses("detour:dig", why_now=WHY)),
    case("a skip", taken("skip:b"), chooses("skip:b", skip_justification=TOLD)),
    case("a node", taken("inject:node-n"), chooses(None, inject_nodes=[NODE], why_now=WHY)),
    case("a node for the flow", taken("inject:node-n"), chooses(None, extend_graph=[NODE], why_now=WHY)),
    case("no candidate", rejected("'deploy' is none of the candidates"), chooses("deploy")),
    case("a later step", rejected("'advance:c' is none of the candidates"), chooses("advance:c")),
    case("nothing chosen", rejected("no candidate was chosen"), chooses(None)),
    case("an empty name", rejected("'' is none of the candidates"), chooses("")),
    case("another's loop", rejected("'loop:b:iter_2' is none of the candidates"), chooses("loop:b:iter_2")),
    case("a detour without a reason", rejected(f"detour:dig {NEEDS_WHY}"), chooses("detour:dig")),
    case("a skip without a reason", rejected("skip:b needs skip_justification"), chooses("skip:b")),
    case("nodes without a reason", rejected(f"new nodes {NEED_WHY}"), chooses(None, inject_nodes=[NODE])),
    case(
        "a node of nobody",
        rejected("this run has no station 'x'"),
        chooses(None, inject_nodes=[{**NODE, "station": "x"}], why_now=WHY),
    ),
    case(
        "half a reason",
        rejected("the answer does not match its schema: why_now.relevance_to_charter: is missing"),
        chooses("detour:dig", why_now={"trigger": "t"}),
    ),
    case(
        "an unknown key",
        rejected(f"the answer does not match its schema: {NO_KEY}"),
        chooses("repeat:a", land=True),
    ),
    case("prose", rejected("the answer is not JSON: 'Again, I should say.'"), say("Again, I should say.")),
    case("brackets", rejected(f"the answer is not JSON: {'[' * 60!r}"), say("[" * 100_000)),
    case("nothing", rejected("the answer is not JSON: ''"), Reply((), "end_turn")),
    case("a list", rejected(f"the answer does not match its schema: {AN_OBJECT}"), say("[]")),
    case("a refusal", rejected("the model refused to answer"), Reply((Text("I cannot."),), "refusal")),
    case("cut off", rejected(CUT), Reply((Text('{"chosen_cand'),), "max_tokens")),
    case("cut off behind its end", rejected(CUT), structs.replace(chooses("repeat:a"), stop_reason="max_tokens")),
    case("a tool", rejected("the answer ended with tool_use"), use("Bash", command="git push")),
    case("429, then an answer", taken("repeat:a"), failing(429), chooses("repeat:a")),
    case("529, 500, then an answer", taken("repeat:a"), failing(529), failing(500), chooses("repeat:a")),
    case("429 for good", rejected("no answer: HTTP 429: no", 0, 0.0), failing(429)),
    case("500 for good", rejected("no answer: HTTP 500: no", 0, None), failing(500)),
    case("401", rejected("no answer: HTTP 401: no", 0, 0.0), failing(401)),
    case("404, no such model", rejected("no answer: HTTP 404: no", 0, 0.0), failing(404)),
    case("400", rejected("no answer: HTTP 400: no", 0, 0.0), failing(400)),
    case("an echo", rejected("no answer: HTTP 400: no key *** " + "x" * 189, 0, 0.0), ECHO),
    case("too late", rejected("no answer within 1 s", 0, None), STOPPED_IN_TIME),
]


NONE = "no answer: it is none of the API"
JSON = "application/json"
ODD = [
    pytest.param(b" ", 0.1, JSON, "no answer within 1 s", id="it drips"),
    pytest.param(b" " * 1_000_000, 0.0, JSON, "no answer: more than 1000000 bytes", id="it is endless"),
    pytest.param(b"<html>", 9.0, JSON, NONE, id="no JSON"),
    pytest.param(b"<html>", 9.0, "text/html", NONE, id="a page"),
    pytest.param(b"{}", 9.0, JSON, NONE, id="an empty object"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with serving() as made:
        yield made


def engine(**env: str) -> ClaudeEngine:
    profile = ClaudeProfile("anthropic", ClaudeSettings(), EngineAccess(env), lambda _model: PRICE, retry_wait_s=0.01)
    return ClaudeEngine(CliTransport(), profile, lambda: datetime.now(UTC))


def asked_by(made: ClaudeEngine, folder: Path) -> Ask:
    terms = RouteTerms("f", "a", 0, MODEL, folder, folder, {"PATH": "/usr/bin"})
    return lambda question: made.route(question, terms)


@pytest.mark.parametrize("told", CASES)
def test_what_the_note_says_of_an_answer(server: Loopback, tmp_path: Path, told: Case) -> None:
    url = server.play(tmp_path.name, lambda asked: told.replies[min(asked.number, len(told.replies)) - 1])
    made = engine(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=url)
    assert noted(decide(asking(asked_by(made, tmp_path)))) == told.expected
    assert len(server.of(tmp_path.name)) == (
        3 if len(told.replies) == 1 and told.expected.problem in RETRIED else len(told.replies)
    )


def test_a_question_is_one_request_with_its_schema(server: Loopback, tmp_path: Path) -> None:
    url = server.play("whole", lambda _asked: chooses("repeat:a"))
    decide(asking(asked_by(engine(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=url), tmp_path)))
    (asked,) = server.of("whole")
    assert (asked.model, asked.body["max_tokens"]) == (MODEL, MAX_TOKENS)
    assert asked.headers.get("x-api-key", asked.headers.get("authorization", "")).endswith(KEY)
    assert asked.said[0].startswith("# Where does the run go on after f/a?")
    assert asked.system.startswith("You are the navigator of a run")
    schema = asked.body["output_config"]["format"]["schema"]
    assert set(schema["properties"]) == set(RoutingSignal.__struct_fields__)


def test_no_redirect_is_followed(server: Loopback, tmp_path: Path) -> None:
    other = server.play("other", lambda _asked: chooses("repeat:a")).replace("127.0.0.1", "localhost")
    moved = Reply((Text("moved"),), status=307, headers={"Location": f"{other}/v1/messages"})
    url = server.play("moving", lambda _asked: moved)
    choice = decide(asking(asked_by(engine(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=url), tmp_path)))
    assert noted(choice) == rejected("no answer: HTTP 307: moved", 0, 0.0)
    assert server.of("other") == []


@pytest.mark.parametrize(("part", "pause_s", "kind", "problem"), ODD)
def test_what_is_no_answer_of_the_api_is_a_problem(
    tmp_path: Path, part: bytes, pause_s: float, kind: str, problem: str
) -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            end = time.monotonic() + 4 * (pause_s < 1)
            self.wfile.write(part)
            with suppress(ConnectionError):
                while time.monotonic() < end:
                    self.wfile.write(part)
                    time.sleep(pause_s)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        url = f"http://127.0.0.1:{served.server_address[1]}"
        begin = time.monotonic()
        choice = decide(asking(asked_by(engine(ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=url), tmp_path)))
        assert time.monotonic() - begin < 3
        assert noted(choice) == rejected(problem, 0, None)
        served.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "env",
    [{}, {"ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_USE_BEDROCK": "1"}],
    ids=["no key", "a key, but Bedrock answers"],
)
def test_without_a_key_the_run_s_engine_answers(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = RouteAnswer({"chosen_candidate_id": "repeat:a"}, Tokens.of(7, 1), 0.5)
    monkeypatch.setattr(ClaudeEngine, "_route_in_session", lambda *_asked: answer)
    found = noted(decide(asking(asked_by(engine(**env), tmp_path))))
    assert found == Said("repeat:a", "navigator", None, 8, 0.5)


def test_without_the_extra_nobody_is_asked_and_one_line_says_so(
    server: Loopback, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anthropic_api, "is_installed", lambda: False)
    monkeypatch.setattr(engine_module, "is_installed", lambda: False)
    found = noted(decide(asking(asked_by(engine(ANTHROPIC_API_KEY=KEY), tmp_path))))
    assert found == Said("advance:b", "fast_path", None, 0, None)
    line = f"git swarm start one --mode cli --model {MODEL}"
    files = {**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("a", "maker"), step("b", "maker")))}
    project.commit(files)
    keyed = having(
        project, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.play("none", lambda _asked: failing(400))
    )
    told = ask(keyed, *line.split()[2:]).stderr
    assert told.count(NOT_INSTALLED) == 1
    assert NOT_INSTALLED not in ask(keyed, *line.split()[2:], "--routing", "deterministic_only").stderr


def test_a_navigator_is_of_the_economy_tier_unless_a_model_is_named() -> None:
    policy = load_library(bundled("flows"), {}).policy()
    requests = (ModelRequest(), ModelRequest("claude-opus-5-5"))
    assert [navigator_model(policy, "claude-step", request) for request in requests] == [MODEL, "claude-opus-5-5"]
