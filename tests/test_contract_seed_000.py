"""The contracts of seed 000, over the files of real runs of flow `build`.

Run `looped`: both critics send back once, run_tests fails once. Run `failed`: a step fails for good.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitswarm.engines.base import OUTPUT_BYTES, CommandOrder, Engine, StepRequest, StepResult
from gitswarm.engines.command import CommandEngine
from gitswarm.engines.stub import StubEngine
from gitswarm.ledger.journal import read_lines
from gitswarm.records.event import Event
from gitswarm.records.execution import Execution as Identity
from gitswarm.records.safety import Allow
from gitswarm.resources import bundled
from gitswarm.specs.compile import Prompt
from gitswarm.specs.library import load_library
from gitswarm.specs.script import Script
from tests.conftest import Project
from tests.event_order import order_problems
from tests.projects import ask, new_project, only_run

LOOPED = """\
default: {status: VERIFIED, summary: done, tokens: {prompt: 100, completion: 20}, cost_usd: 0.001}
steps:
  author_tests:
    - write: {tests/test_app.py: "def test_app(): assert False\\n"}
      run: ["echo seen; exit 1"]
    - write: {tests/test_app.py: "def test_app(): assert True\\n"}
  critique_tests:
    - {status: UNVERIFIED, can_further_iteration_help: yes, concerns: ["TC-1 asserts nothing"]}
    - {status: VERIFIED}
  implement: {write: {src/app.py: "print('hi')\\n", RUN_BASE/build/impl_changes_summary.md: "# changes\\n"}}
  critique_code:
    - {status: UNVERIFIED, can_further_iteration_help: yes}
    - {status: VERIFIED}
  run_tests:
    - {run: ["echo 1 failed; exit 1"]}
    - {run: ["echo 1 passed"]}
  verify_tests: {run: ["echo 1 passed"]}
  fix: {delete: [README.md]}
"""

FAILED = """\
steps:
  implement: {write: {half.py: "1\\n"}, fail: model overloaded}
