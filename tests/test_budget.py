"""A limit that is reached pauses the run, says so, and holds whatever happens to the run."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.ledger import spent
from gitswarm.records.budget import Use
from gitswarm.records.execution import Execution
from gitswarm.records.text import Spent
from tests.conftest import Project
from tests.faults import NONE, Server
from tests.forking import AUDITS, steps, with_flow
from tests.projects import ask, only_run
from tests.routed import MAKER, command, flow, step
from tests.test_spent import stuck

DOLLAR = {"cost_usd": 1.0, "tokens": {"prompt": 900, "completion": 100}}


@pytest.fixture
def three(project: Project) -> Project:
    """With a flow of three steps."""
    return with_steps(project, *(step(name, "maker") for name in ("one", "two", "three")))


def with_steps(project: Project, *steps_: dict[str, Any], **more: Any) -> Project:
    project.commit({".swarm/flows/f.yaml": yaml.safe_dump(flow("f", *steps_, **more)), **MAKER})
    return project


def start(project: Project, *options: str, code: int = 5, **entries: Any) -> str:
    script = {"default": {"status": "VERIFIED", **DOLLAR}, "steps": entries}
    return project.start(json.dumps(script), *options, flow="f", code=code)


def reason(project: Project) -> str:
    """Of the standing decision, as `show --routing` has it."""
    return str(project.json("show", "--routing")[-1]["reason"])


def test_a_run_pauses_before_the_step_that_it_has_nothing_left_for(three: Project) -> None:
    run = start(three, "--max-cost", "2")
    assert steps(three) == ["one@1", "two@1"]
    found = three.json("status")
    assert (found["state"], found["next_step"]) == ("paused", "three")
    assert found["hint"] == f"git swarm resume {run} --max-cost 4"
    assert found["budget"]["told"] == "spent $2.00 of $2.00"
    assert "  budget    spent $2.00 of $2.00\n" in three.swarm("status").stdout
    assert reason(three) == "budget: the run spent $2.00 of $2.00; continue with: git swarm resume --max-cost 4"


def test_the_last_screen_says_what_was_spent_and_how_to_go_on(three: Project) -> None:
    said = ask(three, "start", "f", "--script", three.script(json.dumps({"default": DOLLAR})), "--max-cost", "1.5")
    assert said.code == 5
    assert "budget     spent $2.00 of $1.50\n" in said.stdout
    assert f"next       git swarm resume {only_run(three)} --max-cost 4\n" in said.stdout


def test_resume_goes_on_only_with_a_higher_limit_and_keeps_it(three: Project) -> None:
    start(three, "--max-cost", "1")
    three.swarm("resume", code=5)
    assert steps(three) == ["one@1"]
    three.swarm("resume", "--max-cost", "2", code=5)
    assert steps(three) == ["one@1", "two@1"]
    three.swarm("resume", code=5)
    assert three.json("status")["budget"]["max_cost_usd"] == 2
    three.swarm("resume", "--max-cost", "none")
    assert three.json("status")["state"] == "succeeded"
    assert three.json("status")["budget"] is None
    three.swarm("verify")


def test_a_rollback_gives_nothing_back(three: Project) -> None:
    start(three, "--max-cost", "2")
    three.swarm("rollback", "one")
    three.swarm("resume", code=5)
    assert steps(three) == ["one@1"]
    three.swarm("resume", "--max-cost", "3", code=5)
    assert steps(three) == ["one@1", "two@1"]


def test_a_forked_run_has_the_limits_of_its_own_and_nothing_spent(three: Project) -> None:
    start(three, "--max-cost", "1")
    three.swarm("resume", "--max-cost", "2", code=5)
    three.swarm("fork", "one", code=0)
    three.swarm("resume")
    found = three.json("status")
    assert (found["state"], found["budget"]["told"]) == ("succeeded", "spent $2.00 of $2.00")


def test_tokens_and_time_are_limits_too(three: Project) -> None:
    start(three, "--max-tokens", "1,500")
    assert reason(three).startswith("budget: the run used 2,000 of 1,500 tokens; ")
    start(three, "--max-time", "1s", one={**DOLLAR, "delay_ms": 1100})
    assert reason(three).startswith("budget: the run took 1s of 1s; ")


def test_a_step_that_meets_the_end_of_the_time_is_executed_again(three: Project) -> None:
    """Time that a run waits for a person does not count."""
    start(three, "--max-time", "1s", two=[{"hang": True}, DOLLAR])
    assert steps(three) == ["one@1", "two@1"]
    assert three.json("log")[-1]["result"] == "failed"
    assert three.json("status")["next_step"] == "two"
    three.swarm("resume", "--max-time", "30s")
    assert steps(three) == ["one@1", "two@1", "two@2", "three@1"]


def test_a_command_is_ended_when_the_time_is_over(project: Project) -> None:
    with_steps(project, command("lint", "sleep 60"), step("one", "maker"))
    script = project.script("default: {status: VERIFIED}\n")
    started = project.swarm("start", "f", "--script", script, "--max-time", "1s", code=5)
    said = str(project.json("log")[0]["summary"])
    assert re.fullmatch("sleep 60: ended after [01]s by --max-time", said)
    assert project.json("status")["state"] == "paused"
    for screen in (started.stderr, started.stdout, *(project.swarm(each).stdout for each in ("show", "log"))):
        assert said in screen


def test_a_limit_of_one_execution_ends_only_that(project: Project) -> None:
    with_steps(project, {**step("one", "maker"), "budget": {"max_time": "1s"}}, step("two", "maker"))
    start(project, code=4, one={"hang": True})
    assert project.json("status")["state"] == "failed"


def test_a_flow_has_limits_which_a_person_lifts(project: Project) -> None:
    with_steps(project, *(step(name, "maker") for name in ("one", "two")), budget={"max_cost_usd": 1})
    start(project, "--max-tokens", "1000000")
    assert reason(project) == "budget: the flow f spent $1.00 of $1.00; continue with: git swarm resume --max-cost 2"
    project.swarm("resume", "--max-cost", "2")


def test_the_branches_of_a_fork_share_what_is_left(project: Project) -> None:
    with_flow(project, AUDITS)
    project.start(json.dumps({"default": DOLLAR}), "--max-cost", "3", "--max-tokens", "4000", flow="fan", code=5)
    assert steps(project) == ["begin@1", "left@1"]
    events = [json.loads(line) for line in project.swarm("events", "--json").stdout.splitlines()]
    budgets = {each["step_id"]: each["payload"]["budget"] for each in events if each["kind"] == "step_start"}
    assert budgets["begin"] == {"cost_usd": 3.0, "tokens": 4000}
    assert budgets["left"] == {"cost_usd": 1.0, "tokens": 1500}
    project.swarm("resume", "--max-cost", "10", "--max-tokens", "none")
    assert steps(project) == ["begin@1", "left@1", "right@1", "both@1", "close@1"]


def test_an_unknown_cost_is_reserved_as_what_the_step_was_allowed(project: Project) -> None:
    own = {**step("one", "maker"), "budget": {"max_cost_usd": 1.5}}
    with_steps(project, own, step("two", "maker"), step("three", "maker"))
    start(project, "--max-cost", "2.5", one={**DOLLAR, "cost_usd": None})
    assert steps(project) == ["one@1", "two@1"]
    assert reason(project).startswith("budget: the run spent $1.00 of $2.50, and f/one@1 may have used $1.50 more; ")


def test_an_unknown_cost_without_a_limit_of_the_step_takes_what_was_left(three: Project) -> None:
    start(three, "--max-cost", "5", two={**DOLLAR, "cost_usd": None})
    assert steps(three) == ["one@1", "two@1"]
    found = three.json("status")["budget"]
    assert (found["cost_usd"], found["reserved_usd"]) == (1.0, 4.0)


def test_what_a_step_used_is_read_once(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    read = spent._use

    def counted(execution: Execution, used: Spent, events: bytes) -> Use:
        found.append(execution.name)
        return read(execution, used, events)

    monkeypatch.setattr(spent, "_use", counted)
    start(three, "--max-time", "1h", code=0)
    assert steps(three) == ["one@1", "two@1", "three@1"]
    assert found[:3] == ["f/one", "f/two", "f/three"]


def test_a_request_in_flight_at_a_kill_is_reserved(three: Project) -> None:
    with stuck(three, "f", "two", two={"cost_usd": None, "tokens": {"prompt": 1}, "run": ["sleep 1000"]}):
        pass
    three.swarm("resume", "--max-cost", "5", code=5)
    assert reason(three).startswith("budget: the run spent $0.00 of $5.00, and the cost of f/two@1 is not known")


def test_what_a_session_told_before_a_kill_is_not_all(three: Project) -> None:
    """Its newest request may be paid for and never answered; a stub has none."""
    with stuck(three, "f", "two", two={**DOLLAR, "run": ["sleep 1000"]}):
        pass
    (journal,) = (three.root / ".git/swarm/journal").glob("*/f.two@1.jsonl")
    kept = journal.read_text(encoding="utf-8")
    told = '"mode":"cli","budget":{"cost_usd":4.0,"tokens":5000}'
    kept = kept.replace('"mode":"stub"', told)
    assert "budget" in kept
    journal.write_text(kept, encoding="utf-8")
    three.swarm("resume", "--max-cost", "4", code=5)
    found = three.json("status")["budget"]
    assert (found["cost_usd"], found["reserved_usd"], found["reserved_tokens"]) == (1.0, 3.0, 4000)


def test_a_pause_that_was_recorded_holds_after_a_kill_and_goes_when_the_limit_is_raised(
    three: Project, tmp_path: Path
) -> None:
    """Killed between the decision to pause and the end of the run."""
    script = three.script(json.dumps({"default": DOLLAR}))
    with Server(tmp_path) as server:
        words = ("start", "f", "--script", script, "--max-cost", "1")
        counted = server.execute("count", words, three.root, three.env).stdout.splitlines()
        number = [line for line in counted if line.endswith("after Refs.swap routing")][-1].split()[0]
        killed = server.execute(number, words, three.root, three.env)
        assert killed.returncode == -signal.SIGKILL
        assert three.json("status")["state"] == "interrupted"
        assert server.execute(NONE, ("resume",), three.root, three.env).returncode == 5
    three.swarm("resume", "--max-cost", "10")
    assert steps(three) == ["one@1", "two@1", "three@1"]


def test_a_person_may_only_tighten_what_the_team_wrote(three: Project) -> None:
    three.commit({".swarm/config.yaml": "budget: {max_cost_usd: 2, max_tokens: 9000, max_time: 4h}\n"})
    three.git("config", "swarm.budget.maxCostUsd", "3")
    three.git("config", "swarm.budget.maxTime", "2h")
    start(three)
    found = three.json("status")["budget"]
    assert (found["max_cost_usd"], found["max_tokens"], found["max_time"]) == (2, 9000, 7200)


@pytest.mark.parametrize(
    ("option", "value"), [("--max-cost", "0"), ("--max-cost", "nan"), ("--max-tokens", "1.5"), ("--max-time", "soon")]
)
def test_what_is_no_amount_is_a_usage_error(three: Project, option: str, value: str) -> None:
    said = ask(three, "start", "f", option, value)
    assert said.code == 2
    assert f"{option} {value}: no amount above 0" in said.stderr


def test_an_agent_cannot_raise_a_limit(three: Project) -> None:
    run = start(three, "--max-cost", "1")
    environment = {**three.env, "SWARM_STEP_OF": run}
    said = ask(Project(three.root, environment), "resume", "--max-cost", "9")
    assert said.code == 1
    assert three.json("status")["budget"]["max_cost_usd"] == 1


def test_a_dry_run_says_whether_the_limits_are_above_the_worst(three: Project) -> None:
    said = ask(three, "start", "f", "--mode", "cli", "-m", "x", "--dry-run", "--max-cost", "0.5", "--max-time", "9h")
    assert "budget     $0.50 may be reached: then the run pauses\n" in said.stdout
    assert "budget     9h is more than that\n" in said.stdout
    assert "time       at most 3h, one step after the other\n" in said.stdout
    unknown = ask(three, "start", "f", "--mode", "cli", "-m", "x", "--model", "own", "--dry-run", "--max-cost", "99")
    assert "unknown    the price of own: " in unknown.stdout
    assert "budget     $99.00 may be reached: then the run pauses\n" in unknown.stdout
