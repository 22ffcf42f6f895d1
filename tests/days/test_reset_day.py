"""A Build that upstream moves under: the flow `reset` interrupts it, if the run knows that flow, and it goes on."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.days.stored import compare_flow
from tests.days.till import APP, FILES, GOOD_DAY, OFF, ROUNDED
from tests.projects import ask, only_run

THEIRS = "\n\ndef many(prices):\n    return len(prices)\n"
BOTH = {"resolve_conflicts": {"write": {"src/till.py": APP + OFF + ROUNDED + THEIRS}, "summary": "both are kept"}}


def half_built(project: Project, *flows: str) -> str:
    """A run that is stopped when its code is there; the user's branch has since got other code in the same place."""
    project.commit(FILES, "a till")
    steps = {name: entry for name, entry in GOOD_DAY.items() if name.startswith("build/")}
    steps["build/finalize"] = {"leaves_out": []}
    script = project.script(json.dumps({"steps": {**steps, **(BOTH if "reset" in flows else {})}}))
    project.swarm("start", *flows, "-m", "x", "--allow-stub", "--script", script, "--until", "build/implement")
    project.commit({"src/till.py": APP + THEIRS}, "theirs")
    return only_run(project)


def flows_of(project: Project) -> list[str]:
    return list(dict.fromkeys(step["flow"] for step in project.json("log")))


def test_a_build_with_reset_is_interrupted_and_goes_on_on_the_new_base(project: Project) -> None:
    run = half_built(project, "build", "reset")
    theirs = project.git("rev-parse", "main")

    project.swarm("resume", run)

    steps = [f"{step['flow']}/{step['step']}" for step in project.json("log")]
    back = steps.index("reset/report")
    assert (steps[steps.index("reset/fetch_upstream") - 1], steps[back + 1]) == (
        "build/critique_code",
        "build/run_tests",
    )
    assert "reset/resolve_conflicts" in steps[:back]
    assert project.json("status", run)["base"] == theirs == project.git("merge-base", "main", f"shadow/{run}")
    assert project.git("show", f"shadow/{run}:src/till.py") + "\n" == APP + OFF + ROUNDED + THEIRS
    assert (project.json("status", run)["state"], project.json("status", run)["open_concerns"]) == ("succeeded", [])
    project.swarm("verify", run)
    compare_flow(project, run, "reset")
    project.swarm("approve", run)
    project.swarm("land", run)
    assert project.git("log", "--format=%s", "main").splitlines() == ["x", "theirs", "a till", "first"]
    project.swarm("verify", run)


def test_a_build_alone_ends_on_its_own_base_and_does_not_land_over_what_came(project: Project) -> None:
    run = half_built(project, "build")
    theirs = project.git("rev-parse", "main")
    project.swarm("resume", run)
    assert flows_of(project) == ["build"]
    project.swarm("approve", run)
    refused = ask(project, "land", run)
    assert "conflict in " in refused.stderr
    assert (refused.code, project.git("rev-parse", "main")) == (1, theirs)


@pytest.mark.parametrize("inside", [False, True])
def test_a_reset_that_is_started_on_the_branch_of_another_run(project: Project, *, inside: bool) -> None:
    """It is a run of its own, which looks at where that one's branch is, and leaves it as it is."""
    run = half_built(project, "build")
    before = project.git("for-each-ref", f"refs/heads/shadow/{run}", f"refs/swarm/{run}")
    worktree = project.worktree(run)
    where = {"cwd": worktree} if inside else {}
    words = () if inside else ("--base", f"shadow/{run}")
    started = ask(project, "start", "reset", "-m", "x", "--allow-stub", *words, **where)
    assert started.code == 0, started.stderr
    assert project.git("for-each-ref", f"refs/heads/shadow/{run}", f"refs/swarm/{run}") == before
    assert project.git("status", "--porcelain", cwd=worktree) == ""
    second = next(told["run_id"] for told in project.json("list") if told["run_id"] != run)
    text = project.git("show", f"shadow/{second}:.swarm/runs/{second}/reset/upstream.json")
    found = json.loads(text)
    assert (found["branch"], found["behind"], found["moved"]) == (f"shadow/{run}", 0, False)
    for each in (second, run):
        project.swarm("verify", each)
    project.swarm("resume", run)
    assert project.json("status", run)["state"] == "succeeded"