"""

EXECUTED = [
    "load_context@1",
    "clarify@1",
    "author_tests@1",
    "critique_tests@1",
    "author_tests@2",
    "critique_tests@2",
    "implement@1",
    "critique_code@1",
    "implement@2",
    "critique_code@2",
    "run_tests@1",
    "implement@3",
    "critique_code@3",
    "run_tests@2",
    "mutate@1",
    "fix@1",
    "verify_tests@1",
    "write_docs@1",
    "self_review@1",
    "finalize@1",
]


@dataclass(frozen=True)
class Execution:
    """A committed execution with the files that its commit holds for it."""

    name: str
    commit: str
    receipt: dict[str, Any]
    transcript: list[str]


@dataclass(frozen=True)
class Played:
    """A run that was played to its end. `streamed` is what `start --json` said."""

    project: Project
    run: str
    streamed: str
    told: str
    executions: list[Execution]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.told.splitlines()]


def play(project: Project, *arguments: str, code: int = 0) -> Played:
    streamed = project.swarm("start", "build", "-m", "mend it", "--json", *arguments, code=code).stdout
    run = json.loads(streamed.splitlines()[0])["run_id"]
    executions = [read_execution(project, run, entry) for entry in log_of(project, run)]
    return Played(project, run, streamed, project.swarm("events", run, "--json").stdout, executions)


def log_of(project: Project, run: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(ask(project, "log", run, "--json").stdout)
    return entries


def read_execution(project: Project, run: str, entry: Mapping[str, Any]) -> Execution:
    """From the paths that seed 000 names, through plain git."""
    step, agent, commit = entry["step"], entry["agent"], entry["commit"]
    base = f"{commit}:.swarm/runs/{run}/build"
    engine = entry["engine"].removesuffix("-step")
    return Execution(
        name=f"{step}@{entry['iteration']}",
        commit=commit,
        receipt=json.loads(project.git("show", f"{base}/receipts/{step}-{agent}.json")),
        transcript=project.git("show", f"{base}/llm/{step}-{agent}-{engine}.jsonl").splitlines(),
    )


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> Played:
    project = new_project(tmp_path_factory.mktemp("looped"))
    return play(project, "--script", project.script(LOOPED))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Played:
    project = new_project(tmp_path_factory.mktemp("failed"))
    return play(project, "--script", project.script(FAILED), code=4)


@pytest.fixture(scope="module", params=["looped", "failed"])
def played(request: pytest.FixtureRequest) -> Played:
    found: Played = request.getfixturevalue(request.param)
    return found


def test_the_run_went_as_the_script_says(looped: Played) -> None:
    assert [execution.name for execution in looped.executions] == EXECUTED


# --- receipts ---------------------------------------------------------------------------------------------------


def is_time(value: object) -> bool:
    """ISO 8601 with a time zone."""
    return isinstance(value, str) and datetime.fromisoformat(value).utcoffset() is not None


def one_of(*values: str) -> Callable[[object], bool]:
    return lambda value: value in values


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def is_tokens(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"prompt", "completion", "total"}:
        return False
    return (
        all(is_count(count) for count in value.values()) and value["total"] == value["prompt"] + value["completion"]
    )


# Engines, modes and providers of commands are a declared extension (docs/contracts.md).
REQUIRED_FIELDS: dict[str, Callable[[object], bool]] = {
    "engine": one_of("claude-step", "gemini-step", "command"),
    "mode": one_of("stub", "sdk", "cli", "local"),
    "provider": one_of("anthropic", "anthropic_compat", "gemini", "none"),
    "model": is_text,
    "step_id": is_text,
    "flow_key": is_text,
    "run_id": is_text,
    "agent_key": is_text,
    "started_at": is_time,
    "completed_at": is_time,
    "duration_ms": is_count,
    "status": one_of("succeeded", "failed"),
    "tokens": is_tokens,
    "transcript_path": is_text,
}


@pytest.mark.parametrize("field", REQUIRED_FIELDS)
def test_every_receipt_has_the_required_field_with_its_type(played: Played, field: str) -> None:
    wrong = {
        e.name: e.receipt.get(field) for e in played.executions if not REQUIRED_FIELDS[field](e.receipt.get(field))
    }
    assert wrong == {}


def test_every_receipt_names_its_own_step_flow_and_run(played: Played) -> None:
    said = [f"{e.receipt['flow_key']}/{e.receipt['step_id']}@{e.receipt['iteration']}" for e in played.executions]
    assert said == [f"build/{execution.name}" for execution in played.executions]
    assert {execution.receipt["run_id"] for execution in played.executions} == {played.run}


def test_every_receipt_ends_after_it_began(played: Played) -> None:
    wrong = [e.name for e in played.executions if e.receipt["completed_at"] < e.receipt["started_at"]]
    assert wrong == []


def test_every_receipt_leads_to_its_transcript(played: Played) -> None:
    for execution in played.executions:
        path = f".swarm/runs/{played.run}/build/{execution.receipt['transcript_path']}"
        assert played.project.git("show", f"{execution.commit}:{path}").splitlines() == execution.transcript


def test_the_newest_receipts_lie_at_their_paths(looped: Played) -> None:
    flow = load_library(bundled("flows"), {}).flow("build").flow
    folder = f"shadow/{looped.run}:.swarm/runs/{looped.run}/build/receipts"
    names = looped.project.git("ls-tree", "--name-only", folder).splitlines()
    assert sorted(names) == sorted(f"{step.id}-{step.agent}.json" for step in flow.steps)


def test_only_a_failed_step_has_an_error(looped: Played, failed: Played) -> None:
    errors = {e.name: e.receipt["error"] for e in [*looped.executions, *failed.executions] if "error" in e.receipt}
    assert errors == {"implement@1": "model overloaded"}


def test_a_failed_step_is_failed_and_all_others_succeeded(failed: Played) -> None:
    assert {execution.name: execution.receipt["status"] for execution in failed.executions} == {
        "load_context@1": "succeeded",
        "clarify@1": "succeeded",
        "author_tests@1": "succeeded",
        "critique_tests@1": "succeeded",
        "implement@1": "failed",
    }


def test_tokens_and_cost_are_what_the_engine_said(looped: Played) -> None:
    by_engine = {
        (e.receipt["engine"], json.dumps(e.receipt["tokens"]), e.receipt["cost_usd"]) for e in looped.executions
    }
    spent = json.dumps({"prompt": 100, "completion": 20, "total": 120})
    nothing = json.dumps({"prompt": 0, "completion": 0, "total": 0})
    assert by_engine == {("claude-step", spent, 0.001), ("command", nothing, 0.0)}


def test_routing_stands_in_the_receipts_of_microloop_critics_and_nowhere_else(looped: Played) -> None:
    fields = ("loop_iteration", "max_iterations", "decision")
    found = {
        e.name: tuple(e.receipt["routing"][field] for field in fields)
        for e in looped.executions
        if "routing" in e.receipt
    }
    assert found == {
        "critique_tests@1": (0, 3, "loop"),
        "critique_tests@2": (1, 3, "advance"),
        "critique_code@1": (0, 4, "loop"),
        "critique_code@2": (1, 4, "advance"),
        "critique_code@3": (2, 4, "advance"),
    }


def test_routing_says_why(looped: Played) -> None:
    """In the seed's own example the number in `loop_iteration:<n>` is that of the field `loop_iteration`."""
    found = {e.name: e.receipt["routing"]["reason"] for e in looped.executions if "routing" in e.receipt}
    assert found == {
        "critique_tests@1": "loop_iteration:0",
        "critique_tests@2": "status:VERIFIED",
        "critique_code@1": "loop_iteration:0",
        "critique_code@2": "status:VERIFIED",
        "critique_code@3": "status:VERIFIED",
    }


