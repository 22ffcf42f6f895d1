"""A limit that is reached in the middle of a session ends it; what was in flight at a kill is reserved."""

from __future__ import annotations

import time

import pytest
import yaml
from msgspec.structs import replace

from tests.claude.runs import asked, reaching
from tests.claude.stage import Stage, by, quick, terms_of
from tests.claude.test_usage import COST, ONE, PRICE, stuck, twice_then
from tests.conftest import Project
from tests.loopback.replies import WORK, always, bash, working
from tests.loopback.server import Loopback
from tests.routed import MAKER, flow, step

PRICED = replace(quick(step_timeout=60), prices=lambda _model: PRICE)


@by("cli")
def test_a_session_is_ended_after_the_answer_that_uses_too_many_tokens(stage: Stage, mode: str) -> None:
    told = stage.run(mode, always(WORK), profile=PRICED, terms=terms_of(max_tokens=2 * ONE))
    assert (told.outcome, told.detail) == ({"kind": "budget"}, "240 tokens used of 240 that were left")
    assert (told.result.tokens.total, told.result.cost_usd) == (2 * ONE, 2 * COST)
    assert stage.processes == []


@by("sdk")
def test_a_session_is_ended_when_the_time_is_over(stage: Stage, mode: str) -> None:
    told = stage.run(mode, twice_then(bash("sleep 1000")), profile=PRICED, deadline=time.monotonic() + 6)
    assert told.outcome == {"kind": "budget"}
    assert told.detail.endswith(" by --max-time")
    assert stage.processes == []


@by("cli")
def test_the_handoff_has_what_the_work_left(stage: Stage, mode: str) -> None:
    dear = replace(WORK, tokens_in=100_000)
    told = stage.run(mode, working(dear, dear), profile=PRICED, terms=terms_of(max_cost_usd=1.0))
    assert told.outcome["kind"] == "ok"
    assert told.handoff is not None


@by("cli")
def test_what_was_in_flight_at_a_kill_is_reserved(project: Project, loopback: Loopback, mode: str) -> None:
    """Each step of the run may use what is left; the one that was killed may have."""
    with stuck(project, loopback, mode, "--max-cost", "5") as (reached, _process):
        pass
    assert asked(reached, "status")["cost_usd"] == 2 * COST
    reached.swarm_process("resume", code=5)
    found = asked(reached, "status")
    assert found["budget"]["reserved_usd"] == round(5 - 2 * COST, 6)
    assert found["hint"].endswith("--max-cost 10")
    reached.swarm_process("resume", "--max-cost", "10")
    assert asked(reached, "status")["state"] == "succeeded"


@pytest.mark.soak
@by("sdk")
def test_a_step_that_the_runs_limit_cut_short_is_executed_again(
    project: Project, loopback: Loopback, mode: str
) -> None:
    project.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("work", "maker")))})
    reached = reaching(project, loopback, working(WORK, WORK))
    reached.swarm_process("start", "one", "--mode", mode, "--max-tokens", str(ONE), "-m", "x", code=5)
    assert asked(reached, "status")["next_step"] == "work"
    reached.swarm_process("resume", "--max-tokens", "100000")
    assert [each["iteration"] for each in asked(reached, "log")] == [1, 2]
