"""The eight bundled flows: what git-swarm does in them itself, what they promise to programs, where branches lead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

from gitswarm.records.execution import Result, Status
from gitswarm.records.json_schema import json_schema
from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import Record
from gitswarm.resources import bundled
from gitswarm.routing.choices import Situation
from gitswarm.routing.driver import decide
from gitswarm.routing.loops import UncommittedExecution
from gitswarm.routing.macro import ALL
from gitswarm.runner.operations.catalog import OPERATIONS
from gitswarm.runner.specs import checked_flow
from gitswarm.runner.step.read_artifacts import SCHEMAS
from gitswarm.specs.flow import SDLC_FLOWS, Branch, Operation, Step
from gitswarm.specs.library import load_library
from gitswarm.specs.station import Station, declared_artifacts, promised_artifacts
from tests.specs.test_library import problems_of, steps
from tests.tables import table

DOC = (Path(__file__).parent.parent.parent / "docs" / "flows.md").read_text(encoding="utf-8")
LIBRARY = load_library(bundled("flows"), {})
FLOWS = {name: LIBRARY.flow(name).flow for name in SDLC_FLOWS}
STATIONS = {name: LIBRARY.station(name).station for name in LIBRARY.station_ids}
KERNEL_STEPS = [(flow, step) for flow in FLOWS.values() for step in flow.steps if step.is_kernel]
OWED = [
    (path, STATIONS[step.station])
    for flow in FLOWS.values()
    for step in flow.steps
    if step.station is not None
    for path in promised_artifacts(flow, STATIONS[step.station])
]
"""Every artifact with every station that owes it."""

FEWEST_STATIONS = 60


@table("name", SDLC_FLOWS)
def test_a_bundled_flow_can_be_executed_and_says_what_it_is_for(name: str) -> None:
    flow = checked_flow(LIBRARY, name)
    charter = flow.charter
    assert charter is not None
    assert all((charter.goal, charter.question, charter.prime_directive))
    assert all((charter.exit_criteria, charter.non_goals))
    assert all((charter.offroad_policy.justified, charter.offroad_policy.not_justified))
    untaught = [
        step.id
        for step in flow.steps
        if not step.objective or (step.station and not (step.teaching.emphasizes and step.teaching.constraints))
    ]
    assert untaught == []


def test_all_is_every_flow_but_the_one_that_interrupts() -> None:
    assert (*ALL, "reset") == SDLC_FLOWS


def test_there_are_stations_for_every_role_and_none_without_work() -> None:
    steps_of_flows = {step.station for flow in FLOWS.values() for step in flow.steps}
    in_detours = {step.station for name in LIBRARY.sidequest_ids for step in LIBRARY.sidequest(name).steps}
    cross_cutting = {name for flow in FLOWS.values() for name in flow.cross_cutting}
    assert len(STATIONS) >= FEWEST_STATIONS
    assert sorted(set(STATIONS) - steps_of_flows - in_detours - cross_cutting) == []


@table(("flow", "step"), KERNEL_STEPS, ids=[f"{flow.id}/{step.id}" for flow, step in KERNEL_STEPS])
def test_git_swarms_own_step_says_which_report_it_leaves(flow: object, step: Step) -> None:
    del flow
    (report,) = step.teaching.output_names
    assert report.endswith(".json")


def test_every_operation_is_used_and_every_step_of_a_flow_is_told() -> None:
    assert {step.operation for _flow, step in KERNEL_STEPS} == set(get_args(Operation))
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| `([\w-]+)`", DOC, re.MULTILINE)
    told = [(flow, step) for flow, step, _who in rows]
    assert told == [(flow.id, step.id) for flow in FLOWS.values() for step in flow.steps]
    whose = {
        (flow.id, step.id): step.station or step.operation or step.command
        for flow in FLOWS.values()
        for step in flow.steps
    }
    assert {(flow, step): who for flow, step, who in rows} == whose


def test_what_branches_ask_about_an_operation_is_documented() -> None:
    conditions = [
        (flow.id, step.id, when.if_)
        for flow in FLOWS.values()
        for step in flow.steps
        if isinstance(step.routing, Branch)
        for when in step.routing.when
    ]
    asked = {
        (f"{flow}/{step}", field)
        for flow, step, condition in conditions
        for field in re.findall(r"evidence\.operation\.(\w+)", condition)
    }
    assert asked == set(re.findall(r"^\| `(\w+/\w+)` \| `evidence\.operation\.(\w+)`", DOC, re.MULTILINE))


@table(
    ("step", "problem"),
    [
        ("{id: a, engine: kernel}", "3: steps.0: step 'a' has engine 'kernel' but no 'operation'"),
        ("{id: a, operation: land}", "3: steps.0: step 'a' has an 'operation' but not 'engine: kernel'"),
        (
            "{id: a, engine: kernel, operation: land, station: fixer}",
            "3: steps.0: step 'a' is git-swarm's own: it cannot have a 'station'",
        ),
        (
            "{id: a, engine: kernel, operation: land, command: test}",
            "3: steps.0: step 'a' has a 'command' but not 'engine: command'",
        ),
    ],
)
def test_a_step_that_is_only_half_git_swarms_own_is_refused(step: str, problem: str) -> None:
    assert problems_of(steps(step)) == [problem]


def test_an_operation_that_does_not_exist_is_refused_with_those_that_do() -> None:
    (problem,) = problems_of(steps("{id: a, engine: kernel, operation: merge}"))
    assert problem.startswith("3: steps.0.operation: ")
    assert "land," in problem


def test_git_swarms_own_steps_are_not_executed_beside_others() -> None:
    problems = problems_of(
        steps(
            "{id: a, station: fixer, routing: {kind: fork, fork_targets: [b, c]}}",
            "{id: b, station: code-critic}",
            "{id: c, engine: kernel, operation: land}",
            "{id: d, station: fixer, routing: {kind: join, join_from: [b, c]}}",
        )
    )
    assert problems == ["5: 'c' is git-swarm's own step: it cannot be executed in parallel"]


def test_git_swarm_can_carry_out_every_operation() -> None:
    assert set(OPERATIONS) == set(get_args(Operation))


@table("path", SCHEMAS)
def test_what_programs_read_is_owed_by_a_station_or_written_by_the_way(path: str) -> None:
    assert path in {owed for owed, _station in OWED}


@table(("path", "schema"), list(SCHEMAS.items()))
def test_who_owes_an_artifact_with_a_schema_is_told_its_keys(path: str, schema: type[Record]) -> None:
    rules = [rule for owed, station in OWED if owed == path for rule in station.invariants]
    told = " ".join(rule for rule in rules if "{" in rule)
    missing = {name for name in keys_of(schema) - {"stub"} if f'"{name}"' not in told}
    assert missing == set()


def keys_of(schema: type[Record]) -> set[str]:
    """The keys of a record and of all records in it."""
    model: dict[str, Any] = json_schema(schema)
    objects = [model, *model.get("$defs", {}).values()]
    return {name for each in objects for name in each.get("properties", {})}


@table(
    ("flow", "repairing"),
    [
        ("review", {"worklist-fixer", "secrets-sanitizer"}),
        ("gate", {"gate-fixer", "fix-forward-runner"}),
        ("deploy", set()),
        ("wisdom", set()),
        ("reset", {"conflict-resolver"}),
    ],
)
def test_only_who_repairs_may_change_code(flow: str, repairing: set[str]) -> None:
    writers = {step.station for step in FLOWS[flow].steps if step.station and station_of(step).writes_code}
    assert writers == repairing


@table("name", [name for name, station in STATIONS.items() if "Agent" in station.tools])
def test_who_may_start_helpers_is_told_how(name: str) -> None:
    assert "common/subagents" in STATIONS[name].fragments


@table(
    ("flow", "executed", "evidence", "leads_to"),
    [
        ("review", "worklist_loop", {"worklist": {"pending_blocking": 2}}, "worklist_loop"),
        ("review", "worklist_loop", {"worklist": {"pending_blocking": 0}}, "close_pr"),
        ("review", "worklist_loop", {"worklist": None}, "worklist_loop"),
        ("review", "worklist_loop " * 50, {"worklist": {"pending_blocking": 1}}, "close_pr"),
        ("review", "scan_secrets sanitize", {"diff": {"files": [{"path": "a"}]}}, "scan_secrets"),
        ("review", "scan_secrets sanitize", {"diff": {"files": []}}, "report"),
        ("review", "scan_secrets sanitize " * 3, {"diff": {"files": [{"path": "a"}]}}, "report"),
        ("gate", "run_tests", {"tests": {"passed": True}}, "traceability_audit"),
        (
            "gate",
            "run_tests",
            {"tests": {"passed": None, "reason": "no_tests"}, "verdict": None},
            "traceability_audit",
        ),
        ("gate", "run_tests", {"tests": {"passed": False, "reason": None}}, "fix_forward"),
        ("gate", "run_tests fix_forward", {"diff": {"files": [{"path": "a"}]}}, "gate_fix"),
        ("gate", "run_tests fix_forward", {"diff": {"files": []}}, "traceability_audit"),
        ("gate", "run_tests fix_forward gate_fix run_tests", {"tests": {"passed": False}}, "traceability_audit"),
        ("deploy", "execute_merge", {"operation": {"landed": True}}, "watch_ci"),
        ("deploy", "execute_merge", {"operation": {"landed": False}}, "record_not_deployed"),
        ("deploy", "execute_merge", {}, "record_not_deployed"),
        ("deploy", "record_not_deployed", {}, "decide_deploy"),
        ("reset", "fetch_upstream", {"operation": {"moved": False}}, "report"),
        ("reset", "fetch_upstream", {"operation": {"moved": True}}, "read_upstream"),
        ("reset", "execute_rebase", {"operation": {"conflicts": 2}}, "resolve_conflicts"),
        ("reset", "execute_rebase", {"operation": {"conflicts": 0}}, "inspect_rebase"),
        ("reset", "execute_rebase resolve_conflicts", {}, "execute_rebase"),
        ("reset", "execute_rebase resolve_conflicts " * 10, {}, "carry_over"),
    ],
)
def test_a_branch_leads(flow: str, executed: str, evidence: dict[str, JsonValue], leads_to: str) -> None:
    assert after(flow, executed, evidence) == leads_to


@table(
    ("verdict", "leads_to"),
    [
        ("MERGE", "execute_merge"),
        ("MERGE_WITH_CONDITIONS", "execute_merge"),
        ("BOUNCE_BUILD", "record_not_deployed"),
        ("BLOCK", "record_not_deployed"),
        (None, "record_not_deployed"),
    ],
)
def test_only_a_verdict_that_merges_leads_to_a_landing(verdict: str | None, leads_to: str) -> None:
    assert after("deploy", "read_gate", {}, run={"verdict": verdict}) == leads_to


@table(("flow", "step"), [("review", "worklist_loop"), ("reset", "resolve_conflicts")])
def test_a_loop_ends_when_its_agent_cannot_help_any_more(flow: str, step: str) -> None:
    evidence: dict[str, JsonValue] = {"worklist": {"pending_blocking": 3}}
    found = after(flow, step, evidence, envelope={"can_further_iteration_help": "no"})
    assert found == {"worklist_loop": "close_pr", "resolve_conflicts": "carry_over"}[step]


def after(
    flow: str,
    executed: str,
    evidence: dict[str, JsonValue],
    *,
    run: dict[str, JsonValue] | None = None,
    envelope: dict[str, JsonValue] | None = None,
) -> str | None:
    """The step that follows on the newest of those that were executed."""
    done = executed.split()
    found = Situation(
        flow=FLOWS[flow],
        step_id=done[-1],
        result=Result.SUCCEEDED,
        status=Status.VERIFIED,
        context={
            "receipt": {},
            "envelope": {"status": "VERIFIED", "can_further_iteration_help": None, **(envelope or {})},
            "evidence": evidence,
            "run": run or {},
            "history": [{"iteration": n + 1, "result": "succeeded"} for n in range(done.count(done[-1]))],
        },
        history=[UncommittedExecution(step, Result.SUCCEEDED) for step in done],
    )
    return decide(found).to_step


def test_the_four_audits_share_the_worktree_and_their_work_is_joined() -> None:
    gate = FLOWS["gate"]
    join = gate.join_of("check_receipts")
    assert join is not None
    audits = [gate.step(name) for name in ("enforce_contracts", "scan_security", "enforce_coverage", "check_policy")]
    assert join.id == "gate_fix"
    assert [station_of(step).writes_code for step in audits] == [False] * 4
    pages = {path for step in audits for path in declared_artifacts(gate, step, station_of(step))}
    read = {f"gate/{name}" for name in join.teaching.inputs}
    assert pages <= read


def station_of(step: Step) -> Station:
    assert step.station is not None
    return STATIONS[step.station]