def test_what_a_receipt_says_about_routing_is_what_was_decided(looped: Played) -> None:
    said = {e.name: e.receipt["routing"]["decision"] for e in looped.executions if "routing" in e.receipt}
    decided = {
        f"{entry['step']}@{entry['iteration']}": entry["routing"]["decision"]
        for entry in log_of(looped.project, looped.run)
    }
    assert said == {name: decided[name] for name in said}


# --- transcripts ------------------------------------------------------------------------------------------------


def line_problem(line: dict[str, Any]) -> str | None:
    """What seed 000 misses in a line of a transcript."""
    if not is_time(line.get("timestamp")):
        return "timestamp"
    if "role" in line:
        fine = line["role"] in ("system", "user", "assistant") and isinstance(line.get("content"), str)
        return None if fine else "message"
    if line.get("type") == "tool_use":
        return None if is_text(line.get("tool")) and isinstance(line.get("input"), dict) else "tool_use"
    if line.get("type") == "tool_result":
        fine = isinstance(line.get("success"), bool) and isinstance(line.get("output"), str)
        return None if fine and is_text(line.get("tool")) else "tool_result"
    return "neither role nor type"


def test_every_line_of_a_transcript_is_json_with_the_required_fields(played: Played) -> None:
    problems = {
        execution.name: [line_problem(json.loads(line)) for line in execution.transcript]
        for execution in played.executions
    }
    assert problems == {execution.name: [None] * len(execution.transcript) for execution in played.executions}


def test_no_transcript_is_empty(played: Played) -> None:
    assert [execution.name for execution in played.executions if not execution.transcript] == []


def test_every_tool_use_is_followed_by_its_result(looped: Played) -> None:
    for execution in looped.executions:
        tools = [line for line in map(json.loads, execution.transcript) if "type" in line]
        kinds = [(line["type"], line["tool"]) for line in tools]
        uses = [tool for kind, tool in kinds if kind == "tool_use"]
        assert kinds == [pair for tool in uses for pair in (("tool_use", tool), ("tool_result", tool))]


