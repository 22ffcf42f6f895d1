"""Acceptance criteria: written down once, worked through round by round until they are done or nothing moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Project
from tests.projects import ask, evidence, only_run

ROUNDS = "(evidence.tests.passed == true) && evidence.ac != null && evidence.ac.open > 0 && evidence.ac.progress > 0"
FLOW = {
    "id": "rounds",
    "steps": [
        {"id": "plan", "station": "test-strategist", "teaching": {"outputs": ["plan/ac_matrix.json"]}},
        {"id": "tests", "station": "test-author", "teaching": {"inputs": ["plan/ac_matrix.json"]}},
        {"id": "implement", "station": "code-implementer", "teaching": {"outputs": ["build/ac_status.json"]}},
        {
            "id": "run",
            "engine": "command",
            "command": "test",
            "routing": {
                "kind": "branch",
                "when": [
                    {"if": ROUNDS, "next": "tests", "max_iterations": 5},
                    {"if": "evidence.tests.passed == true", "next": "close"},
                ],
                "default": "implement",
                "max_iterations": 2,
                "next": "close",
            },
        },
        {"id": "close", "station": "build-cleanup"},
    ],
}
MATRIX: dict[str, Any] = {
    "requirements": [
        {
            "id": "REQ-001",
            "description": "a till",
            "acceptance_criteria": [
                {"id": "AC-001-1", "criterion": "It adds."},
                {"id": "AC-001-2", "criterion": "It rounds."},
            ],
            "test_cases": ["test_adds", "test_rounds"],
        }
    ]
}


def status(*done: str) -> dict[str, Any]:
    entries = [{"id": name, "status": "done", "evidence": "test_x"} for name in done]
    return {"write": {"RUN_BASE/build/ac_status.json": json.dumps({"criteria": entries})}}


def play(
    project: Project, implement: list[dict[str, Any]], *, code: int = 0, **other: list[dict[str, Any]]
) -> list[str]:
    """Names of the steps that were executed."""
    project.commit({".swarm/flows/rounds.yaml": yaml.safe_dump(FLOW)})
    steps: dict[str, Any] = {
        "plan": [{"write": {"RUN_BASE/plan/ac_matrix.json": json.dumps(MATRIX)}}],
        "implement": implement,
        "run": [{"run": ["true"]}],
        **other,
    }
    script = project.script(yaml.safe_dump({"steps": steps}))
    answer = ask(project, "start", "rounds", "--script", script)
    assert answer.code == code, answer.stderr
    return [entry["step"] for entry in project.json("log")]


def test_a_round_is_made_for_each_open_criterion(project: Project) -> None:
    steps = play(project, [status("AC-001-1"), status("AC-001-1", "AC-001-2")])
    assert steps == ["plan", "tests", "implement", "run", "tests", "implement", "run", "close"]
    assert evidence(project, "rounds/run")["ac"] == {"total": 2, "done": 2, "open": 0, "blocked": 0, "progress": 1}


def test_without_progress_the_rounds_end(project: Project) -> None:
    assert play(project, [status("AC-001-1")]) == ["plan", *["tests", "implement", "run"] * 2, "close"]


def test_red_tests_go_back_to_the_implementer_and_do_not_count_as_a_round(project: Project) -> None:
    red = [{"run": ["false"]}, {"run": ["true"]}]
    steps = play(project, [status("AC-001-1", "AC-001-2")], run=red)
    assert steps == ["plan", "tests", "implement", "run", "implement", "run", "close"]


def test_a_criterion_that_is_unknown_to_the_matrix_is_asked_about(project: Project) -> None:
    play(project, [status("AC-009-9")], code=5)
    told = json.loads(project.swarm("show", "implement@1", "--evidence").stdout)
    assert (told["ac"]["done"], told["artifact_problems"]) == (
        0,
        ["build/ac_status.json: plan/ac_matrix.json has no criterion AC-009-9"],
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "plan/ac_matrix.json: it is no JSON: Expecting property name"),
        ('{"requirements": []}', "requirements: needs at least 1, has 0"),
        ('{"requirements": [{"id": "R", "description": "x"}]}', "requirements.0.acceptance_criteria: is missing"),
        (json.dumps({"requirements": MATRIX["requirements"] * 2}), "these ids are used more than once: REQ-001"),
    ],
)
def test_a_matrix_that_is_none_is_told_and_not_verified(project: Project, content: str, problem: str) -> None:
    play(
        project, [status()], plan=[{"write": {"RUN_BASE/plan/ac_matrix.json": content}, "status": "VERIFIED"}], code=5
    )
    entry = project.json("log")[0]
    told = json.loads(project.swarm("show", "plan@1", "--evidence").stdout)
    assert (entry["status"], problem in told["artifact_problems"][0], told["ac"]) == ("UNVERIFIED", True, None)


def test_the_criteria_and_their_state_stand_in_the_prompt(project: Project) -> None:
    play(project, [status("AC-001-1"), status("AC-001-1", "AC-001-2")])
    second = project.swarm("show", "tests@2", "--prompt").stdout
    assert "- AC-001-1 [done] REQ-001: It adds. (tests: test_adds, test_rounds)" in second
    assert "- AC-001-2 [open] REQ-001: It rounds. (tests: test_adds, test_rounds)" in second


def test_the_stub_writes_a_matrix_that_keeps_the_schema(project: Project) -> None:
    assert ask(project, "start", "plan").code == 0
    run = only_run(project)
    matrix = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/plan/ac_matrix.json"))
    assert matrix["stub"] is True
    assert evidence(project, "plan/plan_tests")["ac"]["open"] == 1


def test_who_is_sent_back_by_red_tests_is_told_which_ones(project: Project) -> None:
    recorded = Path(__file__).parent / "evidence" / "recorded" / "node-20.20.2-tap" / "mixed.txt"
    red = [{"run": [f"cat {recorded}; exit 1"]}, {"run": ["true"]}]
    play(project, [status("AC-001-1", "AC-001-2")], run=red)
    prompt = project.swarm("show", "implement@2", "--prompt").stdout
    _before, _title, why = prompt.partition("## Why you work again\n\n")
    assert why.startswith("- rounds/run (command): UNVERIFIED: failed (exit code 1): ")
    assert "\n  - failing tests: wrong\n" in why


def test_a_huge_matrix_fits_into_a_prompt(project: Project) -> None:
    criteria = [{"id": f"AC-{n}", "criterion": "x" * 200} for n in range(2000)]
    content = {"requirements": [{"id": "REQ-001", "description": "much", "acceptance_criteria": criteria}]}
    huge = [{"write": {"RUN_BASE/plan/ac_matrix.json": json.dumps(content)}}]
    play(project, [status()], plan=huge)
    prompt = project.swarm("show", "tests", "--prompt").stdout
    assert len(prompt) < 80_000
    assert "more stand in RUN_BASE/plan/ac_matrix.json" in prompt


def test_of_many_problems_the_first_are_told(project: Project) -> None:
    content = json.dumps({"requirements": [{"id": n} for n in range(500)]})
    play(project, [status()], plan=[{"write": {"RUN_BASE/plan/ac_matrix.json": content}}], code=5)
    told = json.loads(project.swarm("show", "plan@1", "--evidence").stdout)["artifact_problems"]
    assert len(told) == 21
    assert told[0].endswith("problems, of which the first 20 follow")


def test_a_matrix_that_leaves_criteria_out_is_told(project: Project) -> None:
    fewer = json.loads(json.dumps(MATRIX))
    fewer["requirements"][0]["acceptance_criteria"] = fewer["requirements"][0]["acceptance_criteria"][:1]
    gone = [each["id"] for each in MATRIX["requirements"][0]["acceptance_criteria"][1:]]
    assert gone
    outputs = {"outputs": ["plan/ac_matrix.json"]}
    steps = [{"id": name, "station": "test-strategist", "teaching": outputs} for name in ("plan", "again")]
    project.commit({".swarm/flows/twice.yaml": yaml.safe_dump({"id": "twice", "steps": steps})})
    written = {"plan": MATRIX, "again": fewer}
    played = {name: {"write": {"RUN_BASE/plan/ac_matrix.json": json.dumps(text)}} for name, text in written.items()}
    ask(project, "start", "twice", "--script", project.script(json.dumps({"steps": played})))
    (run,) = project.json("list")
    told = {each["id"]: each["names"] for each in run["open_concerns"]}
    assert told == {"criteria_removed@twice/again": gone}
