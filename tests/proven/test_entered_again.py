"""A flow that is entered again: what judged the work of the first time is no judgement of the second."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import evidence
from tests.routes.common import decision
from tests.unseen import unseen

BUILD = """\
id: build
steps:
  - {id: note, station: requirements-author}
  - {id: make, station: code-implementer}
  - {id: look, station: code-critic}
"""
GATE = "id: gate\nsteps:\n  - {id: decide, station: merge-decider}\n"
STALE = "artifact_stale@build/look"
CRITIQUE = {"write": {"RUN_BASE/build/code_critique.md": "Nothing is wrong.\n"}}
SILENT = {"leaves_out": ["code_critique.md"]}
SAME = {"envelope": {"status": "VERIFIED", "summary": "It holds.", "artifacts": ["code_critique.md"]}, **SILENT}


def verdict(said: str) -> dict[str, Any]:
    return {"write": {"RUN_BASE/gate/merge_decision.json": decision(said)}}


def play(project: Project, *options: str, code: int = 0, **steps: list[dict[str, Any]]) -> list[str]:
    project.commit({".swarm/flows/build.yaml": BUILD, ".swarm/flows/gate.yaml": GATE}, "flows")
    made = [{"write": {"src/app.py": f"x = {n}\n"}} for n in range(2)]
    every = {"make": made, "decide": [verdict("BOUNCE_BUILD"), verdict("MERGE")], **steps}
    script = project.script(unseen(json.dumps({"steps": every})))
    answer = project.swarm("start", "build", "gate", "--script", script, *options, code=code)
    assert answer.returncode == code, answer.stderr
    return [f"{entry['step']}@{entry['iteration']} {entry['status']}" for entry in project.json("log")]


AGAIN = ["note@2 VERIFIED", "make@2 VERIFIED"]


def test_a_critique_of_an_earlier_entry_is_written_anew(project: Project) -> None:
    new = {"write": {"RUN_BASE/build/code_critique.md": "Nothing is wrong with 1.\n"}}
    taken = play(project, look=[CRITIQUE, SILENT, new])
    assert taken[4:] == [*AGAIN, "look@2 UNVERIFIED", "look@3 VERIFIED", "decide@2 VERIFIED"]
    assert project.json("list")[0]["open_concerns"] == []
    prompt = project.swarm("show", "look@3", "--prompt").stdout
    assert f"- {STALE}: build/code_critique.md is unchanged since before build was entered: rewrite it" in prompt


def test_who_leaves_it_again_ends_unproven(project: Project) -> None:
    play(project, "--autopilot", code=4, look=[CRITIQUE, SILENT])
    assert [each["id"] for each in project.json("list")[0]["open_concerns"] if each["blocking"]] == [STALE]


@pytest.mark.parametrize("second", [SAME, CRITIQUE, {}], ids=["named", "written again", "by the stub"])
def test_a_judgement_that_still_holds_is_said_to(project: Project, second: dict[str, Any]) -> None:
    taken = play(project, look=[CRITIQUE, second])
    assert taken[4:] == [*AGAIN, "look@2 VERIFIED", "decide@2 VERIFIED"]


def test_what_an_author_left_may_stay_as_it_is(project: Project) -> None:
    left: list[dict[str, Any]] = [
        {"write": {"RUN_BASE/build/requirements.md": "# It adds.\n"}},
        {"leaves_out": ["requirements.md"]},
    ]
    taken = play(project, note=left)
    assert taken[4:6] == AGAIN
    assert evidence(project, "build/note")["opened"] == []


def test_in_one_entry_a_judgement_is_written_once(project: Project) -> None:
    looped = BUILD.replace(
        "code-critic}", "code-critic, routing: {kind: microloop, loop_target: make, max_iterations: 3}}"
    )
    project.commit({".swarm/flows/build.yaml": looped}, "flow")
    doubt = {"status": "UNVERIFIED", "can_further_iteration_help": "yes", **CRITIQUE}
    script = project.script(unseen(json.dumps({"steps": {"look": [doubt, SILENT]}})))
    project.swarm("start", "build", "--script", script)
    assert [entry["step"] for entry in project.json("log")] == ["note", "make", "look", "make", "look"]