def test_the_tool_calls_of_a_receipt_are_those_of_its_transcript(looped: Played) -> None:
    for execution in looped.executions:
        lines = [json.loads(line) for line in execution.transcript]
        uses = [(line["tool"], line["input"]) for line in lines if line.get("type") == "tool_use"]
        assert [(call["tool_name"], call["input"]) for call in execution.receipt["tool_calls"]] == uses


def test_a_command_that_ended_non_zero_is_a_failed_tool_call(looped: Played) -> None:
    calls = {
        execution.name: [call["success"] for call in execution.receipt["tool_calls"]]
        for execution in looped.executions
        if execution.receipt["tool_calls"]
    }
    assert calls == {
        "author_tests@1": [True, False],
        "author_tests@2": [True],
        "implement@1": [True, True],
        "implement@2": [True, True],
        "run_tests@1": [False],
        "implement@3": [True, True],
        "run_tests@2": [True],
        "fix@1": [True],
        "verify_tests@1": [True],
    }


def test_the_transcript_of_a_session_has_its_prompt_and_its_answer(looped: Played) -> None:
    (first,) = (execution for execution in looped.executions if execution.name == "load_context@1")
    roles = [json.loads(line)["role"] for line in first.transcript]
    assert (roles, "mend it" in first.transcript[1]) == (["system", "user", "assistant"], True)


def test_the_transcript_of_a_command_has_its_output(looped: Played) -> None:
    (first,) = (execution for execution in looped.executions if execution.name == "run_tests@1")
    outputs = [line["output"] for line in map(json.loads, first.transcript) if "output" in line]
    assert outputs == ["1 failed\n"]


# --- events -----------------------------------------------------------------------------------------------------

PAYLOADS: dict[str, set[str]] = {
    "run_created": {"flows", "backend", "initiator", "stepwise"},
    "run_started": {"mode", "routing_enabled"},
    "run_completed": {"status", "error", "steps_completed", "total_steps_executed"},
    "step_start": {"role", "agents", "step_index", "engine"},
    "step_end": {"status", "duration_ms", "engine"},
    "step_error": {"status", "duration_ms", "error", "engine"},
    "tool_start": {"tool", "input"},
    "tool_end": {"tool", "success", "output"},
    "route_decision": {"from_step", "to_step", "reason", "loop_state", "routing_source"},
}
SOURCES = {"fast_path", "deterministic", "navigator", "navigator:detour", "envelope_fallback", "escalate"}


def of_kind(played: Played, *kinds: str) -> Iterator[dict[str, Any]]:
    return (event for event in played.events if event["kind"] in kinds)


def test_every_event_has_the_payload_of_its_kind(played: Played) -> None:
    missing = {
        event["kind"]: PAYLOADS[event["kind"]] - set(event["payload"])
        for event in of_kind(played, *PAYLOADS)
        if PAYLOADS[event["kind"]] - set(event["payload"])
    }
    assert missing == {}


def test_every_event_has_its_run_and_time(played: Played) -> None:
    assert {(event["run_id"], is_time(event["ts"])) for event in played.events} == {(played.run, True)}


def test_a_stream_has_no_problem_of_order(played: Played) -> None:
    assert list(order_problems(read_lines(played.told.encode()))) == []


def test_run_created_comes_first_run_started_second_run_completed_last(played: Played) -> None:
    """The same again without the product's own check."""
    kinds = [event["kind"] for event in played.events]
    counts = Counter(kinds)
    assert (kinds[:2], kinds[-1]) == (["run_created", "run_started"], "run_completed")
    assert [counts[kind] for kind in ("run_created", "run_started", "run_completed")] == [1, 1, 1]


def test_every_execution_starts_once_and_then_ends_once(played: Played) -> None:
    """The same again without the product's own check."""
    borders = [
        (event["kind"] == "step_start", f"{event['step_id']}@{event['iteration']}")
        for event in of_kind(played, "step_start", "step_end", "step_error")
    ]
    assert borders == [(start, execution.name) for execution in played.executions for start in (True, False)]


