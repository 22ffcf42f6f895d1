"""From a verdict to a landed commit, or to none: what a Gate approves and a Deploy lands, by steps of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.routes.common import decision

BUILD = """\
id: build
steps:
  - {id: make, station: code-implementer}
"""
GATE = """\
id: gate
steps:
  - {id: verify, engine: kernel, operation: verify, teaching: {outputs: [verify_report.json]}}
  - {id: scan, engine: kernel, operation: scan_secrets, teaching: {outputs: [secret_scan.json]}}
  - {id: decide, station: merge-decider}
  - {id: approve, engine: kernel, operation: approve, teaching: {outputs: [approval.json]}}
"""
DEPLOY = """\
id: deploy
steps:
  - id: merge
    engine: kernel
    operation: land
    teaching: {outputs: [merge_result.json]}
    routing:
      kind: branch
      when: [{if: evidence.operation.landed == true, next: done}]
      default: not_deployed
  - {id: not_deployed, engine: kernel, operation: record_not_deployed, teaching: {outputs: [merge_result.json]}}
  - {id: done, station: deploy-cleanup}
"""
FILES = {
    "app.py": "x = 1\n",
    ".swarm/flows/build.yaml": BUILD,
    ".swarm/flows/gate.yaml": GATE,
    ".swarm/flows/deploy.yaml": DEPLOY,
}
FLOWS = ("build", "gate", "deploy")
MAKE = {"write": {"app.py": "x = 2\n"}}


def play(project: Project, make: dict[str, Any], verdict: str, *options: str) -> dict[str, Any]:
    """The run of these three flows, as `list` tells it."""
    script = {
        "steps": {
            "make": make,
            "decide": {"write": {"RUN_BASE/gate/merge_decision.json": decision(verdict)}},
        }
    }
    ask(project, "start", *FLOWS, "--script", project.script(json.dumps(script)), *options)
    (run,) = project.json("list")
    project.swarm("verify", run["run_id"])
    found: dict[str, Any] = run
    return found


def result(project: Project, run: str) -> dict[str, Any]:
    """What Deploy says of the landing."""
    text = project.git("show", f"shadow/{run}:.swarm/runs/{run}/deploy/merge_result.json")
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_merge_that_nothing_contradicts_is_landed(project: Project) -> None:
    project.commit(FILES)
    run = play(project, MAKE, "MERGE", "--autopilot", "--allow-stub")
    assert run["state"] == "succeeded"
    assert project.git("show", "HEAD:app.py") == "x = 2"
    assert result(project, run["run_id"])["commit"] == project.git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("verdict", "options", "why"),
    [
        pytest.param("MERGE", (), "is a rehearsal", id="played, without --allow-stub"),
        pytest.param("MERGE", ("--allow-stub",), "is not approved", id="a blocking concern is open"),
    ],
)
def test_a_merge_that_something_contradicts_is_not(
    project: Project, verdict: str, options: tuple[str, ...], why: str
) -> None:
    before = project.commit(FILES)
    make = {**MAKE, "leaves_out": ["impl_changes_summary.md"]} if options else MAKE
    run = play(project, make, verdict, "--autopilot", *options)
    found = result(project, run["run_id"])
    assert (found["landed"], why in found["reason"]) == (False, True), found
    assert project.git("rev-parse", "HEAD") == before
    assert run["state"] == ("unproven" if options else "succeeded")


def test_who_decides_is_told_what_is_open(project: Project) -> None:
    project.commit(FILES)
    make = {**MAKE, "leaves_out": ["impl_changes_summary.md"]}
    run = play(project, make, "MERGE", "--autopilot", "--allow-stub")["run_id"]
    report = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/gate/verify_report.json"))
    assert [each["id"] for each in report["open_concerns"]] == ["artifact_missing@build/make"]


def test_a_person_may_take_a_concern_on(project: Project) -> None:
    project.commit(FILES)
    make = {**MAKE, "leaves_out": ["impl_changes_summary.md"]}
    run = play(project, make, "MERGE", "--allow-stub")
    name = run["run_id"]
    concern = "artifact_missing@build/make"
    assert (run["state"], run["open_concerns"][0]["id"]) == ("paused", concern)
    ask(project, "resume", name, "--accept", f"{concern}=the change is one line")
    waits = project.json("status", name)  # deploy needs a person's word
    lands = f"git swarm resume {name}   (approves the code, and lands it on main)"
    assert (waits["state"], waits["hint"]) == ("paused", lands)
    ask(project, "resume", name)
    project.swarm("verify", name)
    assert project.json("status", name)["state"] == "succeeded"
    assert project.git("show", "HEAD:app.py") == "x = 2"


def test_what_is_found_after_the_first_pause_keeps_the_gate_from_approving(project: Project) -> None:
    """The finding is about the Gate's own step, so that only `approve` can hold the run."""
    gate = GATE.replace(
        "  - {id: approve,", "  - {id: late, engine: command, command: {run: 'exit 1'}}\n  - {id: approve,"
    )
    before = project.commit({**FILES, ".swarm/flows/gate.yaml": gate})
    run = play(project, MAKE, "MERGE", "--allow-stub")
    name, concern = run["run_id"], "command_red@gate/late"
    assert run["state"] == "paused"
    assert concern in project.json("status", name)["question"]
    assert project.git("rev-parse", "HEAD") == before
    ask(project, "resume", name, "--accept", f"{concern}=known, not ours")
    ask(project, "resume", name)
    project.swarm("verify", name)
    assert (project.json("status", name)["state"], project.git("show", "HEAD:app.py")) == ("succeeded", "x = 2")


