"""What is found in the work of a branch of a fork: it is executed again where the fork started, and only it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.unseen import unseen

TESTS = "def test_a():\n    assert 1 + 1 == 2\n"
FLOW = """\
id: work
steps:
  - {id: begin, station: test-strategist, routing: {kind: fork, fork_targets: [code, docs, scan]}}
  - {id: code, station: code-implementer}
  - {id: docs, station: doc-writer}
  - {id: scan, station: security-scanner}
  - {id: both, station: self-reviewer, routing: {kind: join, join_from: [code, docs, scan]}}
"""
VERIFIED = FLOW.replace("join_from: [code, docs, scan]", "join_from: [code, docs, scan], join_strategy: all_verified")
GONE = {"delete": ["tests/test_x.py"], "write": {"src/app.py": "x = 2\n"}}
KEPT = {"write": {"src/app.py": "x = 3\n"}}
NO_DOCS = {"leaves_out": ["doc_updates.md"], "write": {"README.md": "# more\n"}}
NO_SCAN = {"leaves_out": ["security_scan.md"]}
MISSING = "artifact_missing@work/docs"


def play(project: Project, steps: dict[str, Any], *options: str, code: int = 0, flow: str = FLOW) -> str:
    project.commit({".swarm/flows/work.yaml": flow, "tests/test_x.py": TESTS, "src/app.py": "x = 1\n"}, "tests")
    return project.start(unseen(json.dumps({"steps": steps})), *options, flow="work", code=code)


def taken(project: Project, run: str) -> list[str]:
    return [f"{entry['step']}@{entry['iteration']} {entry['status']}" for entry in project.json("log", run)]


def standing(project: Project, run: str) -> tuple[str, list[str]]:
    found = project.json("status", run)
    return found["state"], [each["id"] for each in found["open_concerns"] if each["blocking"]]


FIRST = ["begin@1 VERIFIED", "code@1 VERIFIED", "docs@1 UNVERIFIED", "scan@1 VERIFIED"]


@pytest.mark.parametrize("flow", [FLOW, VERIFIED], ids=["all_complete", "all_verified"])
def test_only_the_branch_that_was_found_out_is_executed_again_and_told(project: Project, flow: str) -> None:
    run = play(project, {"docs": [NO_DOCS, {}]}, flow=flow)
    assert taken(project, run) == [*FIRST, "docs@2 VERIFIED", "both@1 VERIFIED"]
    assert standing(project, run) == ("succeeded", [])
    prompt = project.swarm("show", "docs@2", "--run", run, "--prompt").stdout
    assert f"## Found in your work, and still open\n\n- {MISSING}: work/doc_updates.md" in prompt
    project.swarm("verify", run)


def test_branches_are_executed_again_beside_each_other_and_their_earlier_change_is_replaced(project: Project) -> None:
    run = play(project, {"code": [GONE, KEPT], "docs": [NO_DOCS, {"write": {"README.md": "# most\n"}}], "scan": [{}]})
    assert taken(project, run)[4:] == ["code@2 VERIFIED", "docs@2 VERIFIED", "both@1 VERIFIED"]
    assert standing(project, run) == ("succeeded", [])
    for path, text in {"tests/test_x.py": TESTS, "src/app.py": "x = 3\n", "README.md": "# most\n"}.items():
        assert project.git("show", f"shadow/{run}:{path}") == text.strip()
    commits = [entry["commit"] for entry in project.json("log", run) if entry["iteration"] == 2]
    bodies = [project.git("log", "-1", "--format=%B", commit) for commit in commits]
    assert ["Swarm-Repeat: 1" in body for body in bodies] == [True, True]
    project.swarm("verify", run)


def test_what_is_done_again_pauses_and_an_acceptance_goes_on_to_the_join(project: Project) -> None:
    run = play(project, {"docs": [NO_DOCS]}, code=5)
    assert taken(project, run) == [*FIRST, "docs@2 UNVERIFIED"]
    assert standing(project, run) == ("paused", [MISSING])
    assert project.json("status", run)["question"].startswith(f"{MISSING}: ")
    project.swarm("resume", run, "--accept", f"{MISSING}=there is nothing to say")
    assert taken(project, run)[5:] == ["accept@1 VERIFIED", "both@1 UNVERIFIED"]
    assert standing(project, run) == ("succeeded", [])
    project.swarm("verify", run)


def test_an_answer_has_the_branch_work_again_on_the_commit_of_the_fork(project: Project) -> None:
    run = play(project, {"docs": [NO_DOCS, NO_DOCS, {}]}, code=5)
    project.swarm("resume", run, "-m", "write it all the same")
    assert taken(project, run)[5:] == ["docs@3 VERIFIED", "both@1 VERIFIED"]
    assert standing(project, run) == ("succeeded", [])
    assert project.git("ls-tree", "--name-only", f"shadow/{run}").splitlines().count("README.md") == 1
    project.swarm("verify", run)


def test_on_autopilot_the_run_ends_unproven_and_the_join_has_the_status_of_the_branch(project: Project) -> None:
    run = play(project, {"docs": [NO_DOCS]}, "--autopilot", code=4)
    assert taken(project, run) == [*FIRST, "docs@2 UNVERIFIED", "both@1 UNVERIFIED"]
    assert standing(project, run) == ("unproven", [MISSING])
    assert ask(project, "approve", run).code == 1


def test_a_branch_is_executed_twice_more_at_most(project: Project) -> None:
    claims = [
        {"envelope": {"status": "VERIFIED", "summary": "x", "file_changes": [{"path": f"{n}.py", "change": "added"}]}}
        for n in range(4)
    ]
    run = play(project, {"docs": claims, "scan": [NO_SCAN], "code": [{}]}, "--autopilot", code=4)
    steps = [each.partition("@")[0] for each in taken(project, run)]
    assert (steps.count("docs"), steps.count("scan")) == (3, 2)


def test_until_waits_for_the_repeats_of_the_last_branch_alone(project: Project) -> None:
    run = play(project, {"scan": [NO_SCAN, {}]}, "--until", "scan")
    assert taken(project, run)[-1] == "scan@2 VERIFIED"
    project.swarm("resume", run)
    other = play(project, {"docs": [NO_DOCS, {}]}, "--until", "scan")
    assert taken(project, other)[-1] == "scan@1 VERIFIED"
    project.swarm("resume", other)
    assert taken(project, other)[4:] == ["docs@2 VERIFIED", "both@1 VERIFIED"]
