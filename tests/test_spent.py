"""What a run spent is told whole: also what was cut off, taken back or dropped, and each of it once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from gitswarm.git.repository import open_repository
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.spent import payments, usage_in
from gitswarm.ledger.state import replay
from gitswarm.records.text import Spent, usd
from tests.conftest import Project
from tests.forking import AUDITS, WRITERS, sibling_refs, steps, trailers, with_flow
from tests.projects import only_run
from tests.routed import flow, step
from tests.waiting import wait_until


def used(count: int, **more: Any) -> dict[str, Any]:
    """An entry that uses `count` times 120 tokens and $0.0012."""
    tokens = {"prompt": 100 * count, "completion": 20 * count}
    return {"tokens": tokens, "cost_usd": round(0.0012 * count, 6), **more}


ONCE = {"run": ['[ "$SWARM_ITERATION" != 1 ] || sleep 1000']}
"""Hangs in its first execution, and in no other."""


def times(count: int) -> tuple[int, float]:
    return 120 * count, round(0.0012 * count, 6)


def totals(project: Project) -> tuple[int, float | None]:
    """As `status` has them; `list`, and what people read, have the same."""
    found = project.json("status")
    told = found["tokens"], found["cost_usd"]
    (listed,) = [each for each in project.json("list") if each["run_id"] == found["run_id"]]
    assert (listed["tokens"], listed["cost_usd"]) == told
    money = "$?" if told[1] is None else f"${told[1]:.2f}"
    for command in ("status", "log"):
        assert f"{told[0]} tokens, {money}" in project.swarm(command).stdout
    return told


@pytest.fixture
def two(project: Project) -> Project:
    """With a flow of two steps."""
    project.commit({".swarm/flows/two.yaml": yaml.safe_dump(flow("two", step("one"), step("other")))})
    return project


@contextmanager
def stuck(project: Project, name: str, place: str, **entries: Any) -> Iterator[subprocess.Popen[str]]:
    """A run of the flow `name` in which the first execution of the step `place` does not end."""
    words = project.argv("start", name, "--script", project.script(json.dumps({"steps": entries})))
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, cwd=project.root, env=dict(project.env), text=True, stdout=pipe, stderr=pipe)
    journals = project.root / ".git/swarm/journal"
    try:
        found = f"*/{name}.{place}@1.jsonl"
        wait_until(lambda: any(b'"usage"' in path.read_bytes() for path in journals.glob(found)), "it is stuck")
        yield process
    finally:
        process.kill()
        process.communicate()


def test_what_a_step_uses_counts_while_it_is_executed(two: Project) -> None:
    with stuck(two, "two", "other", one=used(1), other=used(2, hang=True)):
        assert totals(two) == times(3)


def test_a_step_that_is_stopped_is_counted_and_so_is_its_next_execution(two: Project) -> None:
    with stuck(two, "two", "other", one=used(1), other=used(2, **ONCE)) as process:
        two.swarm("stop", "--now")
        assert f"{times(3)[0]} tokens, $0.00" in process.communicate(timeout=30)[0]
    assert totals(two) == times(3)
    two.swarm("resume")
    assert totals(two) == times(5)


def test_a_step_that_is_killed_is_counted_before_and_after_it_is_set_aside(two: Project) -> None:
    with stuck(two, "two", "other", one=used(1), other=used(2, **ONCE)):
        pass
    assert totals(two) == times(3)
    two.swarm("stop")
    assert told(two) == ["two/other@1", "240", "0.002400"]
    assert totals(two) == times(3)
    two.swarm("resume")
    assert totals(two) == times(5)


def told(project: Project) -> list[str]:
    """What was set aside first says of the execution that was cut off, without its time."""
    name, _start, *amounts = trailers(project, f"refs/swarm/{only_run(project)}/rollback/1")["Swarm-Usage"].split()
    return [name, *amounts]


def test_a_killed_step_is_counted_when_the_run_is_rolled_back_behind_it(two: Project) -> None:
    with stuck(two, "two", "other", one=used(1), other=used(2, hang=True)):
        pass
    two.swarm("rollback", "one")
    assert totals(two) == times(3)
    two.swarm("rollback", "--undo")
    assert totals(two) == times(3)


def test_a_step_that_is_cut_off_counts_beside_one_of_the_same_number_that_was_taken_back(two: Project) -> None:
    run = two.start(json.dumps({"steps": {"one": used(1), "other": used(2)}}), flow="two")
    commit = two.git("rev-parse", f"shadow/{run}^")
    two.swarm("rollback", "one")
    events = two.git("show", f"{commit}:.swarm/runs/{run}/two/events/other@1.jsonl").replace('"ts":"20', '"ts":"30')
    journal = two.root / f".git/swarm/journal/{run}/two.other@1.jsonl"
    journal.write_text(f"{events}\n", encoding="utf-8")
    assert totals(two) == times(5)


def test_what_was_taken_back_counts_and_counts_once_when_it_is_back(two: Project) -> None:
    run = two.start(json.dumps({"steps": {"one": used(1), "other": used(2)}}), flow="two")
    two.swarm("rollback", "one")
    assert totals(two) == times(3)
    two.swarm("rollback", "--undo")
    assert totals(two) == times(3)
    two.swarm("rollback", "one")
    two.swarm("resume", run)
    assert totals(two) == times(5)


def test_a_step_between_its_commit_and_the_branch_counts_once(two: Project) -> None:
    """Its journal is there too, as the owner was killed before it went."""
    run = two.start(json.dumps({"steps": {"one": used(1), "other": used(2)}}), flow="two")
    other = two.git("rev-parse", f"shadow/{run}^")
    two.git("update-ref", f"refs/heads/shadow/{run}", f"{other}^")
    two.git("update-ref", f"refs/swarm/{run}/next", other)
    events = two.git("show", f"{other}:.swarm/runs/{run}/two/events/other@1.jsonl")
    journal = two.root / f".git/swarm/journal/{run}/two.other@1.jsonl"
    journal.write_text(f"{events}\n", encoding="utf-8")
    assert totals(two) == times(3)
    two.swarm("resume")
    assert totals(two) == times(3)


def test_a_branch_of_a_fork_that_nobody_waits_for_counts(project: Project) -> None:
    """One was ended; the other is replayed on the branch, which makes a second commit of it."""
    first = "right], join_strategy: first_complete}}\n  - {id: close"
    with_flow(project, AUDITS, ("right]}}\n  - {id: close", first))
    script = {"left": used(2, hang=True), "right": used(3, delay_ms=300)}
    run = project.start(json.dumps({"steps": script}), flow="fan")
    assert sorted(sibling_refs(project, run)) == ["right"]
    assert totals(project) == times(5)


def test_a_fork_that_is_cut_off_counts_what_all_its_branches_used(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project, "fan", "right", begin=used(1), left=used(2, **ONCE), right=used(4, **ONCE)) as process:
        journals = project.root / ".git/swarm/journal"
        wait_until(lambda: len([*journals.rglob("*@1.jsonl")]) == 2, "both are executed")
        wait_until(lambda: totals(project) == times(7), "both have told")
        project.swarm("stop", "--now")
        process.communicate(timeout=30)
    assert totals(project) == times(7)
    project.swarm("resume")
    assert steps(project)[1:3] == ["left@2", "right@2"]
    assert totals(project) == times(13)


def test_a_forked_run_does_not_pay_for_what_it_shares(two: Project) -> None:
    two.start(json.dumps({"steps": {"one": used(1), "other": used(2)}}), flow="two")
    two.swarm("fork", "one")
    assert steps(two) == ["one@1", "other@1"]
    assert totals(two) == times(2)


def test_an_unknown_cost_stays_unknown(two: Project) -> None:
    unknown = {**used(2), "cost_usd": None}
    with stuck(two, "two", "other", one=used(1), other={**unknown, **ONCE}) as process:
        assert totals(two) == (times(3)[0], None)
        two.swarm("stop", "--now")
        assert "360 tokens, $?" in process.communicate(timeout=30)[0]
    assert told(two) == ["two/other@1", "240", "unknown"]
    two.swarm("resume")
    assert totals(two) == (times(5)[0], None)


def test_a_navigator_counts_also_when_its_decision_was_taken_back(two: Project) -> None:
    """What an undo puts back was paid for once. The stub's navigator is free, so the note says another price."""
    half = {**used(1), "status": "PARTIAL", "route": {"chosen_candidate_id": "advance:other", "reasoning": "on"}}
    run = two.start(json.dumps({"steps": {"one": half, "other": used(2)}}), flow="two")
    one = two.json("log")[0]["commit"]
    ref = f"--ref=swarm/{run}/routing"
    note = two.git("notes", ref, "show", one)
    assert '"tokens": 0, "cost_usd": 0.0' in " ".join(note.split())
    paid = " ".join(note.split("\n  ")[1:]).replace('"tokens": 0, "cost_usd": 0.0', '"tokens": 7, "cost_usd": 0.01')
    two.git("notes", ref, "add", "-f", "-m", f"{note.splitlines()[0]}\n  {paid}", one)
    assert totals(two) == (367, 0.0136)
    two.swarm("rollback", "one")
    two.swarm("rollback", "--undo")
    assert len(two.json("show", "one", "--routing")) > 0
    assert totals(two) == (367, 0.0136)


