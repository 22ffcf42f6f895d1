"""The contract of all modes: one script gives one run, whoever plays it.

What cannot be equal is named below; whatever is not named there is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.records.receipt import Receipt
from tests.claude.runs import STUB, Played, setting, without
from tests.claude.stage import TRANSPORTS
from tests.loopback.server import Loopback
from tests.projects import ask

LINE = """\
id: line
title: One after the other
steps:
  - {id: write, station: maker, teaching: {outputs: [summary.md, "src/**"]}}
  - id: critique
    station: judge
    teaching: {outputs: [critique.md]}
    routing: {kind: microloop, loop_target: write, max_iterations: 3}
  - {id: check, engine: command, command: {run: "cat src/answer.txt"}}
  - {id: half, station: maker}
  - {id: ask, station: maker}
  - {id: garbled, station: maker}
  - {id: close, engine: command, command: {run: "cat colour.txt"}, routing: {kind: terminal}}
"""
FAN = """\
id: fan
title: Side by side
steps:
  - {id: begin, engine: command, command: {run: "true"}, routing: {kind: fork, fork_targets: [one, two]}}
  - {id: one, station: judge, teaching: {outputs: [one.md]}}
  - {id: two, station: judge, teaching: {outputs: [two.md]}}
  - {id: read, engine: command, command: {run: "true"}, routing: {kind: join, join_from: [one, two], next: again}}
  - {id: again, engine: command, command: {run: "true"}, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: maker}
  - {id: right, station: maker}
  - {id: both, engine: command, command: {run: "true"}, routing: {kind: join, join_from: [left, right]}}
  - {id: close, engine: command, command: {run: "cat left.txt right.txt"}}
"""
FILES = {
    ".swarm/flows/line.yaml": LINE,
    ".swarm/flows/fan.yaml": FAN,
    ".swarm/flows/stations/maker.yaml": (
        "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
    ),
    ".swarm/flows/stations/judge.yaml": (
        "id: judge\ntitle: Judge\ncategory: critic\nidentity: You read.\ninvariants: [Be fair.]\n"
    ),
    "old.txt": "old\n",
}
LINE_SCRIPT = r"""
steps:
  write:
    - write: {src/answer.txt: "41\n", src/deep/more.txt: "more\n", RUN_BASE/line/summary.md: "# Written\n"}
      delete: [old.txt]
      run: ["chmod +x src/answer.txt", "ls no-such-file", "git push origin HEAD", "echo done"]
      summary: first try
      tokens: {prompt: 100, completion: 20}
    - {run: ["echo 42 > src/answer.txt"], output: now it is right}
  critique:
    - write: {RUN_BASE/line/critique.md: "off by one\n", src/answer_of_mine.txt: "42\n"}
      status: UNVERIFIED
      summary: off by one
      can_further_iteration_help: "yes"
      concerns: [it is 41]
    - {summary: right}
  half:
    - {status: PARTIAL, summary: half of it, route: {chosen_candidate_id: "repeat:half", reasoning: finish it}}
    - {status: PARTIAL, summary: most of it, route: "Go on, I should say."}
  garbled:
    - envelope: {status: DONE, summary: 7}
      output: it is done
  ask:
    - status: BLOCKED
      summary: which colour
      blockers: ["red or blue?"]
      route: {chosen_candidate_id: pause, reasoning: ask}
    - {write: {colour.txt: "blue\n"}}
"""
FORK_SCRIPT = r"""
steps:
  one: {write: {RUN_BASE/fan/one.md: "1\n"}, summary: read one}
  two: {write: {RUN_BASE/fan/two.md: "2\n"}, summary: read two}
  left: {write: {left.txt: "left\n"}, run: ["chmod +x left.txt"]}
  right: {write: {right.txt: "right\n"}}
"""

ENGINE_FACTS = ("mode", "model", "model_rule", "tokens", "cost_usd", "transport", "source")
"""Of a receipt, an event, a decision or a line of `log`: who did it and what that took."""

WORDING = ("output", "content")
"""What a tool says about what it did: `5 bytes`, or `File created successfully`; and what Write is given, which the
stub leaves to its script."""

ABOUT_NO_HANDOFF = ("outcome", "status_reason", "summary", "handoff_problem")
"""The CLI asks five times and tells how that failed; the stub says at once what is wrong with the only one."""

ONLY_IN_STUB = ["specs/script.json"]
SOURCES = {STUB: "kernel-executed", "sdk": "sdk", "cli": "cli-observed"}
TRANSPORT_NAMES = {STUB: "stub", "sdk": "claude-sdk", "cli": "claude-cli"}
DELETING = {"tool_name": "Bash", "input": {"command": "rm -f old.txt"}}
"""Claude has no tool that deletes; the stub's is called Delete."""

pytestmark = pytest.mark.soak
REAL_RUNS = [pytest.param((flow, mode), id=f"{flow}-{mode}") for flow in ("line", "fan") for mode in TRANSPORTS]


