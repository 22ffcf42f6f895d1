"""The tests of a run and those of its base, over several steps and runs; what one agent does is in the two tables."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Project
from tests.projects import ask, evidence
from tests.proven.stories import (
    BROKEN,
    CRITERIA,
    FLOW,
    MATRIX,
    MORE,
    ONLY_TAX,
    PYTEST,
    TESTS,
    WORK,
    Entry,
    Story,
    criterion,
    newest,
    write,
)

APP_TESTS = "tests/test_app.py"
WROTE = "RUN_BASE/plan/ac_matrix.json"


def played(project: Project, story: Story, *options: str) -> tuple[str, set[str]]:
    """State and blocking concerns of a run that nobody waits for."""
    story.commit_base(project)
    story.start(project, "--autopilot", *options)
    found = newest(project)
    return found.state, set(found.blocking)


def told_events(project: Project, kind: str) -> list[dict[str, Any]]:
    """Of the newest run, as `events --json` has them."""
    lines = project.swarm("events", "--json").stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def building(entry: Entry) -> Story:
    return Story([entry], files=CRITERIA, flows=("work", "build"))


def of_matrix(**changed: Any) -> dict[str, str]:
    """What the agent writes for a criterion that nothing tests, with another matrix."""
    return {**criterion("test_nowhere")["write"], WROTE: json.dumps({**MATRIX, **changed})}


def test_what_the_added_runs_took_is_told_and_only_where_they_were_made(project: Project) -> None:
    files = {"app.py": BROKEN, APP_TESTS: TESTS.replace("== 3", "== 0")}
    state, _blocking = played(project, Story([write(files), write({"NOTES.md": "x\n"})]))
    took = evidence(project, "work/test")["extra_runs_ms"]
    assert (state, sorted(took)) == ("succeeded", ["base", "old_tests"])
    assert all(100 < each < 60_000 for each in took.values())
    assert [each["payload"]["of"] for each in told_events(project, "extra_run")] == ["base", "old_tests"]
    assert "also ran  base " in project.swarm("show", "test").stdout
    project.swarm(
        "start", "work", "--script", project.script('{"steps": {"write": {"write": {"more.py": "x = 1\\n"}}}}')
    )
    assert project.json("show", "test")["evidence"]["extra_runs_ms"] == {}
    assert "also ran" not in project.swarm("show", "test").stdout


def test_an_old_test_script_stays_executable(project: Project) -> None:
    files = {"check.sh": f"#!/bin/sh\n{PYTEST}\n", ".swarm/config.yaml": "commands: {test: ./check.sh}\n"}
    story = Story([write({"app.py": MORE, "check.sh": f"#!/bin/sh\n{PYTEST} -v\n"})], files=files)
    story.commit_base(project)
    project.git("update-index", "--chmod=+x", "check.sh")
    project.git("commit", "-q", "-m", "it can be executed")
    project.git("checkout", "-q", "--", "check.sh")
    story.start(project)
    assert newest(project).warnings == {"harness_changed@work/test"}


def test_what_the_tests_build_by_themselves_calls_for_no_run_of_the_commit_alone(project: Project) -> None:
    build = f"mkdir -p dist && cp app.py dist/app.py && {PYTEST}\n"
    flow = FLOW + "  - {id: close, station: code-implementer}\n"
    more = {"write": {"x.py": "x = 1\n"}, "run": ["sh check.sh"]}
    files = {"check.sh": build, ".gitignore": "dist/\n", WORK: flow}
    story = Story([more], files=files, others={"close": [{**more, "write": {"x.py": "x = 2\n"}}]})
    assert played(project, story, "--until", "close") == ("stopped", set())
    assert list(evidence(project, "work/test")["extra_runs_ms"]) == ["base"]
    project.swarm("resume")
    assert (newest(project).state, evidence(project, "work/tests")["extra_runs_ms"]) == ("succeeded", {})


def test_a_criterion_s_name_settles_nothing_else(project: Project) -> None:
    (requirement,) = MATRIX["requirements"]
    named = {**requirement, "id": "R -tests_deleted@work/write -criterion:R@work/test\n!"}
    state, blocking = played(project, building(write(of_matrix(requirements=[named]), delete=[APP_TESTS])))
    assert (state, "tests_deleted@work/write" in blocking) == ("unproven", True)
    project.swarm("verify")


def test_an_agent_cannot_call_its_matrix_a_placeholder(project: Project) -> None:
    found = played(project, building(write(of_matrix(stub=True))))
    assert found == ("unproven", {"criterion:REQ-001@work/test"})


def test_a_later_agent_takes_back_nothing_that_the_tests_showed(project: Project) -> None:
    flow = FLOW + "  - {id: close, station: build-cleanup}\n"
    story = Story([write({"app.py": BROKEN, APP_TESTS: ONLY_TAX})], files={WORK: flow})
    assert played(project, story) == ("unproven", {"tests_deleted@work/test"})


def test_another_command_that_reports_tests_makes_none_green(project: Project) -> None:
    flow = FLOW + f"  - {{id: lint, engine: command, command: {{run: '{PYTEST} -k tax'}}}}\n"
    story = Story([write({"app.py": BROKEN})], files={WORK: flow})
    assert played(project, story) == ("unproven", {"tests_red@work/test"})


def test_skipped_tests_prove_nothing(project: Project) -> None:
    assert played(project, Story([write({"app.py": BROKEN})]), "--until", "write") == ("stopped", set())
    ask(project, "skip", "test")
    found = newest(project)
    assert (found.state, *found.blocking, *found.warnings) == ("unproven", "tests_not_run@work/test")


def test_the_branch_of_a_run_that_never_landed_excuses_nothing(project: Project) -> None:
    played(project, Story([write({"app.py": BROKEN})]))
    branch = f"shadow/{newest(project).run}"
    Story([write({"other.py": "x = 1\n"})]).start(project, "--autopilot", "--base", branch)
    assert newest(project).state == "unproven"


def test_what_was_accepted_at_a_step_is_not_asked_again_by_its_tests(project: Project) -> None:
    story = Story([write({}, delete=[APP_TESTS])])
    story.commit_base(project)
    story.start(project)
    ask(project, "resume", "--accept", "tests_deleted@work/write=the feature is gone")
    found = newest(project)
    assert "tests_deleted@work/test" not in found.blocking | found.warnings


def test_settings_of_tests_in_a_folder_above_change_no_name(project: Project) -> None:
    (project.root.parent / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    story = Story([write({APP_TESTS: TESTS.replace("== 4", "== 2 + 2")})])
    assert played(project, story) == ("succeeded", set())