def test_what_people_put_beside_it_does_not_count(two: Project) -> None:
    run = two.start(json.dumps({"steps": {"one": used(1)}}), flow="two")
    empty = two.git("hash-object", "-t", "tree", "-w", "--stdin", stdin="")
    for number, text in enumerate(("Swarm-Usage: x", "Swarm-Usage: a/b@c - 1 2", "Swarm-Usage: a b c, d/e@1 - x y")):
        commit = two.git("commit-tree", empty, "-m", f"mine\n\n{text}")
        two.git("update-ref", f"refs/swarm/{run}/rollback/{number + 5}", commit)
    assert totals(two) == times(1)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], Spent()),
        (['{"kind": "tool_start", "payload": {"input": "\\"usage\\""}}'], Spent()),
        (['{"kind":"usage","payload":{"tokens":{"total":7},"cost_usd":null}}'], Spent(7, None)),
        (
            [
                '{"kind":"usage","payload":{"tokens":{"total":7},"cost_usd":null}}',
                '{"kind":"usage","payload":{"tokens":{"total":9},"cost_usd":0.5}}',
                '{"kind":"usage","payload":{"tok',
            ],
            Spent(9, 0.5),
        ),
    ],
)
def test_the_last_whole_event_tells_what_was_used(lines: list[str], found: Spent) -> None:
    assert usage_in("\n".join(lines).encode()) == found