def test_tools_run_between_start_and_end_of_their_step(looped: Played) -> None:
    inside = None
    for event in looped.events:
        here = f"{event.get('step_id')}@{event.get('iteration')}"
        if event["kind"] == "step_start":
            inside = here
        elif event["kind"] in ("step_end", "step_error"):
            inside = None
        elif event["kind"] in ("tool_start", "tool_end"):
            assert inside == here


def test_times_never_go_back(played: Played) -> None:
    times = [event["ts"] for event in played.events]
    assert times == sorted(times)


def test_every_execution_is_led_to_by_a_decision(played: Played) -> None:
    decided = [event["payload"]["to_step"] for event in of_kind(played, "route_decision")]
    assert decided == [*(execution.name.partition("@")[0] for execution in played.executions), None]


def test_every_decision_says_how_it_was_made(played: Played) -> None:
    assert {event["payload"]["routing_source"] for event in of_kind(played, "route_decision")} <= SOURCES


def test_a_step_error_tells_the_error_and_ends_the_run_failed(failed: Played) -> None:
    (error,) = of_kind(failed, "step_error")
    (completed,) = of_kind(failed, "run_completed")
    assert (error["step_id"], error["payload"]["status"], error["payload"]["error"]) == (
        "implement",
        "failed",
        "model overloaded",
    )
    assert completed["payload"] == {
        "status": "failed",
        "error": "build/implement failed: model overloaded",
        "steps_completed": 4,
        "total_steps_executed": 5,
    }


def test_a_run_that_went_well_counts_steps_and_executions(looped: Played) -> None:
    (completed,) = of_kind(looped, "run_completed")
    assert completed["payload"] == {
        "status": "succeeded",
        "error": None,
        "steps_completed": 13,
        "total_steps_executed": 20,
    }


def test_the_start_of_a_run_says_what_was_asked_for(looped: Played) -> None:
    created, started = looped.events[:2]
    assert created["payload"] == {
        "flows": ["build"],
        "backend": "claude-step",
        "initiator": "cli",
        "stepwise": True,
    }
    assert (started["payload"]["mode"], started["payload"]["routing_enabled"]) == ("stepwise", True)


def test_what_start_streams_is_what_events_tells_afterwards(played: Played) -> None:
    assert played.streamed == played.told


# --- mode and engine parity -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unscripted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Played]:
    """A run of each session engine without a script."""
    found = {}
    for engine in ("claude-step", "gemini-step"):
        project = new_project(tmp_path_factory.mktemp(engine))
        found[engine] = play(project, "--engine", engine, "--mode", "stub")
    return found


def run_files(played: Played) -> dict[str, str]:
    """Content by path in RUN_BASE, from the branch's tip."""
    listed = played.project.git("ls-tree", "-r", "--name-only", f"shadow/{played.run}:.swarm/runs/{played.run}")
    return {name: f"shadow/{played.run}:.swarm/runs/{played.run}/{name}" for name in listed.splitlines()}


def test_both_session_engines_leave_the_same_files(unscripted: Mapping[str, Played]) -> None:
    claude, gemini = (sorted(run_files(unscripted[engine])) for engine in ("claude-step", "gemini-step"))
    assert [name.replace("-claude.jsonl", "-gemini.jsonl") for name in claude] == gemini


def test_both_session_engines_write_the_same_fields(unscripted: Mapping[str, Played]) -> None:
    claude, gemini = (
        [list(execution.receipt) for execution in unscripted[engine].executions]
        for engine in ("claude-step", "gemini-step")
    )
    assert claude == gemini


