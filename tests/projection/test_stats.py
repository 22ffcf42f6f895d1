"""`git swarm stats`: the figures of three runs whose story is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gitswarm.projection.schema import LISTS, SHARES
from tests.conftest import Project
from tests.documents import ROOT
from tests.projects import ask, new_project
from tests.routed import CRITIC, flow, quest, step
from tests.test_spent import ONCE, stuck, used

LOOPING: dict[str, Any] = {
    "a": used(1),
    "b": [{"status": "UNVERIFIED", "can_further_iteration_help": "yes"}, {"cost_usd": None}],
}
"""The critic sends the author back once; the cost of its second execution is unknown."""

ASKING = {"a": {"status": "PARTIAL"}, "b": [{"status": "BLOCKED", "blockers": ["which?"]}, {"status": "VERIFIED"}]}
"""A detour, and a question that is answered."""

CHEATING = {"a": {"delete": ["tests/test_app.py"]}}
"""A claim that a fact contradicts, and a question that is not answered."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = new_project(tmp_path_factory.mktemp("stats"))
    files = {
        ".swarm/flows/two.yaml": flow("two", step("a"), step("b", CRITIC, kind="microloop", loop_target="a")),
        ".swarm/sidequests/dig.yaml": quest("dig", {"kind": "condition", "if": 'envelope.status == "PARTIAL"'}),
    }
    project.commit({path: yaml.safe_dump(content) for path, content in files.items()})
    project.commit({"tests/test_app.py": "def test_one():\n    assert True\n"})
    project.start(json.dumps({"steps": LOOPING}), flow="two")
    run = project.start(json.dumps({"steps": ASKING}), flow="two", code=5)
    project.swarm("resume", run, "-m", "this one")
    with stuck(project, "two", "b", a=used(2), b={**used(3), **ONCE}):
        pass
    project.swarm("resume")
    project.start(json.dumps({"steps": CHEATING}), flow="two", code=5)
    project.swarm("start", "two", "--script", project.script(json.dumps({"steps": {"b": LOOPING["b"][:1]}})))
    return project


def stats(project: Project, *arguments: str) -> dict[str, Any]:
    """Without what took how long."""
    found: dict[str, Any] = project.json("stats", *arguments)
    for rows in found.values():
        for row in rows if isinstance(rows, list) else ():
            row.pop("seconds", None)
    return found


def amounts(rows: list[dict[str, Any]], name: str) -> dict[str, tuple[int, int, float, int]]:
    return {row[name]: (row["times"], row["tokens"], row["known_usd"], row["unknown"]) for row in rows}


def test_how_many_of_how_many(told: Project) -> None:
    shares = {name: (share["met"], share["of"]) for name, share in stats(told)["shares"].items()}
    assert shares == {
        "first_pass": (6, 11),
        "reliability": (3, 5),
        "resumability": (2, 2),
        "crash_safety": (1, 1),
        "auditability": (29, 29),
        "cost_visibility": (23, 24),
    }


def test_cost_by_station_engine_and_model_with_what_is_unknown_beside_it(told: Project) -> None:
    found = stats(told)
    cut_off = {"cut_off": (1, 360, 0.0036, 0)}
    assert amounts(found["stations"], "station") == cut_off | {
        "code-implementer": (11, 480, 0.0048, 0),
        "code-critic": (10, 360, 0.0036, 1),
        "clarifier": (1, 0, 0.0, 0),
        "context-loader": (1, 0, 0.0, 0),
    }
    assert amounts(found["engines"], "engine") == cut_off | {"claude-step/stub": (23, 840, 0.0084, 1)}
    assert amounts(found["models"], "model") == cut_off | {"claude-stub": (23, 840, 0.0084, 1)}
    whole = told.json("cost", "--all")["total"]
    assert (whole["executions"], whole["tokens"], whole["cost_usd"]) == (24, 1200, None)


def test_what_did_not_go_straight(told: Project) -> None:
    found = stats(told)
    assert found["not_first_pass"] == [
        {"flow": "two", "step": "b", "entries": 4, "verified": 1, "rate": 0.25, "station": "code-critic"},
        {"flow": "two", "step": "a", "entries": 5, "verified": 3, "rate": 0.6, "station": "code-implementer"},
    ]
    assert [(row["step"], row["runs"], row["executions"], row["most"]) for row in found["loops"]] == [
        ("a", 3, 9, 5),
        ("b", 3, 9, 5),
    ]
    assert [(row["candidate_id"], row["times"], row["why_now"]) for row in found["detours"]] == [
        ("detour:clarifier", 1, "3 passes in a row left nothing new"),
        ("detour:dig", 1, 'envelope.status == "PARTIAL"'),
    ]
    assert found["stalls"] == [{"flow": "two", "from_step": "b", "times": 1, "passes": 3}]


def test_what_waits_and_what_is_claimed_against_the_facts(told: Project) -> None:
    found = stats(told)
    reasons = [(row["still"], row["reason"].partition(":")[0]) for row in found["human_waits"]]
    assert reasons == [(1, "tests_deleted@two/a"), (0, "b is BLOCKED")]
    (flag,) = found["flags"]
    assert (flag["flag"], flag["severity"], flag["station"], flag["times"]) == (
        *("tests_deleted", "critical", "code-implementer"),
        1,
    )


def test_of_one_run_and_of_those_that_are_not_older(told: Project) -> None:
    run = str(told.json("list")[-1]["run_id"])
    assert (stats(told, "--run", run)["runs"], stats(told, "-p", run)["shares"]["first_pass"]["of"]) == (1, 2)
    assert stats(told, "--since", "1h") == stats(told)
    assert told.swarm("stats", "--since", "0s").stdout == "no such runs\n"
    assert ask(told, "stats", "--since", "soon").code == 2


def test_people_get_lines_and_the_queries_to_ask_themselves(told: Project) -> None:
    lines = told.swarm("stats").stdout.splitlines()
    assert lines[:2] == ["5 runs", " 54.5 %  6 of 11 steps were VERIFIED by their first execution"]
    assert "cost and time by station" in lines
    queries = told.swarm("stats", "--sql").stdout
    assert queries.count("-- ") == len({**SHARES, **LISTS})
    for query in filter(str.strip, queries.split(";\n")):
        told.swarm("db", "query", "--", query)


def test_the_page_names_every_figure() -> None:
    page = (ROOT / "docs/db.md").read_text(encoding="utf-8")
    assert [name for name in (*SHARES, *LISTS) if f"| `{name}` |" not in page] == []
