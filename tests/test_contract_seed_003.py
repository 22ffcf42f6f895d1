"""Receipts as seed 003 has them: one shape of a tool call and one set of names for transports, whatever executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitswarm.records.receipt import Receipt, transport_of
from tests.conftest import Project
from tests.corpus.ask import Corpus
from tests.projects import new_project
from tests.tables import table

FOLDER = Path(__file__).parent / "corpus"

FLOW = """\
id: calls
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: {run: "echo 1 failed; exit 1"}}
"""
SCRIPT = """\
steps:
  write: {write: {a.txt: "1\\n"}, run: ["echo seen", "exit 3", "git push origin main"]}
"""

RECEIPT = {"step_id", "flow_key", "run_id", "transport", "duration_ms", "tool_calls"}
"""But for `token_counts`, which seed 000 calls `tokens`."""

CALL: dict[str, type | tuple[type, ...]] = {
    "tool_name": str,
    "input": dict,
    "output": str,
    "success": bool,
    "duration_ms": int,
    "blocked": bool,
    "blocked_reason": (str, type(None)),
    "source": str,
}
DECLARED = {"executed_input", "agent"}
SOURCES = {"sdk", "cli-observed", "kernel-executed"}


@pytest.fixture(scope="module")
def receipts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of a step of the stub and of a command step, as they are stored."""
    project = new_project(tmp_path_factory.mktemp("calls"))
    project.commit({".swarm/flows/calls.yaml": FLOW})
    project.start(SCRIPT, flow="calls", code=4)
    return {step: stored(project, step) for step in ("write", "test")}


def stored(project: Project, step: str) -> dict[str, Any]:
    receipt: dict[str, Any] = json.loads(project.swarm("show", step, "--receipt").stdout)
    return receipt


def test_a_receipt_has_the_fields_of_the_seed(receipts: dict[str, dict[str, Any]]) -> None:
    assert {step: RECEIPT - set(receipt) for step, receipt in receipts.items()} == {"write": set(), "test": set()}


def test_every_tool_call_has_the_same_fields_of_the_same_types(receipts: dict[str, dict[str, Any]]) -> None:
    for receipt in receipts.values():
        for call in receipt["tool_calls"]:
            assert set(call) == set(CALL) | DECLARED
            assert [name for name, kind in CALL.items() if not isinstance(call[name], kind)] == []
            assert call["source"] in SOURCES


def test_what_was_called_and_what_came_of_it(receipts: dict[str, dict[str, Any]]) -> None:
    told = [
        (call["tool_name"], call["success"], call["blocked"], call["source"])
        for step in ("write", "test")
        for call in receipts[step]["tool_calls"]
    ]
    assert told == [
        ("Write", True, False, "kernel-executed"),
        ("Bash", True, False, "kernel-executed"),
        ("Bash", False, False, "kernel-executed"),
        ("Bash", False, True, "kernel-executed"),
        ("Bash", False, False, "kernel-executed"),
    ]


def test_the_transport_of_each_step(receipts: dict[str, dict[str, Any]]) -> None:
    assert {step: receipt["transport"] for step, receipt in receipts.items()} == {"write": "stub", "test": "local"}


@table(
    ("engine", "mode", "name"),
    [
        ("claude-step", "sdk", "claude-sdk"),
        ("claude-step", "cli", "claude-cli"),
        ("gemini-step", "cli", "gemini-cli"),
        ("claude-step", "stub", "stub"),
        ("gemini-step", "stub", "stub"),
        ("kernel", "local", "local"),
    ],
)
def test_transports_have_the_names_of_the_seed(engine: str, mode: str, name: str) -> None:
    """What sessions of Claude store: tests/claude/test_parity.py."""
    assert transport_of(engine, mode) == name


# --- a run of format 1 ------------------------------------------------------------------------------------------

OLD_KEYS = {"paused_flow", "golden_path_step", "status_reason"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    packed = (FOLDER / "format-1.tar.gz").read_bytes()
    return Corpus.unpacked(packed, tmp_path_factory.mktemp("old") / "format-1")


def of_flow(corpus: Corpus, flow: str, state: str) -> str:
    listed = json.loads(corpus.swarm("list", "--json"))
    return next(str(run["run_id"]) for run in listed if (run["flow"], run["state"]) == (flow, state))


def test_a_run_keeps_the_receipts_that_it_began_with(old: Corpus) -> None:
    run = of_flow(old, "small", "stopped")
    before = json.loads(old.swarm("show", "write@1", "--run", run, "--receipt"))
    old.swarm("resume", run, "--until", "test", code=None)
    after = json.loads(old.swarm("show", "write@2", "--run", run, "--receipt"))
    for receipt in (before, after):
        calls = {(call.get("tool"), "tool_name" in call, call["source"]) for call in receipt["tool_calls"]}
        assert calls <= {("Write", False, "script"), ("Bash", False, "script")}
        assert (receipt["transport"], len(calls) > 0) == ("stub", True)
        read = Receipt.from_json(json.dumps(receipt))
        assert {(call.tool_name, call.source) for call in read.tool_calls} == {
            (name, "kernel-executed") for name, _new, _source in calls
        }
    assert set(before) == set(after) - {"sandbox", "network"}
    old.swarm("verify", run)


def test_a_run_keeps_the_events_that_it_began_with(old: Corpus) -> None:
    """A fork of it, which takes the same detour once more, and is stopped."""
    old.swarm(
        "fork", "write", "--run", of_flow(old, "detours", "succeeded"), "--until", "sq-look-twice-look", code=None
    )
    (run,) = {str(each["run_id"]) for each in json.loads(old.swarm("list", "--json"))[:1]}
    events = [json.loads(line) for line in old.swarm("events", run, "--json").splitlines()]
    kinds = [event["kind"] for event in events]
    assert {"stack_push", "routing_offroad"} <= set(kinds)
    assert {key for event in events for key in OLD_KEYS & set(event["payload"])} == set()
    assert not {"run_stopping", "run_pausing"} & set(kinds)
    old.swarm("verify", run)