def test_both_session_engines_emit_the_same_sequence(unscripted: Mapping[str, Played]) -> None:
    claude, gemini = (
        [(event["kind"], event.get("step_id")) for event in unscripted[engine].events]
        for engine in ("claude-step", "gemini-step")
    )
    assert claude == gemini


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("claude-step", ("claude-step", "stub", "anthropic", "claude-stub")),
        ("gemini-step", ("gemini-step", "stub", "gemini", "gemini-stub")),
    ],
)
def test_a_receipt_names_engine_mode_provider_and_model(
    unscripted: Mapping[str, Played], engine: str, said: tuple[str, ...]
) -> None:
    fields = ("engine", "mode", "provider", "model")
    found = {tuple(e.receipt[field] for field in fields) for e in unscripted[engine].executions}
    assert found == {said, ("command", "local", "none", "none")}


def test_without_a_script_every_promised_output_is_written_small_and_marked(
    unscripted: Mapping[str, Played],
) -> None:
    played = unscripted["claude-step"]
    library = load_library(bundled("flows"), {})
    flow = library.flow("build").flow
    stations = [library.station(step.station).station for step in flow.steps if step.station]
    promised = {name for step in flow.steps for name in step.teaching.output_names}
    promised |= {name for station in stations for name in station.io.outputs}
    files = run_files(played)
    wanted = sorted(f"build/{name}" for name in promised if not re.search(r"[*?\[/]", name))
    contents = {name: played.project.git("show", files[name]) for name in wanted if name in files}
    assert sorted(contents) == wanted
    assert {name for name, text in contents.items() if len(text) > 500} == set()
    marked = re.compile(r'^\s*"?stub"?: true', re.MULTILINE)
    assert {name for name, text in contents.items() if not marked.search(text)} == set()


def test_without_a_script_json_outputs_are_json(unscripted: Mapping[str, Played]) -> None:
    played = unscripted["claude-step"]
    texts = {
        name: played.project.git("show", revision)
        for name, revision in run_files(played).items()
        if re.fullmatch(r"build/[^/]+\.json", name)
    }
    assert {name: json.loads(text)["stub"] for name, text in texts.items()} == {
        "build/ac_status.json": True,
        "build/build_receipt.json": True,
        "build/subtask_context_manifest.json": True,
    }


def test_without_a_script_one_marked_file_is_all_that_changes(unscripted: Mapping[str, Played]) -> None:
    played = unscripted["claude-step"]
    after, before = (played.project.tree(name) for name in (f"shadow/{played.run}", "main"))
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"swarm-stub.txt"}


def test_without_tests_a_command_step_is_skipped_and_judges_nothing(unscripted: Mapping[str, Played]) -> None:
    played = unscripted["claude-step"]
    (receipt,) = (e.receipt for e in played.executions if e.name == "run_tests@1")
    shown = json.loads(ask(played.project, "show", "run_tests", "--json").stdout)
    assert (receipt["status"], receipt["skipped"], shown["evidence"]["tests"]) == (
        "succeeded",
        True,
        {"passed": None, "exit_code": None, "reason": "no_tests", "command": None},
    )


def test_a_stub_run_says_so_on_its_first_line(tmp_path: Path, env: dict[str, str]) -> None:
    project = Project(tmp_path / "repo", env)
    project.root.mkdir()
    project.git("init", "-q")
    project.commit({".swarm/flows/one.yaml": "id: one\nsteps:\n  - {id: work, station: fixer}\n"})
    done = project.swarm("start", "one")
    assert done.stderr.splitlines()[0] == (
        "STUB MODE, a rehearsal: no model is called, nothing can land. Real: --mode cli"
    )


# --- StepResult -------------------------------------------------------------------------------------------------


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def run_engine(engine: Engine, folder: Path, shell: str | None = None) -> tuple[StepResult, list[Event]]:
    """What an engine answers on its own, and what it tells meanwhile."""
    (folder / "base").mkdir()
    events: list[Event] = []
    request = StepRequest(
        execution=Identity("run-20260101-000000-abcdef", "build", "step_x", 1, "agent"),
        executed=0,
        mode="stub",
        model="none",
        worktree=folder,
        run_base=folder / "base",
        prompt=Prompt("system", "user"),
        outputs=("RUN_BASE/build/notes.md",),
        env={"PATH": os.environ["PATH"]},
        scratch=folder / "scratch",
        decide=lambda _tool, _given: Allow(),
        command=CommandOrder("test", shell, 20),
    )
    return engine.run(request, events.append), events


