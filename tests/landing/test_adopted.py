"""Edits in the worktree of a run that succeeded become a step of a person's; the run stays succeeded."""

from __future__ import annotations

import json

from tests.conftest import Project
from tests.landing.common import Run, code_of, ready, refusal, tidy
from tests.projects import ask


def edited(project: Project) -> Run:
    run = ready(project)
    (project.worktree(run.id) / "src/mine.py").write_text("mine\n", encoding="utf-8")
    return run


def sound(run: Run) -> bool:
    return not json.loads(ask(run.project, "verify", run.id, "--json").stdout)["findings"]


def test_edits_become_a_step_and_the_run_stays_succeeded(project: Project) -> None:
    run = edited(project)
    answer = ask(project, "resume", run.id, "--adopt")
    assert (answer.code, answer.stdout.partition(" in ")[0]) == (0, f"{run.id} succeeded: 1 step")
    assert run.status()["state"] == "succeeded"
    assert run.steps() == [("make@1", "VERIFIED"), ("adopt@1", "UNVERIFIED")]
    assert run.trailers(f"{run.tip}^")["Swarm-Agent"] == "human"
    assert sound(run)
    run.landed()
    assert code_of(project, "main")["src/mine.py"] == "mine"
    assert sound(run)
    tidy(run)


def test_an_earlier_approval_is_void_then(project: Project) -> None:
    run = ready(project)
    run.approve()
    (project.worktree(run.id) / "src/mine.py").write_text("mine\n", encoding="utf-8")
    assert ask(project, "resume", run.id, "--adopt").code == 0
    assert run.status()["approved"]["valid"] is False
    reason, _files, _hint = refusal(run.land(code=1))
    assert reason == f"{run.id} cannot land: its code has changed since it was approved"


def test_a_commit_by_hand_on_its_branch_becomes_a_step_too(project: Project) -> None:
    run = edited(project)
    folder = project.worktree(run.id)
    project.git("add", "src/mine.py", cwd=folder)
    project.git("commit", "-q", "--no-verify", "-m", "mine", cwd=folder)
    assert ask(project, "resume", run.id, "--adopt").code == 0
    assert run.steps() == [("make@1", "VERIFIED"), ("adopt@1", "UNVERIFIED")]
    assert (run.status()["state"], sound(run)) == ("succeeded", True)


def test_without_edits_there_is_nothing_to_do(project: Project) -> None:
    run = ready(project)
    before = run.tip
    answer = ask(project, "resume", run.id, "--adopt")
    assert (answer.code, run.tip) == (0, before)
    assert answer.stderr.splitlines()[0] == f"{run.id} succeeded already: nothing to do"


def test_approve_and_land_name_the_way(project: Project) -> None:
    run = ready(project)
    run.approve()
    (project.worktree(run.id) / "src/mine.py").write_text("mine\n", encoding="utf-8")
    for answer in (run.approve(code=1), run.land(code=1)):
        last = answer.stderr.splitlines()[-1]
        assert last == f"hint: git swarm resume {run.id} --adopt   (makes them a step of yours)"
