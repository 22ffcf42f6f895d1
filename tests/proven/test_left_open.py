"""What critics and joins leave open when the flow goes on: warnings, until a later look or a person settles them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import evidence

FLOW = """\
id: work
steps:
  - {id: write, station: test-author}
  - {id: critique, station: test-critic, routing: {kind: microloop, loop_target: write, max_iterations: 2}}
  - id: close
    station: build-cleanup
    routing: {kind: branch, when: [{if: 'envelope.status == "PARTIAL"', next: write}]}
"""
FAN = """\
id: fan
steps:
  - {id: begin, station: doc-writer, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: code-critic}
  - {id: right, station: code-critic}
  - {id: both, station: doc-writer, routing: {kind: join, join_from: [left, right], join_strategy: all_verified}}
"""
OPEN, JOIN = "critic_open@work/critique", "join_open@fan/both"
DOUBT = {"status": "UNVERIFIED", "concerns": ["CC-1: no case", "CC-2: slow"]}


@pytest.fixture
def project(project: Project) -> Project:
    project.commit({".swarm/flows/work.yaml": FLOW, ".swarm/flows/fan.yaml": FAN}, "flows")
    return project


def play(project: Project, steps: dict[str, Any], flow: str = "work") -> str:
    return project.start(json.dumps({"steps": steps}), "--allow-stub", flow=flow)


def standing(project: Project, run: str) -> list[dict[str, Any]]:
    project.swarm("verify", run)
    found: list[dict[str, Any]] = project.json("status", run)["open_concerns"]
    assert project.json("list")[0]["open_concerns"] == found
    return found


def changes(project: Project, run: str) -> list[str]:
    """What the steps opened and settled, by their trailers."""
    form = "%(trailers:key=Swarm-Concerns,valueonly,separator=%x2C)"
    lines = project.git("log", "--reverse", f"--format={form}", f"shadow/{run}").splitlines()
    return [line for line in lines if line]


@pytest.mark.parametrize(
    ("says", "passes", "why"),
    [
        (DOUBT, 2, "max_iterations_reached:2"),
        ({**DOUBT, "can_further_iteration_help": "no"}, 1, "no_further_help"),
    ],
)
def test_a_critic_that_is_not_content_when_its_loop_ends_leaves_a_warning(
    project: Project, says: dict[str, Any], passes: int, why: str
) -> None:
    run = play(project, {"critique": says})
    fact = f"UNVERIFIED ({why}): CC-1: no case; CC-2: slow"
    assert standing(project, run) == [{"id": OPEN, "blocking": False, "fact": fact, "names": DOUBT["concerns"]}]
    assert changes(project, run) == [f"+{OPEN}"]
    assert project.json("show", "critique", "--run", run)["iteration"] == passes
    for command, word in (("status", "warning"), ("approve", "open")):
        assert f" {word} {OPEN}: {fact} " in " ".join(["", *project.swarm(command, run).stdout.split()])


def test_the_report_names_the_remarks_once(project: Project) -> None:
    run = play(project, {"critique": DOUBT})
    report = json.loads(project.swarm("report", run, "--format", "json").stdout)
    unproven = {each["kind"]: each["about"] for each in report["verdict"]["unproven"]}
    assert unproven["warning"] == OPEN
    assert "step" not in unproven
    assert report["questions"] == []
    project.swarm("approve", run, "--accept", f"{OPEN}=later")
    accepted = json.loads(project.swarm("report", run, "--format", "json").stdout)
    assert [each["text"] for each in accepted["questions"]] == DOUBT["concerns"]


def test_one_without_concerns_leaves_its_summary(project: Project) -> None:
    run = play(
        project, {"critique": {"status": "PARTIAL", "summary": "half of it", "can_further_iteration_help": "no"}}
    )
    (found,) = standing(project, run)
    assert (found["fact"], found["names"]) == ("PARTIAL (no_further_help): half of it", [])


@pytest.mark.parametrize("last", [{}, {"status": "VERIFIED", "concerns": ["CC-2: slow"]}])
def test_one_that_is_content_at_last_leaves_none(project: Project, last: dict[str, Any]) -> None:
    run = play(project, {"critique": [DOUBT, last]})
    assert (standing(project, run), changes(project, run)) == ([], [])


def test_a_field_of_the_receipt_makes_it_content_as_it_does_for_the_loop(project: Project) -> None:
    by_mode = "max_iterations: 2, loop_condition_field: mode, loop_success_values: [stub]"
    project.commit({".swarm/flows/work.yaml": FLOW.replace("max_iterations: 2", by_mode)})
    assert standing(project, play(project, {"critique": DOUBT})) == []


def test_it_is_settled_when_the_critic_is_content_and_not_while_its_next_loop_lasts(project: Project) -> None:
    close = [{"status": "PARTIAL"}, {}]
    run = play(project, {"critique": [DOUBT, DOUBT, {"status": "UNVERIFIED"}, {}], "close": close})
    assert (standing(project, run), changes(project, run)) == ([], [f"+{OPEN}", f"-{OPEN}"])
    assert evidence(project, "work/critique")["closed"] == [OPEN]


def test_what_it_says_next_stands_in_place_of_what_it_said(project: Project) -> None:
    other = {"status": "UNVERIFIED", "concerns": ["CC-3: dark"]}
    run = play(project, {"critique": [DOUBT, DOUBT, DOUBT, other], "close": [{"status": "PARTIAL"}, {}]})
    (found,) = standing(project, run)
    assert (found["names"], changes(project, run)) == (["CC-3: dark"], [f"+{OPEN}", f"-{OPEN} +{OPEN}"])


def test_a_person_may_accept_it(project: Project) -> None:
    run = play(project, {"critique": DOUBT})
    project.swarm("approve", run, "--accept", f"{OPEN}=it is fast enough")
    assert standing(project, run) == []
    assert evidence(project, "work/approve")["accepted"] == [
        {"id": OPEN, "why": "it is fast enough", "names": DOUBT["concerns"]}
    ]


def test_a_join_that_goes_on_unmet_leaves_a_warning(project: Project) -> None:
    route = {"chosen_candidate_id": "advance:both", "reasoning": "right is enough"}
    run = play(project, {"left": {"status": "UNVERIFIED"}, "right": {"route": route}}, "fan")
    fact = "all_verified: 1 of 2 VERIFIED (left UNVERIFIED)"
    assert standing(project, run) == [{"id": JOIN, "blocking": False, "fact": fact, "names": ["left"]}]
    assert changes(project, run) == [f"+{JOIN}"]


def test_a_join_that_is_met_leaves_none(project: Project) -> None:
    project.commit({".swarm/flows/fan.yaml": FAN.replace("all_verified", "any_verified")})
    assert standing(project, play(project, {"left": {"status": "UNVERIFIED"}}, "fan")) == []