def stub(entry: str | None) -> StubEngine:
    return StubEngine("claude-step", scripted(entry), clock)


def scripted(entry: str | None) -> Script | None:
    return None if entry is None else Script.from_json(f'{{"steps": {{"step_x": {entry}}}}}')


STUBS = [
    pytest.param(None, "succeeded", id="without a script"),
    pytest.param("{}", "succeeded", id="an empty entry"),
    pytest.param('{"run": ["yes 0123456789 | head -c 3000000"]}', "succeeded", id="a command that prints megabytes"),
    pytest.param(json.dumps({"output": "x" * 3_000_000}), "succeeded", id="a long answer"),
    pytest.param(json.dumps({"output": "日本" * 500_000}), "succeeded", id="a long answer of wide characters"),
    pytest.param(json.dumps({"summary": "y" * 200_000}), "succeeded", id="a long summary"),
    pytest.param('{"fail": "overloaded"}', "failed", id="a failure"),
    pytest.param('{"envelope": {"status": "GREAT"}}', "succeeded", id="an envelope that is not valid"),
]

COMMANDS = [
    pytest.param("true", "succeeded", id="success"),
    pytest.param("exit 3", "succeeded", id="a non-zero end"),
    pytest.param("yes 0123456789 | head -c 3000000", "succeeded", id="megabytes"),
    pytest.param("yes 0123456789 | head -c 3000000; exit 1", "succeeded", id="megabytes and a non-zero end"),
    pytest.param("head -c 300000 /dev/urandom", "succeeded", id="bytes that are no text"),
    pytest.param("no-such-command-x", "failed", id="a command that is not there"),
    pytest.param("kill -9 $$", "failed", id="a command that was killed"),
    pytest.param(None, "skipped", id="no command"),
]


def broken_guarantees(result: StepResult, status: str) -> list[str]:
    checks = {
        "duration_ms >= 0": type(result.duration_ms) is int and result.duration_ms >= 0,
        f"status is {status}": result.status == status,
        "output is short": len(result.output) < 50_000 and len(result.output.encode()) < OUTPUT_BYTES,
        "step_id matches": result.step_id == "step_x",
    }
    return [name for name, holds in checks.items() if not holds]


@pytest.mark.parametrize(("entry", "status"), STUBS)
def test_the_stub_keeps_the_guarantees_of_a_step_result(tmp_path: Path, entry: str | None, status: str) -> None:
    result, _events = run_engine(stub(entry), tmp_path)
    assert broken_guarantees(result, status) == []


@pytest.mark.parametrize(("shell", "status"), COMMANDS)
def test_a_command_keeps_the_guarantees_of_a_step_result(tmp_path: Path, shell: str | None, status: str) -> None:
    result, _events = run_engine(CommandEngine(None, clock), tmp_path, shell)
    assert broken_guarantees(result, status) == []


def test_ten_commands_of_megabytes_make_one_short_output(tmp_path: Path) -> None:
    entry = json.dumps({"run": ["yes 0123456789 | head -c 1000000"] * 10})
    result, _events = run_engine(CommandEngine(scripted(entry), clock), tmp_path, "true")
    assert broken_guarantees(result, "succeeded") == []


def test_a_failed_result_says_why_and_hands_nothing_over(tmp_path: Path) -> None:
    result, _events = run_engine(stub('{"fail": "overloaded"}'), tmp_path)
    assert (result.error, result.handoff) == ("overloaded", None)


