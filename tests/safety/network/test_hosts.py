"""Which hosts rules let through, and what is a rule."""

from __future__ import annotations

import pytest

from gitswarm.engines.base import EngineAccess
from gitswarm.engines.claude.claude_code import ClaudeSettings
from gitswarm.engines.claude.provider import ClaudeProfile
from gitswarm.errors import SpecError
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.safety import PolicyRules
from gitswarm.safety.sandbox.gateway import Upstream, is_allowed, local_ports, refusal
from gitswarm.settings import load_config
from tests.tables import table

RULES = ("example.org", "pypi.org:443", "*.npmjs.org", "*.dev:8443", "[2001:db8::1]:443", "10.0.0.7")


@table(
    ("host", "port", "answer"),
    [
        ("example.org", 443, True),
        ("example.org", 1, True),
        ("EXAMPLE.Org.", 443, True),
        ("www.example.org", 443, False),
        ("example.org.evil.net", 443, False),
        ("evilexample.org", 443, False),
        ("pypi.org", 443, True),
        ("pypi.org", 80, False),
        ("registry.npmjs.org", 443, True),
        ("a.b.npmjs.org", 80, True),
        ("npmjs.org", 443, False),
        (".npmjs.org", 443, False),
        ("evilnpmjs.org", 443, False),
        ("x.dev", 8443, True),
        ("x.dev", 443, False),
        ("[2001:db8::1]", 443, True),
        ("2001:db8::1", 443, True),
        ("10.0.0.7", 22, True),
        ("167772167", 22, False),
        ("example.org@evil.net", 443, False),
        ("example.org\x00.evil.net", 443, False),
        ("localhost", 80, False),
        ("", 443, False),
    ],
)
def test_what_rules_let_through(host: str, port: int, answer: object) -> None:
    assert is_allowed(host, port, RULES) is answer


def test_nothing_is_let_through_without_rules() -> None:
    assert not is_allowed("example.org", 443, ())
    assert not is_allowed("", 0, ("",))


def test_loopback_has_three_names() -> None:
    assert all(is_allowed(host, 5432, ["localhost:5432"]) for host in ("localhost", "127.0.0.1", "[::1]"))
    assert not is_allowed("127.0.0.1", 5433, ["localhost:5432"])
    assert local_ports(["localhost:5432", "127.0.0.1:8080", "[::1]:8080", "localhost", "x.org:1"]) == (5432, 8080)


def test_a_refusal_is_one_plain_line() -> None:
    assert refusal("x.org", 443) == "not in policy.allow_hosts: x.org:443"
    assert refusal("x\r\nSet-Cookie: a\x1b[2J", 1) == "not in policy.allow_hosts: x??Set-Cookie:?a?[2J:1"


@table("rule", ["a", "a.b:1", "*.a.b", "*.a.b:65", "[::1]:80", "127.0.0.1", "xn--abc.org", "a_b.c"])
def test_a_rule(rule: str) -> None:
    assert PolicyRules.from_plain({"allow_hosts": [rule]}).allow_hosts == (rule,)


@table("rule", ["", "*", "https://a.b", "a b", "a.b/c", "*a.b", "a:", "a:b", "a.", "-a", "u@h", "::1"])
def test_no_rule(rule: str) -> None:
    with pytest.raises(MistakesError):
        PolicyRules.from_plain({"allow_hosts": [rule]})


def test_a_person_only_tightens() -> None:
    team = "policy: {network: engine, allow_hosts: [a.org]}\n"
    assert load_config(team, {"swarm.policy.network": "none"}).policy.network == "none"
    assert load_config(team, {"swarm.policy.network": "allow"}).policy.network == "engine"
    assert load_config(None, {"swarm.policy.network": "allow"}).policy.network == "allow"
    assert load_config(None, {"swarm.policy.allowHosts": "[b.org]"}).policy.allow_hosts == ("b.org",)
    with pytest.raises(SpecError, match=r"policy\.allow_?hosts: this would loosen"):
        load_config(team, {"swarm.policy.allowhosts": "[b.org]"})


@table(
    ("env", "hosts"),
    [
        ({}, ("api.anthropic.com:443",)),
        ({"ANTHROPIC_BASE_URL": "https://llm.corp.example/v1"}, ("llm.corp.example:443",)),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:4001/x"}, ("127.0.0.1:4001",)),
        ({"ANTHROPIC_BASE_URL": "http://[::1]/x"}, ("[::1]:80",)),
        (
            {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"},
            ("bedrock-runtime.eu-west-1.amazonaws.com:443",),
        ),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": "https://v.example"}, ("v.example:443",)),
        ({"CLAUDE_CODE_USE_BEDROCK": "0"}, ("api.anthropic.com:443",)),
    ],
)
def test_where_a_model_is_asked(env: dict[str, str], hosts: tuple[str, ...]) -> None:
    assert ClaudeProfile("anthropic", ClaudeSettings(), EngineAccess(env)).hosts({}) == hosts


@table(
    ("env", "found"),
    [
        ({}, Upstream()),
        ({"https_proxy": "http://p:1", "HTTP_PROXY": "http://q:2", "NO_PROXY": "a"}, Upstream("http://p:1", "a")),
        ({"HTTP_PROXY": "q:2"}, Upstream("http://q:2")),
        ({"ALL_PROXY": "socks5://s:3"}, Upstream()),
    ],
)
def test_the_users_own_proxy(env: dict[str, str], found: Upstream) -> None:
    assert Upstream.of(env) == found
