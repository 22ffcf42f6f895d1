"""What a session used is known answer by answer, so that it counts also when it is cut off."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from gitswarm.engines.claude.messages import AnswerUsage, Usage
from gitswarm.engines.claude.session import Meter
from gitswarm.records.event import EventKind
from gitswarm.records.receipt import Tokens
from tests.claude.runs import asked, reaching
from tests.claude.stage import LOGIN, Stage, by, quick, terms_of
from tests.conftest import Project
from tests.loopback.api import ApiRequest, Model, Reply, say, use
from tests.loopback.replies import WORK, always, bash, handed_over, limit_reached, working
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER, flow, step
from tests.waiting import wait_until

RESET = 4_102_444_800
PRICE = (3.0, 15.0)
ONE = 120
"""Tokens of an answer: 100 in, 20 out."""
COST = 0.0006
"""Of it, in US dollars."""

PRICED = replace(quick(step_timeout=5), prices=lambda _model: PRICE)


def spent(project: Project) -> tuple[int, float | None]:
    found = asked(project, "status")
    return found["tokens"], found["cost_usd"]


def twice_then(last: Reply) -> Model:
    """Two calls, of which the second is `last`, then the handoff."""

    def answer(asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return handed_over()
        return (WORK, last)[asked.turn] if asked.turn < 2 else say("done")

    return answer


STUCK = bash('[ "$SWARM_ITERATION" != 1 ] || sleep 1000')


def _is_stuck(journals: Path) -> bool:
    """And what both answers used is told."""
    told = [path.read_text(encoding="utf-8") for path in journals.rglob("*.jsonl")]
    return any("sleep 1000" in text and f'"total":{2 * ONE}' in text for text in told)


@contextmanager
def stuck(project: Project, loopback: Loopback, mode: str, *options: str) -> Iterator[tuple[Project, Any]]:
    """A run that hangs in the second call of its only step, with two requests answered."""
    project.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("work", "maker")))})
    reached = reaching(project, loopback, twice_then(STUCK))
    argv = project.argv("start", "one", "--mode", mode, "--model", "claude-sonnet-4-5", *options)
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, cwd=project.root, env=dict(reached.env), stdout=pipe, stderr=pipe, text=True)
    journals = project.root / ".git/swarm/journal"
    try:
        wait_until(lambda: _is_stuck(journals), "the second call is at work", seconds=20)
        yield reached, process
    finally:
        process.kill()
        process.communicate()


@by("cli")
def test_a_session_that_is_stopped_keeps_what_it_used(project: Project, loopback: Loopback, mode: str) -> None:
    with stuck(project, loopback, mode) as (reached, process):
        assert spent(reached) == (2 * ONE, 2 * COST)
        reached.swarm("stop", "--now")
        assert f"{2 * ONE} tokens" in process.communicate(timeout=30)[0]
    assert spent(reached) == (2 * ONE, 2 * COST)
    kept = reached.git("log", "-1", "--format=%B", f"refs/swarm/{only_run(reached)}/rollback/1")
    assert " 240 0.001200" in kept


@pytest.mark.soak
@by("sdk")
def test_a_session_that_is_killed_keeps_what_it_used(project: Project, loopback: Loopback, mode: str) -> None:
    with stuck(project, loopback, mode) as (reached, _process):
        pass
    assert spent(reached) == (2 * ONE, 2 * COST)
    reached.swarm_process("resume")
    (entry,) = asked(reached, "log")
    assert (entry["iteration"], entry["tokens"]) == (2, 4 * ONE)
    assert spent(reached) == (6 * ONE, round(6 * COST, 6))


@pytest.mark.soak
@by("cli")
def test_without_a_price_what_was_cut_off_is_unknown(project: Project, loopback: Loopback, mode: str) -> None:
    with stuck(project, loopback, mode, "--model", "claude-of-tomorrow") as (reached, process):
        reached.swarm("stop", "--now")
        assert "240 tokens, $?" in process.communicate(timeout=30)[0]
    assert spent(reached) == (2 * ONE, None)


@by("sdk")
def test_a_session_that_meets_a_usage_limit_keeps_what_it_used(stage: Stage, mode: str) -> None:
    told = stage.having(**LOGIN).run(mode, twice_then(limit_reached(RESET)))
    assert told.outcome == {"kind": "api_error", "status": 429, "resets_at": "2100-01-01T00:00:00.000Z"}
    assert told.result.tokens.total == ONE
    assert told.result.cost_usd == pytest.approx(COST)


@by("cli")
def test_a_session_that_takes_too_long_keeps_what_it_used(stage: Stage, mode: str) -> None:
    told = stage.run(mode, twice_then(bash("sleep 1000")), profile=PRICED)
    assert told.outcome == {"kind": "killed"}
    assert told.result.tokens == Tokens.of(200, 40)
    assert told.result.cost_usd == pytest.approx(2 * COST)


@by("sdk")
def test_a_session_that_was_never_answered_costs_nobody_knows_what(stage: Stage, mode: str) -> None:
    profile = replace(PRICED, settings=quick(step_timeout=3).settings)
    told = stage.run(mode, always(Reply(hang_s=60)), profile=profile)
    assert (told.result.tokens.total, told.result.cost_usd) == (0, None)
    assert usage(told.events) == [(0, None)]


@by("cli")
def test_each_answer_is_told_when_it_comes(stage: Stage, mode: str) -> None:
    """At its begin, and whole: with its own work, a subagent's, and the handoff."""
    order = {"description": "look", "subagent_type": "general-purpose", "prompt": "sub-task"}
    own = working(use("Agent", **order))

    def model(asked: ApiRequest) -> Reply:
        return say("looked") if "sub-task" in str(asked.body["messages"][0]) else own(asked)

    told = stage.run(mode, model, profile=PRICED, terms=terms_of(tools=("Agent", "Bash")))
    found = usage(told.events)
    assert found[0] == (0, None)
    assert found == sorted(found, key=lambda each: each[0])
    assert len(set(found)) == len(found)
    assert told.result.tokens.total == 4 * ONE
    # Of a subagent's answer the CLI tells no end: its begin has one token of output.
    assert found[-1][0] == 4 * ONE - 19


