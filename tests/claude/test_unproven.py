"""A real session that deletes the tests and says that all is well: repeated, held back, a person's to accept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.claude.runs import asked, reaching, scripted
from tests.claude.stage import by
from tests.loopback.server import Loopback
from tests.projects import ask, new_project
from tests.proven.stories import BASE, BROKEN, FLOW, WORK

DELETED = "tests_deleted@work/write"
SUMMARY = "RUN_BASE/work/test_changes_summary.md"
LIE = {
    "write": {"app.py": BROKEN, SUMMARY: "All tests pass.\n"},
    "delete": ["tests/test_app.py"],
    "summary": "Implemented it. All tests pass.",
}
BY_AUTHOR = FLOW.replace("code-implementer", "test-author")


@pytest.mark.soak
@by("cli")
def test_a_deleted_suite_comes_to_no_good_end(mode: str, tmp_path: Path, loopback: Loopback) -> None:
    made = new_project(tmp_path)
    made.commit({**BASE, WORK: BY_AUTHOR})
    lying = scripted(yaml.safe_dump({"steps": {"write": LIE}}), reads_first=True)
    project = reaching(made, loopback, lying)

    assert ask(project, "start", "work", "-m", "a till", "--mode", mode).code == 5
    paused = asked(project, "status")
    assert (paused["state"], paused["question"].partition(":")[0]) == ("paused", DELETED)
    assert [entry["status"] for entry in asked(project, "log")] == ["UNVERIFIED", "UNVERIFIED"]
    told = [request for request in loopback.of(tmp_path.name) if f"- {DELETED}: " in json.dumps(request.body)]
    assert told, "the session of the repeat is told what was found"

    assert ask(project, "start", "work", "-m", "a till", "--mode", mode, "--autopilot").code == 4
    found = asked(project, "status")
    open_ones = {each["id"] for each in found["open_concerns"] if each["blocking"]}
    assert (found["state"], DELETED in open_ones) == ("unproven", True)
    for refused in (
        ask(project, "approve"),
        ask(project, "land"),
        ask(project, "approve", "--accept", f"{DELETED}=ok"),
    ):
        assert refused.code == 1
    accepted = [word for each in sorted(open_ones) for word in ("--accept", f"{each}=the till goes")]
    project.swarm("approve", *accepted)
    project.swarm("land")
    assert f"accepted {DELETED}: the till goes" in project.git("log", "--all", "--format=%B")
    assert "tests/test_app.py" not in project.tree("main")
    project.swarm("verify")
