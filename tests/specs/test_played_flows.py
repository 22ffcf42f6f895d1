"""The flows from review to reset, played: what the stub leaves for each station keeps its schema, and every way ends.

git-swarm's own steps are replaced by a command that does nothing, so that only stations and routing are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from gitswarm.records.record import without_defaults
from gitswarm.resources import bundled
from gitswarm.runner.step.read_artifacts import SCHEMAS
from gitswarm.specs.library import load_library
from tests.conftest import Project
from tests.projects import ask, only_run
from tests.routes.common import decision

LIBRARY = load_library(bundled("flows"), {})
PLAYED = ("review", "gate", "deploy", "wisdom")
PENDING = {"id": "RW-001", "title": "empty input", "source": ["c1"], "kind": "defect", "severity": "major"}
FOUND = {"id": "CE-1", "audit": "enforce_contracts", "fact": "a flag is gone", "blocking": True}


def without_operations(name: str) -> str:
    flow: dict[str, Any] = without_defaults(LIBRARY.flow(name).flow)
    for step in flow["steps"]:
        if step.pop("operation", None) is not None:
            step |= {"engine": "command", "command": {"run": "true"}}
    return yaml.safe_dump(flow)


def play(project: Project, flows: Sequence[str], script: dict[str, Any] | None = None) -> dict[str, Any]:
    """The status of a run of these flows, on autopilot."""
    project.commit({f".swarm/flows/{name}.yaml": without_operations(name) for name in flows})
    played = ("--script", project.script(yaml.safe_dump({"steps": script}))) if script is not None else ()
    answer = ask(project, "start", *flows, "-m", "shout", "--autopilot", *played)
    assert answer.code in (0, 4, 5), answer.stderr
    found: dict[str, Any] = json.loads(ask(project, "status", "--json").stdout)
    return found


def worklist(*items: dict[str, Any]) -> dict[str, Any]:
    return {"write": {"RUN_BASE/review/review_worklist.json": json.dumps({"items": items})}}


def executed(project: Project) -> list[str]:
    steps = json.loads(ask(project, "log", "--json").stdout)
    return [f"{step['flow']}/{step['step']}" for step in steps]


def test_without_a_script_every_promise_is_kept_and_every_schema_too(project: Project) -> None:
    status = play(project, PLAYED)
    assert status["state"] == "succeeded"
    assert [about for about in status["open_concerns"] if about["blocking"]] == []
    name = only_run(project)
    for path, schema in SCHEMAS.items():
        if path.partition("/")[0] in PLAYED:
            content = project.git("show", f"shadow/{name}:.swarm/runs/{name}/{path}")
            assert schema.from_json(content.encode()).to_plain()["stub"] is True


def test_the_way_to_a_run_that_lands_nothing(project: Project) -> None:
    play(project, PLAYED[1:3])
    assert executed(project) == [
        "gate/verify_ledger",
        "gate/check_receipts",
        "gate/enforce_contracts",
        "gate/scan_security",
        "gate/enforce_coverage",
        "gate/check_policy",
        "gate/gate_fix",
        "gate/run_tests",
        "gate/traceability_audit",
        "gate/assess_risk",
        "gate/decide_merge",
        "gate/approve",
        "deploy/read_gate",
        "deploy/execute_merge",
        "deploy/record_not_deployed",
        "deploy/decide_deploy",
        "deploy/finalize",
    ]


def test_a_reset_without_news_only_reports(project: Project) -> None:
    assert play(project, ["reset"])["state"] == "succeeded"
    assert executed(project) == ["reset/fetch_upstream", "reset/report"]


def test_an_item_that_disappears_from_the_worklist_is_still_pending(project: Project) -> None:
    """Round 1 leaves it, 2 drops it, 3 calls it a trifle, 4 settles it."""
    pending = {**PENDING, "blocking": True}
    rounds = [
        worklist(pending),
        worklist(),
        worklist({**PENDING, "blocking": False}),
        worklist({**pending, "status": "resolved", "resolution": "a.py:3, test_empty"}),
    ]
    play(project, ["review"], {"cluster": worklist(pending), "worklist_loop": rounds})
    name = only_run(project)
    chain = project.git("log", "--reverse", "--format=%H %s", f"shadow/{name}").splitlines()
    commits = [line.partition(" ")[0] for line in chain if " review/worklist_loop:" in line]
    path = f".swarm/runs/{name}/review/evidence/worklist_loop.json"
    counted = [json.loads(project.git("show", f"{commit}:{path}"))["worklist"] for commit in commits]
    assert [count["pending_blocking"] for count in counted] == [1, 1, 1, 0]
    assert [count["lost"] for count in counted] == [[], ["RW-001"], [], []]


def test_a_verdict_that_passes_over_a_blocking_finding_is_invalid(project: Project) -> None:
    findings = json.dumps({"findings": [{**FOUND, "outcome": "open"}]})
    script = {
        "gate_fix": {"write": {"RUN_BASE/gate/gate_findings.json": findings}},
        "decide_merge": [{"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}}],
    }
    status = play(project, ["gate"], script)
    (concern,) = status["open_concerns"]
    assert concern["id"] == "artifact_invalid@gate/decide_merge"
    assert "MERGE passes over CE-1, which is open and blocking" in concern["fact"]
    assert status["state"] == "unproven"


def test_an_empty_worklist_needs_one_round(project: Project) -> None:
    play(project, ["review"], {})
    assert executed(project).count("review/worklist_loop") == 1
