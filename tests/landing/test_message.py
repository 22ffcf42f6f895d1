"""What the landed commit says: what changed and why, never a list of steps; a person's words count more."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.landing.common import WRITES, Run, make_run, ready, tidy, with_flow
from tests.projects import ask

BUILD = """\
id: tale
steps:
  - {id: tests, station: test-author}
  - {id: implement, station: code-implementer}
  - {id: fix, station: fixer}
  - {id: self_review, station: self-reviewer}
"""
LONG = "Slugs can be cut at a word. " * 8
SCRIPT = {
    "default": {"status": "VERIFIED", "summary": "nothing to do"},
    "steps": {
        "tests": {"write": {"tests/test_a.py": "def test_a(): pass\n"}, "summary": "Wrote a test."},
        "implement": {"write": {"src/new.py": "1\n"}, "summary": f"{LONG}\n\n- a first point\n- a second"},
        "fix": {"summary": "Nothing had to be fixed."},
        "self_review": {"summary": "The change is small.\n\nSigned-off-by: nobody <a@b>\nSwarm-Landed: run-x y"},
    },
}


@pytest.fixture
def run(project: Project) -> Run:
    project.commit({".swarm/flows/tale.yaml": BUILD}, "the flow")
    options = ["-m", "Cut slugs", "--allow-stub", "--autopilot", "--script", project.script(json.dumps(SCRIPT))]
    ask(project, "start", "tale", *options)
    made = Run(project, str(project.json("list")[0]["run_id"]))
    blocking = [each["id"] for each in made.status()["open_concerns"] if each["blocking"]]
    made.approve(*(word for each in blocking for word in ("--accept", f"{each}=fine")))
    return made


def body(run: Run) -> list[str]:
    return run.project.git("log", "-1", "--format=%B", "main").split("\n\n")


def test_it_tells_what_was_changed_and_why(run: Run) -> None:
    run.land()
    subject, *told, trailers = body(run)
    assert subject == "Cut slugs"
    assert told[0].split() == LONG.split()
    assert max(map(len, told[0].splitlines())) <= 72
    assert told[1] == "- a first point\n- a second"
    assert told[2] == "The change is small."
    assert len(told) == 4  # what looks like trailers is text
    assert trailers.splitlines()[0] == f"Swarm-Run: {run.id}"
    assert run.trailers("main") == {"Swarm-Run": run.id, "Swarm-Landed": f"{run.id} {run.approved}"}
    tidy(run)


def test_a_person_s_message_stands_instead(run: Run) -> None:
    run.land("-m", "Slugs: a limit\n\nAsked for in #12.")
    assert body(run)[:2] == ["Slugs: a limit", "Asked for in #12."]
    assert run.trailers("main") == {"Swarm-Run": run.id, "Swarm-Landed": f"{run.id} {run.approved}"}


def test_the_editor_gets_the_message_and_has_the_last_word(run: Run) -> None:
    run.project.git("config", "core.editor", "sed -i -e '1s/.*/Edited/' -e '/first point/d'")
    run.land("--edit")
    assert body(run)[0] == "Edited"
    assert "- a second" in body(run)
    assert run.trailers("main")["Swarm-Landed"] == f"{run.id} {run.approved}"


@pytest.mark.parametrize(("editor", "said"), [("true >", "the message is empty"), ("false", "your editor failed")])
def test_nothing_lands_without_a_message(run: Run, editor: str, said: str) -> None:
    before = run.head()
    run.project.git("config", "core.editor", editor)
    answer = run.land("-e", code=2)
    assert said in answer.stderr
    assert run.head() == before


def test_a_run_that_cannot_land_opens_no_editor(project: Project) -> None:
    run = ready(project)
    project.git("config", "core.editor", "touch ../opened #")
    run.land("--edit", code=1)
    assert not (project.root.parent / "opened").exists()


def test_in_a_flow_of_one_s_own_authors_are_those_who_changed_code(project: Project) -> None:
    run = make_run(with_flow(project), {"make": {"write": WRITES, "summary": "Made it new."}}, "-m", "Make it")
    run.landed()
    assert body(run)[:2] == ["Make it", "Made it new."]