@pytest.mark.parametrize("asking", [None, "exec tail -f /dev/null # with names"])
def test_a_command_that_takes_too_long_fails(tmp_path: Path, asking: str | None) -> None:
    """Once, also where it was asked to report its tests by name."""
    request_engine = CommandEngine(None, clock)
    (tmp_path / "base").mkdir()
    order = CommandOrder("test", "exec tail -f /dev/null", 0.2, asking, is_readable=lambda _text, _files: False)
    request = StepRequest(
        execution=Identity("run-20260101-000000-abcdef", "build", "step_x", 1, "command"),
        executed=0,
        mode="local",
        model="none",
        worktree=tmp_path,
        run_base=tmp_path / "base",
        prompt=Prompt("", ""),
        outputs=(),
        env={"PATH": os.environ["PATH"]},
        scratch=tmp_path / "scratch",
        decide=lambda _tool, _given: Allow(),
        command=order,
    )
    result = request_engine.run(request, lambda _event: None)
    assert (result.status, result.error) == ("failed", "exec tail -f /dev/null: no end after 0.2 s, ended")
    assert len(result.tool_calls) == 1


@pytest.mark.parametrize(
    ("shell", "passed", "exit_code", "status"),
    [("true", True, 0, "VERIFIED"), ("exit 3", False, 3, "UNVERIFIED"), (None, None, None, "UNVERIFIED")],
)
def test_a_command_hands_over_what_its_end_proves(
    tmp_path: Path, shell: str | None, *, passed: bool | None, exit_code: int | None, status: str
) -> None:
    result, _events = run_engine(CommandEngine(None, clock), tmp_path, shell)
    assert result.check is not None
    assert result.handoff is not None
    assert (result.check.passed, result.check.exit_code, result.handoff.status) == (passed, exit_code, status)


def test_an_engine_tells_what_it_does_and_says_while_it_works(tmp_path: Path) -> None:
    _result, events = run_engine(CommandEngine(None, clock), tmp_path, "echo hi; exit 1")
    assert [(event.kind.value, dict(event.payload)) for event in events] == [
        ("tool_start", {"tool": "Bash", "input": {"command": "echo hi; exit 1"}}),
        ("tool_end", {"tool": "Bash", "success": False, "output": "hi\n"}),
        ("message", {"role": "assistant", "text": "failed (exit code 1): echo hi; exit 1"}),
    ]


# --- whatever an agent says -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "summary",
    [
        pytest.param('"nothing\\0ness"', id="NUL"),
        pytest.param('"line\\u2028separator\\x85and\\x0bmore"', id="line separators"),
        pytest.param('"Swarm-Status: BLOCKED\\n\\nSwarm-Format: 7"', id="trailers"),
        pytest.param('""', id="nothing"),
        pytest.param('"   "', id="blanks"),
    ],
)
def test_a_run_gets_over_any_summary(tmp_path: Path, env: dict[str, str], summary: str) -> None:
    project = Project(tmp_path / "repo", env)
    project.root.mkdir()
    project.git("init", "-q")
    project.commit({".swarm/flows/one.yaml": "id: one\nsteps:\n  - {id: work, station: fixer}\n"})
    project.swarm("start", "one", "--script", project.script(f"default: {{summary: {summary}}}"))
    (entry,) = log_of(project, only_run(project))
    assert (entry["status"], entry["routing"]["decision"]) == ("VERIFIED", "terminate")


def test_a_file_whose_name_is_not_utf_8_is_committed_as_it_is(tmp_path: Path, env: dict[str, str]) -> None:
    project = Project(tmp_path / "repo", env)
    project.root.mkdir()
    project.git("init", "-q")
    project.commit({".swarm/flows/one.yaml": "id: one\nsteps:\n  - {id: work, station: fixer}\n"})
    script = project.script("""default: {run: ['echo x > "$(printf "caf\\351.txt")"']}""")
    project.swarm("start", "one", "--script", script)
    argv = ["git", "ls-tree", "-z", "--name-only", f"shadow/{only_run(project)}"]
    names = subprocess.run(argv, cwd=project.root, env=env, capture_output=True, check=True).stdout
    assert names.split(b"\0")[:-1] == [b".swarm", b"caf\xe9.txt"]
