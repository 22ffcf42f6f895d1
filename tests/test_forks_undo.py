"""Forks that are taken back, interrupted, killed, branched off or discarded: what is executed again, what is not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.forking import AUDITS, WRITERS, check_tidy, events, sibling_refs, statuses, steps, with_flow
from tests.unseen import unseen
from tests.waiting import wait_until

WRITING = """\
steps:
  left: {write: {left.txt: "left\\n", RUN_BASE/fan/left.md: "l\\n"}}
  right: {write: {right.txt: "right\\n"}}
"""
ALL = ["begin@1", "left@1", "right@1", "both@1", "close@1"]
STUCK = """\
steps:
  left: {write: {left.txt: "left\\n", RUN_BASE/fan/left.md: "l\\n"}}
  right:
    write: {right.txt: "right\\n"}
    run: ['echo $SWARM_ITERATION > round.txt', '[ "$SWARM_ITERATION" != 1 ] || sleep 1000']
"""


def test_a_rollback_to_the_fork_executes_all_of_it_anew(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, flow="fan")
    before = sibling_refs(project, run)

    project.swarm("rollback", "begin")
    assert project.json("status")["next_step"] == "left"
    project.swarm("resume")

    assert steps(project) == ["begin@1", "left@2", "right@2", "both@1", "close@1"]
    after = sibling_refs(project, run)
    assert {step: after[f"{step}@1"] for step in before} == before
    check_tidy(project, run)


def test_a_rollback_into_a_fork_executes_only_what_was_taken_back(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, flow="fan")
    left = project.json("log")[1]["commit"]

    project.swarm("rollback", "left")
    project.swarm("resume")

    assert steps(project) == ["begin@1", "left@1", "right@2", "both@1", "close@1"]
    assert project.json("log")[1]["commit"] == left
    assert project.git("show", f"shadow/{run}:right.txt") == "right"
    check_tidy(project, run)


@pytest.mark.parametrize("target", ["begin", "left", "right"])
def test_a_rollback_around_a_fork_can_be_undone(project: Project, target: str) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, flow="fan")
    before = (project.json("log"), project.json("status"), sibling_refs(project, run))

    project.swarm("rollback", target)
    project.swarm("rollback", "--undo")

    assert (project.json("log"), project.json("status"), sibling_refs(project, run)) == before
    check_tidy(project, run)


def test_an_undone_rollback_of_a_fork_that_was_under_way_continues_what_was_there(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, "--until", "left", flow="fan")
    right = sibling_refs(project, run)["right"]
    project.swarm("rollback", "begin")
    project.swarm("resume", "--until", "left")
    project.swarm("rollback", "--undo")

    project.swarm("resume")

    assert steps(project) == ALL
    assert right in project.git("log", "-1", "--format=%B", project.json("log")[2]["commit"])
    check_tidy(project, run)


def test_a_stop_between_two_steps_of_a_fork_executes_nothing_twice(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, "--until", "left", flow="fan")
    assert (steps(project), project.json("status")["next_step"]) == (["begin@1", "left@1"], "right")
    refs = sibling_refs(project, run)
    project.swarm("resume")
    assert (steps(project), sibling_refs(project, run)) == (ALL, refs)
    check_tidy(project, run)


@contextmanager
def stuck(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A run whose right branch does not end, when its left one is committed."""
    process = subprocess.Popen(
        project.argv("start", "fan", "--script", project.script(STUCK)),
        cwd=project.root,
        env=dict(project.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: _is_stuck(project), "the right branch sleeps beside the left one's commit")
        yield process
    finally:
        process.kill()
        process.communicate()


def _is_stuck(project: Project) -> bool:
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/swarm/").split()
    journals = list((project.root / ".git/swarm/journal").rglob("fan.right@1.jsonl"))
    is_committed = any(name.endswith("/left") for name in refs)
    return is_committed and any("sleep 1000" in path.read_text(encoding="utf-8") for path in journals)


def _go_on(project: Project) -> None:
    run = project.json("list")[0]["run_id"]
    left = sibling_refs(project, run)["left"]
    project.swarm("resume", run)
    assert steps(project) == ["begin@1", "left@1", "right@2", "both@1", "close@1"]
    assert sibling_refs(project, run)["left"] == left
    assert project.git("show", f"shadow/{run}:round.txt") == "2"
    assert project.git("show", f"refs/swarm/{run}/rollback/1:right.txt") == "right"
    check_tidy(project, run)


def test_a_second_interrupt_ends_the_branches_and_keeps_what_they_left(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = ""
        while "Ctrl-C again" not in said:
            said = process.stderr.readline()
        time.sleep(0.6)  # sooner it is the same keypress
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    status = project.json("status")
    assert (status["state"], status["next_step"]) == ("paused", "left")
    last = events(project)[-1]["payload"]["reason"]
    assert last == "interrupted right, in parallel: what they left is kept"
    check_tidy(project, status["run_id"])
    _go_on(project)


def test_a_run_is_stopped_at_once_in_a_fork(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        project.swarm("stop", "--now")
        assert process.wait(timeout=30) == 0
    assert project.json("status")["state"] == "stopped"
    check_tidy(project, project.json("list")[0]["run_id"])
    _go_on(project)


def test_a_run_that_was_killed_in_a_fork_executes_only_what_is_missing(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        process.kill()
        process.wait(timeout=30)
    _go_on(project)


def test_a_run_that_was_killed_in_a_fork_can_be_discarded_and_brought_back(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        process.kill()
        process.wait(timeout=30)
    run = project.json("list")[0]["run_id"]

    project.swarm("discard", run, code=1)
    project.swarm("discard", run, "--force")

    assert project.git("worktree", "list").count("\n") == 0
    assert [path.name for path in (project.root.parent / "repo.swarm").iterdir()] == [".trash"]
    project.swarm("discard", "--restore", run)
    project.swarm("resume", run)
    assert steps(project) == ["begin@1", "left@1", "right@2", "both@1", "close@1"]
    check_tidy(project, run)


def test_gc_sweeps_worktrees_of_forks_whose_run_is_gone(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        process.kill()
        process.wait(timeout=30)
    run = project.json("list")[0]["run_id"]
    project.git("worktree", "remove", "--force", str(project.worktree(run)))
    for name in project.git("for-each-ref", "--format=%(refname)").split():
        if run in name:
            project.git("update-ref", "-d", name)
    side = project.root.parent / "repo.swarm" / f"{run}.fork-right"
    sides = {side, *side.parent.glob(f"{run}.fork-*")}  # the left one's commit comes before its worktree goes
    for path in sides | {project.root / ".git/worktrees" / each.name for each in sides}:
        os.utime(path, (0, 0))

    said = project.swarm("gc").stdout

    assert f"removed  ../../repo.swarm/{side.name}\n" in said
    assert (side.exists(), project.git("worktree", "list").count("\n")) == (False, 0)


def test_a_run_that_branches_off_inside_a_fork_executes_the_rest_of_it(project: Project) -> None:
    with_flow(project, WRITERS)
    project.start(WRITING, flow="fan")
    project.swarm("fork", "left")
    assert steps(project) == ALL
    assert statuses(project)["right"] == "VERIFIED"
    new = project.json("list")[0]["run_id"]
    assert sorted(sibling_refs(project, new)) == ["right"]
    assert project.git("show", f"shadow/{new}:left.txt") == "left"
    assert project.git("show", f"shadow/{new}:right.txt") == "right"


def test_a_worktree_that_a_killed_process_left_half_made_is_made_again(project: Project) -> None:
    with_flow(project, WRITERS)
    run = project.start(WRITING, "--until", "begin", flow="fan")
    half = project.root.parent / "repo.swarm" / f"{run}.fork-left"
    half.mkdir()
    (half / "rubbish").write_text("x", encoding="utf-8")
    project.swarm("resume", run)
    assert steps(project) == ALL
    check_tidy(project, run)


def test_a_branch_that_moves_refs_is_found_out_and_its_files_count(project: Project) -> None:
    with_flow(project, WRITERS)
    meddling = "git add -A && git -c user.name=a -c user.email=a@b commit -qm mine && git checkout -q -b mine"
    script = f"""\
steps:
  left: {{write: {{left.txt: "left\\n"}}, run: ["{meddling}"]}}
  right: {{write: {{right.txt: "right\\n"}}, run: ["git update-ref refs/heads/shadow/$RUN_ID HEAD~1"]}}
"""
    run = project.start(unseen(script), flow="fan")
    assert steps(project) == ALL
    assert project.git("show", f"shadow/{run}:left.txt") == "left"
    found = {event["step_id"] for event in events(project) if event["kind"] == "evidence_tampering"}
    assert found >= {"left"}
    check_tidy(project, run)


def test_a_reader_that_was_killed_leaves_the_worktree_of_the_run_as_it_was(project: Project) -> None:
    with_flow(project, AUDITS)
    kill = 'kill -9 "$PPID"'
    script = f"""\
steps:
  left: {{write: {{RUN_BASE/fan/left.md: "l\\n"}}}}
  right:
    write: {{RUN_BASE/fan/right.md: "r\\n"}}
    run: ['[ "$SWARM_ITERATION" != 1 ] || {{ sleep 1; {kill}; }}']
"""
    done = subprocess.run(
        [sys.executable, "-m", "gitswarm", "start", "fan", "--script", project.script(unseen(script))],
        cwd=project.root,
        env=dict(project.env),
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    run = project.json("list")[0]["run_id"]
    project.swarm("resume", run)
    assert steps(project) == ["begin@1", "left@1", "right@2", "both@1", "close@1"]
    folder = f".swarm/runs/{run}/fan"
    assert project.git("show", f"shadow/{run}:{folder}/left.md") == "l"
    assert project.git("show", f"shadow/{run}:{folder}/right.md") == "r"
    check_tidy(project, run)


def test_a_folder_of_a_branch_is_gone_even_if_it_was_deleted_by_hand(project: Project) -> None:
    with_flow(project, WRITERS)
    with stuck(project) as process:
        process.kill()
        process.wait(timeout=30)
    run = project.json("list")[0]["run_id"]
    shutil.rmtree(Path(project.root.parent) / "repo.swarm" / f"{run}.fork-right")
    project.swarm("resume", run)
    assert steps(project) == ["begin@1", "left@1", "right@2", "both@1", "close@1"]
    check_tidy(project, run)