@pytest.mark.unit
def test_amounts_are_added_without_their_binary_noise() -> None:
    assert 0.1 + 0.2 != 0.3
    assert usd(0.1, 0.2) == 0.3
    assert usd(0.0024000000000000002) == 0.0024
    assert usd(1.0, None) is None
    assert usd() == 0


def test_stored_amounts_have_no_binary_noise(two: Project) -> None:
    run = two.start(json.dumps({"steps": {"one": {**used(1), "cost_usd": 0.0024000000000000002}}}), flow="two")
    base = f"shadow/{run}:.swarm/runs/{run}/two"
    assert '"cost_usd": 0.0024,' in two.git("show", f"{base}/receipts/one-code-implementer.json")
    assert "0.00240000" not in two.git("show", f"{base}/events/one@1.jsonl")
    repository = open_repository(two.root, two.env)
    assert payments(repository, replay(repository, RunLayout(run))).spent == Spent(120, 0.0024)


def test_an_amount_is_stored_with_six_digits_and_shown_with_two(two: Project) -> None:
    given = {"one": 0.1 + 0.2, "other": 0.0012345678}
    script = yaml.safe_dump({"steps": {name: {"cost_usd": cost} for name, cost in given.items()}})
    run = two.start(script, flow="two")
    events = [json.loads(line) for line in two.swarm("events", "--json").stdout.splitlines()]
    stored = {
        "receipt": [two.json("show", name)["receipt"]["cost_usd"] for name in given],
        "log": [each["cost_usd"] for each in two.json("log")],
        "usage": [event["payload"]["cost_usd"] for event in events if event["kind"] == "usage"],
        "step_end": [event["payload"]["cost_usd"] for event in events if event["kind"] == "step_end"],
        "trailer": [float(trailers(two, each["commit"])["Swarm-Cost-USD"]) for each in two.json("log")],
    }
    assert stored == {place: [0.3, 0.001235] for place in stored}
    assert totals(two) == (0, 0.301235)
    assert ", 0 tokens, $0.30\n" in two.swarm("show", "one", "--run", run).stdout