def usage(events: Any) -> list[tuple[Any, Any]]:
    return [
        (event.payload["tokens"]["total"], event.payload["cost_usd"])
        for event in events
        if event.kind is EventKind.USAGE
    ]


@pytest.mark.soak
@by("sdk")
def test_a_navigator_is_in_the_totals_of_its_run(project: Project, loopback: Loopback, mode: str) -> None:
    routed = flow("one", step("half", "maker"), step("close", "maker"))
    project.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(routed)})
    chosen = {"chosen_candidate_id": "advance:close", "reasoning": "on"}

    def model(asked: ApiRequest) -> Reply:
        if any("Where does the run go on" in text for text in asked.said):
            return say(json.dumps(chosen))
        is_half = any("# Step half of" in text for text in asked.said)
        return working(final=handed_over("PARTIAL" if is_half else "VERIFIED"))(asked)

    reached = reaching(project, loopback, model)
    reached.swarm_process("start", "one", "--mode", mode, "--model", "claude-sonnet-4-5")
    steps = asked(reached, "log")
    assert [entry["routing"]["routing_source"] for entry in steps][:1] == ["navigator"]
    assert [entry["tokens"] for entry in steps] == [2 * ONE, 2 * ONE]
    assert spent(reached) == (5 * ONE, round(5 * COST, 6))


# The meter itself.


def counted(name: str | None, completion: int, parent: str | None = None, prompt: int = 100) -> AnswerUsage:
    return AnswerUsage(name, parent, "m", prompt, float(prompt), completion)


@pytest.mark.unit
def test_an_answer_that_is_told_in_parts_counts_once() -> None:
    told: list[tuple[int, float | None]] = []
    meter = Meter(lambda said: said.billed / 1000, lambda tokens, cost: told.append((tokens.total, cost)))
    meter.begin()
    meter.count(counted("a", 1))
    meter.count(counted("a", 1))
    meter.count(counted("s", 1, parent="t"))
    meter.count(counted(None, 20, prompt=0))
    meter.begin()
    assert told == [(0, None), (101, 0.1), (202, 0.2), (221, 0.2)]


@pytest.mark.unit
def test_one_answer_without_a_price_makes_the_cost_unknown() -> None:
    meter = Meter(lambda said: None if said.id == "b" else 0.5, lambda _tokens, _cost: None)
    meter.count(counted("a", 20))
    before = meter.usage
    assert before == Usage(120, 100, 20, 0.5)
    assert meter.since(before) == Usage()
    meter.count(counted("b", 20))
    assert meter.usage.cost_usd is None
    assert meter.since(before) == Usage(120, 100, 20, None)


@pytest.mark.unit
def test_the_end_of_an_answer_whose_begin_was_never_told_counts_nothing() -> None:
    meter = Meter(lambda _said: 0.5, lambda _tokens, _cost: None)
    meter.count(counted(None, 20))
    assert meter.usage == Usage()


@pytest.mark.unit
def test_what_lies_in_the_cache_has_a_price_of_its_own_where_the_provider_is_anthropic() -> None:
    answer = AnswerUsage("a", None, "m", prompt=1_000_000, billed=100_000.0, completion=100_000)
    assert PRICED.price(answer) == pytest.approx(0.3 + 1.5)
    assert replace(PRICED, provider="anthropic_compat").price(answer) == pytest.approx(3 + 1.5)
    assert quick().price(answer) is None
