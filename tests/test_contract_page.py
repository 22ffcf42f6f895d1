"""docs/contracts.md names whatever a run stores and a command says in JSON: who reads it needs no source."""

from __future__ import annotations

import json
import re

import pytest
from msgspec import Struct

from gitswarm.ledger.next_command import LandingConflict
from gitswarm.ledger.overview import BudgetFields, LandedOn, OpenInterruption, RunOverview
from gitswarm.ledger.stored_json import ConcernFields, LastTests
from gitswarm.records.envelope import Envelope
from gitswarm.records.event import EventKind
from gitswarm.records.evidence import AcceptedConcern, Concern, Evidence
from gitswarm.records.execution import RunStatus
from gitswarm.records.receipt import Receipt, ToolCall
from gitswarm.records.routing import Decision
from gitswarm.runner.prompts import StepForecast
from tests.conftest import Project
from tests.documents import ROOT

PAGE = (ROOT / "docs/contracts.md").read_text("utf-8")


def named(word: str) -> bool:
    return re.search(rf"\b{word}\b", PAGE) is not None


@pytest.mark.parametrize(
    "record",
    [
        *(AcceptedConcern, BudgetFields, Concern, ConcernFields, Decision, Envelope, Evidence, LandedOn),
        *(LandingConflict, LastTests, OpenInterruption, Receipt, RunOverview, StepForecast, ToolCall),
    ],
)
def test_every_field_is_named(record: type[Struct]) -> None:
    assert [name for name in record.__struct_fields__ if not named(name)] == []


def test_every_kind_of_event_and_every_state_is_named() -> None:
    assert [each for each in (*EventKind, *RunStatus) if not named(each)] == []


def test_whatever_a_run_says_of_its_steps_is_named(project: Project) -> None:
    project.swarm("start", "build", "--until", "clarify")
    events = map(json.loads, project.swarm("events", "--json").stdout.splitlines())
    payloads = {name for event in events for name in event["payload"]}
    shown = {name for entry in project.json("log") for name in (*entry, *(entry["routing"] or ()))}
    (listed,) = project.json("list")
    whole = project.json("show")
    assert [name for name in sorted(payloads | shown | {*listed} | {*whole}) if not named(name)] == []


def test_every_trailer_is_named() -> None:
    source = "".join(path.read_text("utf-8") for path in sorted((ROOT / "gitswarm").rglob("*.py")))
    pages = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    trailers = set(re.findall(r"\bSwarm-[A-Z][A-Za-z-]+", source))
    assert sorted(each for each in trailers if each not in pages) == []
