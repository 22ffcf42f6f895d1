"""The events of seed 001 in the streams of real runs. What differs stands in docs/contracts.md, with the reason."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitswarm.ledger.journal import read_lines
from gitswarm.records.event import EventKind
from tests.conftest import Project
from tests.event_order import order_problems
from tests.projects import ask, new_project, only_run
from tests.routed import Case, drive, fires_after, flow, quest, set_up, step
from tests.routes.common import AUTHORITATIVE, HALF, JUSTIFIED, LINE, WHY, chooses
from tests.tables import table
from tests.waiting import wait_until

DOC = (Path(__file__).parent.parent / "docs" / "contracts.md").read_text(encoding="utf-8")

STARTED = {"role", "agents", "step_index", "engine"}
ENDED = {"status", "duration_ms", "engine"}
OFFROAD = {
    *("golden_path_step", "actual_step", "route_type", "rationale", "return_address", "confidence"),
    *("evaluated_conditions", "tie_breaker_used"),
}
PUSHED = {"paused_flow", "paused_step", "injected_flow", "current_depth"}

PAYLOADS: dict[str, set[str]] = {
    "run_created": {"stepwise"},
    "run_started": set(),
    "step_start": STARTED,
    "tool_start": set(),
    "tool_end": set(),
    "step_end": ENDED,
    "step_error": set(),
    "run_completed": set(),
    "run_stopping": set(),
    "run_stopped": set(),
    "run_pausing": set(),
    "run_paused": set(),
    "run_resumed": set(),
    "routing_decision": set(),
    "routing_offroad": OFFROAD,
    "flow_injected": set(),
    "node_injected": set(),
    "graph_extended": set(),
    "stack_push": PUSHED,
    "stack_pop": set(),
    "stack_overflow_prevented": set(),
    "facts_updated": set(),
    "assumption_recorded": set(),
    "decision_recorded": set(),
}
"""Every kind that the seed lists, with the keys of its examples. (Seed 000 has more keys: its own test.)"""

RENAMED = {"routing_decision": "route_decision"}
"""The seeds disagree, and seed 000 comes first. Each is in the list of deviations."""


@dataclass(frozen=True)
class Told:
    """A run, and the stream that `events --json` gives of it."""

    project: Project
    run: str

    @property
    def events(self) -> list[dict[str, Any]]:
        said = ask(self.project, "events", self.run, "--json").stdout
        return [json.loads(line) for line in said.splitlines()]

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.events if event["kind"] == kind]


HANDOFF = {
    "envelope": {
        "status": "PARTIAL",
        "summary": "half",
        "observations": ["the suite takes 40 s"],
        "assumptions": [{"statement": "one currency", "confidence": "low"}],
        "decisions": [{"subject": "rounding", "decision": "half even"}],
    },
    "run": ["echo seen"],
}
LOOK = quest("look", fires_after("a"), priority=60)
TOOL = flow("tool", step("t1"), utility=True)
NODE = {"id": "x", "station": "context-loader", "objective": "look"}
DEEP = quest(
    "deep",
    {"kind": "condition", "if": 'envelope.status == "PARTIAL"'},
    nested=True,
    max_uses_per_run=20,
    steps=[{"id": name, "station": "context-loader"} for name in ("one", "two")],
)

FAILS = Case(
    "a detour, a handoff that says much, a stop and a failure",
    [LINE],
    {"a": HANDOFF, "b": {"fail": "overloaded"}},
    (),
    sidequests=[LOOK],
    options=("--until", "a"),
    then=[("resume",)],
)
STOPS = Case("stopped", [LINE], {}, (), options=("--until", "f/a"))
NAVIGATED = Case(
    "a flow and nodes that a navigator injects, and a step that it leaves out",
    [flow("f", step("a"), step("b"), step("c"), step("d"), step("e")), TOOL],
    {
        "a": {**HALF, "route": {**chooses("inject:tool", why_now=WHY)["route"], "confidence": "high"}},
        "b": {**HALF, "route": {"extend_graph": [NODE], "why_now": WHY, "reasoning": "as I see it"}},
        "c": {**HALF, **chooses("skip:d", **JUSTIFIED)},
    },
    (),
    options=AUTHORITATIVE,
)
DEEPEST = Case(
    "ten interruptions are open",
    [LINE],
    {"a": HALF, "sq-deep-one": [*[HALF] * 10, {}]},
    (),
    sidequests=[DEEP],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seed")


def driven(folder: Path, name: str, case: Case) -> Told:
    (folder / name).mkdir()
    project = new_project(folder / name)
    return Told(project, drive(project, case))


@pytest.fixture(scope="module")
def fails(folder: Path) -> Told:
    return driven(folder, "fails", FAILS)


@pytest.fixture(scope="module")
def stops(folder: Path) -> Told:
    return driven(folder, "stops", STOPS)


@pytest.fixture(scope="module")
def navigated(folder: Path) -> Told:
    return driven(folder, "navigated", NAVIGATED)


@pytest.fixture(scope="module")
def deepest(folder: Path) -> Told:
    return driven(folder, "deepest", DEEPEST)


@pytest.fixture(scope="module")
def pauses(folder: Path) -> Told:
    """Asked to while its first step works."""
    (folder / "pauses").mkdir()
    project = new_project(folder / "pauses")
    script = set_up(project, Case("", [LINE], {"a": {"run": ['until test -e "$HOME/go"; do sleep 0.02; done']}}, ()))
    argv = project.argv("start", "f", "--script", script)
    with subprocess.Popen(argv, cwd=project.root, env=dict(project.env), stderr=subprocess.DEVNULL) as running:
        wait_until(lambda: list((project.root / ".git/swarm/journal").glob("*/f.a@1.jsonl")), "the step works")
        project.swarm("pause")
        Path(project.env["HOME"], "go").touch()
        assert running.wait(timeout=60) == 5
    return Told(project, only_run(project))


@pytest.fixture(scope="module")
def runs(fails: Told, stops: Told, navigated: Told, deepest: Told, pauses: Told) -> tuple[Told, ...]:
    return fails, stops, navigated, deepest, pauses


@pytest.fixture(scope="module")
def told(runs: tuple[Told, ...]) -> list[dict[str, Any]]:
    """All that these runs tell."""
    return [event for run in runs for event in run.events]


@table("kind", PAYLOADS)
def test_every_kind_of_the_seed_is_told_with_its_payload(told: list[dict[str, Any]], kind: str) -> None:
    name = RENAMED.get(kind, kind)
    payloads = [event["payload"] for event in told if event["kind"] == name]
    assert payloads, f"no run tells {name}"
    assert {key for payload in payloads for key in PAYLOADS[kind] - set(payload)} == set()


def test_the_streams_keep_the_order_of_seed_000(runs: tuple[Told, ...]) -> None:
    for run in runs:
        lines = ask(run.project, "events", run.run, "--json").stdout.encode()
        assert list(order_problems(read_lines(lines))) == []


def test_what_is_stored_keeps_to_verify(runs: tuple[Told, ...]) -> None:
    for run in runs:
        assert ask(run.project, "verify", run.run).code == 0


# --- values -----------------------------------------------------------------------------------------------------


def test_a_detour_says_what_it_is_taken_instead_of(fails: Told) -> None:
    (offroad,) = fails.payloads("routing_offroad")
    assert {key: offroad[key] for key in OFFROAD} == {
        "golden_path_step": "b",
        "actual_step": "sq-look-look",
        "route_type": "DETOUR",
        "rationale": 'look: envelope.step_id == "a" && envelope.status == "PARTIAL"',
        "return_address": "b",
        "confidence": None,
        "evaluated_conditions": ['envelope.step_id == "a" && envelope.status == "PARTIAL"'],
        "tie_breaker_used": False,
    }


def test_a_push_says_what_waits_and_for_what(fails: Told, navigated: Told) -> None:
    pushed = [*fails.payloads("stack_push"), *navigated.payloads("stack_push")]
    assert [tuple(each[key] for key in sorted(PUSHED)) for each in pushed] == [
        (1, "look", "f", "a"),
        (1, "tool", "f", "a"),
        (1, "x", "f", "b"),
    ]


def test_a_navigator_leaves_the_road_with_its_own_word(navigated: Told) -> None:
    names = ("route_type", "golden_path_step", "actual_step", "return_address", "confidence", "tie_breaker_used")
    assert [tuple(each[name] for name in names) for each in navigated.payloads("routing_offroad")] == [
        ("INJECT_FLOW", "b", "t1", "b", "high", True),
        ("INJECT_NODES", "c", "node-x", "c", None, True),
        ("SKIP", "d", "e", None, None, True),
    ]


def test_what_was_asked_for_is_told_before_the_end_that_it_leads_to(stops: Told, pauses: Told) -> None:
    assert [(each.kinds[-2:], each.events[-2]["payload"]) for each in (stops, pauses)] == [
        (["run_stopping", "run_stopped"], {"reason": "--until f/a"}),
        (["run_pausing", "run_paused"], {"reason": "asked by hand"}),
    ]


def test_a_run_that_ends_by_itself_was_asked_by_nobody(navigated: Told) -> None:
    assert [kind for kind in navigated.kinds if kind in ("run_stopping", "run_pausing")] == []


# --- what docs/contracts.md says --------------------------------------------------------------------------------


def documented() -> dict[str, str]:
    """Kind → what the table says of its payload."""
    rows = re.findall(
        r"^\| (`\w+`(?:[,;] `\w+`)*) \| (.+) \|$", DOC.split("\n## Events")[1].split("\n## ")[0], re.MULTILINE
    )
    return {kind: payload for kinds, payload in rows for kind in re.findall(r"\w+", kinds)}


def test_the_table_of_events_has_every_kind() -> None:
    assert set(documented()) == {kind.value for kind in EventKind}


def test_the_table_of_events_has_every_key_that_is_written(told: list[dict[str, Any]]) -> None:
    rows = documented()
    missing = {
        (event["kind"], key)
        for event in told
        for key in event["payload"]
        if not re.search(rf"\b{key}\b", rows[event["kind"]])
    }
    assert missing == set()


@table("kind", RENAMED)
def test_what_is_named_otherwise_is_declared(kind: str) -> None:
    assert f"`{kind}`" in DOC.split("\n## Deviations")[1]