def test_a_secret_that_is_known_only_later_is_found(project: Project) -> None:
    """Code is looked through when it is staged; by then nothing said that this is a password."""
    project.commit(FILES)
    make = {"write": {"app.py": "x = 'kQ7vWz93bTdLm2pR'\n"}}
    script = project.script(json.dumps({"steps": {"make": make}}))
    ask(project, "start", "build", "gate", "--script", script, "--until", "make")
    (run,) = project.json("list")
    later = replace(project, env={**project.env, "DB_PASSWORD": "kQ7vWz93bTdLm2pR"})
    ask(later, "resume", run["run_id"])
    found = project.json("show", "scan", "--run", run["run_id"], "--evidence")["operation"]
    assert (found["found"], found["secrets"][0]["path"]) == (1, "app.py")
    assert "kQ7v" not in json.dumps(found)


def test_a_target_that_changed_the_same_place_voids_the_approval(project: Project) -> None:
    project.commit(FILES)
    script = {
        "steps": {
            "make": MAKE,
            "decide": {"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}},
        }
    }
    ask(project, "start", *FLOWS, "--script", project.script(json.dumps(script)), "--allow-stub")
    (run,) = project.json("list")
    theirs = project.commit({"app.py": "x = 3\n"})
    ask(project, "resume", run["run_id"])
    project.swarm("verify", run["run_id"])
    found = result(project, run["run_id"])
    assert (found["landed"], "conflict in " in found["reason"]) == (False, True), found
    assert project.git("rev-parse", "HEAD") == theirs


def test_a_bounce_tells_the_next_build_why(project: Project) -> None:
    project.commit(FILES)
    criteria = [{"id": "AC-1", "proof": "proven"}, {"id": "AC-2", "proof": "failing"}]
    bounce = json.dumps({**json.loads(decision("BOUNCE_BUILD")), "criteria": criteria})
    verdicts = [{"write": {"RUN_BASE/gate/merge_decision.json": said}} for said in (bounce, decision("MERGE"))]
    steps = {"make": [MAKE, {"write": {"app.py": "x = 4\n"}}], "decide": verdicts}
    script = project.script(json.dumps({"steps": steps}))
    ask(project, "start", *FLOWS, "--script", script, "--autopilot", "--allow-stub")
    (run,) = project.json("list")
    assert (run["state"], project.git("show", "HEAD:app.py")) == ("succeeded", "x = 4")
    first, second = (project.swarm("show", f"make@{n}", "--prompt").stdout for n in (1, 2))
    assert "sent the run back" not in first
    assert "Why the gate sent the run back" in second
    assert "CE-1: a flag is gone (cli.py:3)" in second
    assert ("criterion AC-2 is failing" in second, "AC-1" in second) == (True, False)


TESTED = """\
id: gate
steps:
  - {id: run_tests, engine: command, command: test}
  - {id: late, station: fix-forward-runner}
  - {id: decide, station: merge-decider}
  - {id: approve, engine: kernel, operation: approve, teaching: {outputs: [approval.json]}}
"""


def test_code_that_changes_behind_the_gates_tests_is_not_approved(project: Project) -> None:
    test = "from app import x\n\n\ndef test_x():\n    assert x > 0\n"
    files = {**FILES, "tests/test_app.py": test, "conftest.py": "", ".swarm/flows/gate.yaml": TESTED}
    before = project.commit(files)
    decided = {"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}}
    script = {"steps": {"make": MAKE, "late": {"write": {"app.py": "x = -1\n"}}, "decide": decided}}
    ask(project, "start", *FLOWS, "--script", project.script(json.dumps(script)), "--autopilot", "--allow-stub")
    (run,) = project.json("list")
    assert (run["state"], project.git("rev-parse", "HEAD")) == ("unproven", before)
    against = project.json("show", "approve", "--run", run["run_id"], "--evidence")["operation"]["against"]
    assert against == ["tests_not_run@gate/tests: no test of gate ran on its code"]
    refused = ask(project, "land", run["run_id"])
    assert (refused.code, project.git("rev-parse", "HEAD")) == (1, before)


def test_what_is_found_after_an_approval_keeps_it_from_landing(project: Project) -> None:
    late = GATE + "  - {id: late, engine: command, command: {run: 'exit 1'}}\n"
    before = project.commit({**FILES, ".swarm/flows/gate.yaml": late})
    run = play(project, MAKE, "MERGE", "--autopilot", "--allow-stub")["run_id"]
    assert "1 blocking concern open" in result(project, run)["reason"]
    assert project.git("rev-parse", "HEAD") == before
    project.swarm("approve", run, "--accept", "command_red@gate/late=known")
    project.swarm("land", run)
    assert project.git("show", "HEAD:app.py") == "x = 2"


def test_a_finding_that_is_left_out_is_still_open(project: Project) -> None:
    gate = """\
id: gate
steps:
  - {id: fix, station: gate-fixer}
  - {id: fix_again, station: gate-fixer}
  - {id: decide, station: merge-decider}
  - {id: approve, engine: kernel, operation: approve, teaching: {outputs: [approval.json]}}
"""
    before = project.commit({**FILES, ".swarm/flows/gate.yaml": gate})
    finding = {"id": "SEC-1", "audit": "scan", "fact": "a hole", "blocking": True, "outcome": "open"}
    path = "RUN_BASE/gate/gate_findings.json"
    steps = {
        "make": MAKE,
        "fix": {"write": {path: json.dumps({"findings": [finding]})}},
        "fix_again": {"write": {path: json.dumps({"findings": []})}},
        "decide": {"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}},
    }
    ask(
        project,
        "start",
        *FLOWS,
        "--script",
        project.script(json.dumps({"steps": steps})),
        "--autopilot",
        "--allow-stub",
    )
    (run,) = project.json("list")
    assert "artifact_invalid@gate/decide" in [each["id"] for each in run["open_concerns"]]
    assert project.git("rev-parse", "HEAD") == before


def test_the_verdict_of_an_earlier_gate_is_none(project: Project) -> None:
    before = project.commit(FILES)
    steps = {
        "make": [{**MAKE, "leaves_out": ["impl_changes_summary.md"]}] * 3 + [{"write": {"app.py": "x = 9\n"}}],
        "decide": [
            {"write": {"RUN_BASE/gate/merge_decision.json": decision("MERGE")}},
            {"summary": "I would not merge this"},
        ],
    }
    script = project.script(json.dumps({"steps": steps}))
    ask(project, "start", *FLOWS, "--script", script, "--autopilot", "--allow-stub")
    (run,) = project.json("list")
    assert run["state"] == "unproven"
    ask(project, "resume", run["run_id"])
    against = project.json("show", "approve", "--run", run["run_id"], "--evidence")["operation"]["against"]
    assert against == ["the verdict is that of an earlier gate, on other code"]
    assert project.git("rev-parse", "HEAD") == before