@dataclass
class Runs:
    """Each flow by each mode, when it is asked for."""

    folder: Path
    loopback: Loopback
    played: dict[tuple[str, str], Played] = field(default_factory=dict)

    def __call__(self, flow: str, mode: str) -> Played:
        if (flow, mode) not in self.played:
            self.played[flow, mode] = self._play(flow, mode)
        return self.played[flow, mode]

    def _play(self, flow: str, mode: str) -> Played:
        folder = self.folder / f"{flow}-{mode}"
        if flow == "fan":
            return setting(folder, mode, FORK_SCRIPT, FILES, self.loopback).start("fan")
        line = setting(folder, mode, LINE_SCRIPT, FILES, self.loopback)
        played = line.start("line", code=5)
        line.project.swarm_process("resume", "-m", "blue")
        return played


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, loopback: Loopback) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), loopback)


@pytest.fixture(params=REAL_RUNS)
def pair(request: pytest.FixtureRequest, runs: Runs) -> tuple[Played, Played]:
    """A run of a real mode, and the stub's."""
    flow, mode = request.param
    return runs(flow, mode), runs(flow, STUB)


def test_the_code_is_the_same_step_by_step(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert real.trees() == stub.trees()


def test_the_same_files_are_in_run_base_step_by_step(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert real.names() == [[name for name in names if name not in ONLY_IN_STUB] for names in stub.names()]


def test_the_handoffs_are_the_same(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert handoffs(real) == handoffs(stub)


def handoffs(played: Played) -> dict[str, Any]:
    found = played.papers("handoff")
    return {name: without(each, *_loose(name)) for name, each in found.items()}


def _loose(step: str) -> tuple[str, ...]:
    return ABOUT_NO_HANDOFF if step == "line/garbled@1" else ()


def test_the_evidence_is_the_same(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert real.papers("evidence") == stub.papers("evidence")


def test_the_receipts_are_the_same_but_for_facts_about_the_engine(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert receipts(real) == receipts(stub)


def receipts(played: Played) -> dict[str, Any]:
    found = played.papers("receipts")
    plain = {name: without(each, *ENGINE_FACTS, *WORDING, *_loose(name)) for name, each in found.items()}
    for each in plain.values():
        each["tool_calls"] = [_call(call) for call in each["tool_calls"]]
    return plain


def _call(call: dict[str, Any]) -> dict[str, Any]:
    reason = call["blocked_reason"]
    told = {"blocked_reason": reason.replace("$WORKTREE/", "")} if reason else {}
    return {**call, **told, **(DELETING if call["tool_name"] == "Delete" else {})}


@pytest.mark.parametrize("mode", TRANSPORTS)
def test_what_is_not_compared_in_receipts_says_which_mode_it_was(runs: Runs, mode: str) -> None:
    for each in (STUB, mode):
        receipt = runs("line", each).papers("receipts")["line/write@1"]
        sources = {call["source"] for call in receipt["tool_calls"]}
        said = (receipt["mode"], receipt["transport"], sources)
        assert said == (each, TRANSPORT_NAMES[each], {SOURCES[each]})
        assert receipt["tokens"]["total"] > 0


def test_all_papers_keep_their_schemas(pair: tuple[Played, Played]) -> None:
    """Records refuse what they do not know; docs/schemas is made of them. `verify` reads all of it again."""
    for played in pair:
        for kind, record in (("receipts", Receipt), ("handoff", Envelope), ("evidence", Evidence)):
            for paper in played.papers(kind).values():
                record.from_json(json.dumps(paper))
        assert ask(played.project, "verify", played.run).code == 0


def test_transcripts_tell_the_same_and_then_how_it_was_handed_over(pair: tuple[Played, Played]) -> None:
    """Behind the two halves of the prompt stands what Claude Code adds to them."""
    real, stub = pair
    handed_over = [("message", "user"), ("message", "assistant")]
    for name, lines in stub.papers("transcripts").items():
        told = shape(real.papers("transcripts")[name])
        if lines[0].get("role"):
            assert told.pop(2) == ("message", "system")
        asks = name != "line/garbled@1" and bool(lines[0].get("role"))
        assert told == shape(lines) + (handed_over if asks else told[len(lines) :])


def shape(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (line.get("type", "message"), line.get("role") or line["tool"].replace("Delete", "Bash")) for line in lines
    ]


def test_the_same_things_happen_in_the_same_order(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert happened(real) == happened(stub)


def happened(played: Played) -> dict[str, list[str]]:
    """Step → kinds of its events, without what is told of tokens: once by the stub, answer by answer otherwise."""
    found: dict[str, list[str]] = {}
    for event in (each for each in played.events() if each["kind"] != "usage"):
        found.setdefault(f"{event.get('step_id')}@{event.get('iteration')}", []).append(event["kind"])
    return found


def test_the_decisions_are_the_same(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    assert [without(each, *ENGINE_FACTS[:-1], "value") for each in real.routing()] == [
        without(each, *ENGINE_FACTS[:-1], "value") for each in stub.routing()
    ]


def test_the_log_is_the_same_but_for_facts_about_the_engine(pair: tuple[Played, Played]) -> None:
    real, stub = pair
    loose = (*ENGINE_FACTS, "commit", "summary")
    assert without(real.log(), *loose) == without(stub.log(), *loose)
