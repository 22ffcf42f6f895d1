"""Taking back, branching off, ending, cleaning up: rollback, fork, stop, pause, adopt, skip, discard, gc."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Project
from tests.waiting import wait_until

FLOW = """\
id: three
steps:
  - {id: one, station: code-implementer}
  - {id: two, station: code-implementer}
  - {id: three, station: code-implementer}
"""

SCRIPT = """\
steps:
  one: {write: {a.txt: "1", d/x: x}, summary: first}
  two: {write: {a.txt: "2", b.txt: "2"}, delete: [d/x], run: ["ln -s a.txt link", "chmod +x b.txt"], summary: second}
  three: {write: {c.txt: "3"}, summary: third}
"""

BLOCKED = SCRIPT.replace("summary: third", 'summary: "which colour?", status: BLOCKED')


@pytest.fixture
def three(project: Project) -> Project:
    """A repository with the flow `three`, and `*.ign` ignored."""
    project.commit({".swarm/flows/three.yaml": FLOW, ".gitignore": "*.ign\n"})
    return project


@pytest.fixture
def hanging(three: Project) -> Iterator[subprocess.Popen[str]]:
    """A run whose second step has written a file and does not end."""
    script = three.script(SCRIPT.replace('["ln -s a.txt link", "chmod +x b.txt"]', "[sleep 1000]"))
    process = subprocess.Popen(
        three.argv("start", "three", "--script", script),
        cwd=three.root,
        env=dict(three.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: "sleep 1000" in _current_tool(three), "the second step sleeps")
    yield process
    process.kill()
    process.communicate()


def _current_tool(project: Project) -> str:
    listed = project.json("list")
    return project.swarm("events", "--json").stdout if listed and listed[0]["current_step"] == "two" else ""


def files(root: Path) -> dict[str, str]:
    """Every file of a worktree but git's and the run's own: path → kind and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_dir() or name == ".git" or name.startswith(".swarm/"):
            continue
        if path.is_symlink():
            found[name] = f"link {path.readlink()}"
        else:
            found[name] = f"{'x' if os.access(path, os.X_OK) else '-'} {path.read_text(encoding='utf-8')}"
    return found


def steps(project: Project) -> list[str]:
    return [f"{entry['step']}@{entry['iteration']}" for entry in project.json("log")]


AFTER_ONE = {
    ".gitignore": "- *.ign\n",
    "README.md": "- # hello\n",
    "a.txt": "- 1",
    "d/x": "- x",
    "src/app.py": "- print('hello')\n",
}


def test_a_rollback_restores_exactly_the_tree_after_the_step(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    one = three.json("log")[0]["commit"]

    three.swarm("rollback", "one")

    worktree = three.worktree(run)
    assert files(worktree) == AFTER_ONE
    assert three.git("rev-parse", f"shadow/{run}") == one
    assert three.git("status", "--porcelain", cwd=worktree) == ""
    assert three.json("status")["next_step"] == "two"


def test_a_rollback_keeps_what_git_ignores_and_sets_the_rest_aside(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    worktree = three.worktree(run)
    (worktree / "local.ign").write_text("mine", encoding="utf-8")
    (worktree / "new.txt").write_text("not committed", encoding="utf-8")

    three.swarm("rollback", "one")

    assert files(worktree) == AFTER_ONE | {"local.ign": "- mine"}
    assert three.git("show", f"refs/swarm/{run}/rollback/1:new.txt") == "not committed"


def test_a_file_that_a_step_began_to_ignore_survives_the_rollback_over_that_step(three: Project) -> None:
    ignoring = 'steps: {two: {write: {.gitignore: "*.ign\\nout/\\n"}}}'
    run = three.start(ignoring, flow="three")
    worktree = three.worktree(run)
    (worktree / "out").mkdir()
    (worktree / "out/result").write_text("precious", encoding="utf-8")

    three.swarm("rollback", "one")

    assert files(worktree)["out/result"] == "- precious"


def test_undo_brings_back_steps_and_uncommitted_work(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    worktree = three.worktree(run)
    (worktree / "new.txt").write_text("not committed", encoding="utf-8")
    (worktree / "a.txt").unlink()
    before = (files(worktree), three.json("log"), three.git("rev-parse", f"shadow/{run}"))
    dirt = three.git("status", "--porcelain", cwd=worktree)

    three.swarm("rollback", "one")
    three.swarm("rollback", "--undo")

    assert (files(worktree), three.json("log"), three.git("rev-parse", f"shadow/{run}")) == before
    assert three.git("status", "--porcelain", cwd=worktree) == dirt


def test_a_dry_run_says_what_goes_and_changes_nothing(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    worktree = three.worktree(run)
    (worktree / "new.txt").write_text("not committed", encoding="utf-8")
    before = (files(worktree), three.git("for-each-ref"))

    said = three.swarm("rollback", "one", "--dry-run").stdout

    assert said.splitlines() == [
        f"{run} would be rolled back to three/one@1",
        "undone     three/two: second",
        "undone     three/three: third",
        "changes    a.txt",
        "changes    b.txt",
        "changes    c.txt",
        "changes    d/x",
        "changes    link",
        "set aside  new.txt (not committed)",
        "kept       files that git ignores stay in the worktree",
    ]
    assert (files(worktree), three.git("for-each-ref")) == before


def test_after_a_rollback_resume_decides_again_and_executes_the_rest(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    tree = three.tree(f"shadow/{run}")
    three.swarm("rollback", "one")
    assert three.json("log")[-1]["routing"] is None

    three.swarm("resume")

    assert (steps(three), three.tree(f"shadow/{run}")) == (["one@1", "two@1", "three@1"], tree)


def test_what_a_person_says_after_a_rollback_is_taken_and_the_run_goes_on(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    three.swarm("rollback", "one")
    (three.root.parent / "said.md").write_text("- rename a.txt\n", encoding="utf-8")
    three.swarm("resume", "--feedback", str(three.root.parent / "said.md"))
    assert steps(three) == ["one@1", "feedback@1", "two@1", "three@1"]
    assert (three.json("status")["state"], three.swarm("verify", run).returncode) == ("succeeded", 0)


def test_a_run_can_be_rolled_back_to_before_its_first_step(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    three.swarm("rollback", "0")
    assert (steps(three), three.tree(f"shadow/{run}")) == ([], three.tree("main"))
    three.swarm("resume")
    assert steps(three) == ["one@1", "two@1", "three@1"]


def test_nothing_to_undo_is_told_with_the_next_command(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    said = three.swarm("rollback", "--undo", code=1).stderr
    assert said == f"git-swarm: {run} has no rollback to undo\nhint: git swarm log {run}\n"


def test_a_rollback_that_would_undo_nothing_leaves_the_run_as_it_is(three: Project) -> None:
    run = three.start(SCRIPT, "--allow-stub", flow="three")
    before = three.git("for-each-ref")
    assert three.swarm("rollback", "three").stdout == f"{run} is at three/three@1 already: nothing to undo\n"
    assert three.json("rollback", "3")["kept"] is None
    assert three.git("for-each-ref") == before
    assert three.json("status")["state"] == "succeeded"


def test_a_fork_from_0_shares_no_step(three: Project) -> None:
    three.start(SCRIPT, flow="three")
    said = three.swarm("fork", "0", "--until", "one").stderr
    assert " forked at the base of " in said
    assert [entry["step"] for entry in three.json("log")] == ["one"]


def test_a_fork_shares_history_and_leaves_the_other_run_alone(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    before = three.git("for-each-ref", f"refs/heads/shadow/{run}", f"refs/swarm/{run}", f"refs/notes/swarm/{run}")
    old = [entry["commit"] for entry in three.json("log")]

    three.swarm("fork", "one", "--engine", "gemini")

    forked = three.json("list")[0]
    log = three.json("log")
    assert [(e["step"], e["engine"]) for e in log] == [
        ("one", "claude-step"),
        ("two", "gemini-step"),
        ("three", "gemini-step"),
    ]
    assert log[0]["commit"] == old[0]
    assert (forked["state"], three.tree(forked["tip"])) == ("succeeded", three.tree(f"shadow/{run}"))
    now = three.git("for-each-ref", f"refs/heads/shadow/{run}", f"refs/swarm/{run}", f"refs/notes/swarm/{run}")
    assert now == before


def test_until_stops_in_good_order_and_resume_goes_on(three: Project) -> None:
    run = three.start(SCRIPT, "--until", "two", flow="three")
    assert (steps(three), three.json("status")["state"]) == (["one@1", "two@1"], "stopped")
    three.swarm("resume", run)
    assert (steps(three), three.json("status")["state"]) == (["one@1", "two@1", "three@1"], "succeeded")


def test_from_begins_at_a_step(three: Project) -> None:
    three.start(SCRIPT, "--from", "three", flow="three")
    assert steps(three) == ["three@1"]


def test_an_unknown_step_to_begin_at_is_refused_with_the_nearest(three: Project) -> None:
    done = three.swarm("start", "three", "--from", "tow", "--script", three.script(SCRIPT), code=1)
    assert done.stderr == (
        "git-swarm: three has no step 'tow' (did you mean 'two'?)\nhint: git swarm flows show three\n"
    )
    assert three.json("list") == []


def test_an_answer_is_told_to_the_step_that_was_blocked(three: Project) -> None:
    three.start(BLOCKED, flow="three", code=5)
    three.swarm("resume", "-m", "red", code=5)
    assert "- red\n" in three.swarm("show", "three@2", "--prompt").stdout
    resumed = [line for line in three.swarm("events", "--json").stdout.splitlines() if "run_resumed" in line]
    assert ['"answer":"red"' in line for line in resumed] == [True]


def test_edits_by_hand_become_a_step_of_the_human(three: Project) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    (three.worktree(run) / "by_hand.txt").write_text("mine", encoding="utf-8")

    three.swarm("resume", "--adopt", code=5)

    log = three.json("log")
    assert [(e["step"], e["agent"], e["engine"]) for e in log[3:]] == [
        ("adopt", "human", "kernel"),
        ("three", "code-implementer", "claude-step"),
    ]
    changed = three.git("show", "--format=", "--name-only", log[3]["commit"], "--", ":(top,exclude).swarm")
    assert changed == "by_hand.txt"


def test_adopting_nothing_is_refused(three: Project) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    said = three.swarm("resume", "--adopt", code=1).stderr
    assert said.startswith("git-swarm: nothing to adopt: ")
    assert said.endswith(f"or: git swarm resume {run}\n")


def test_a_skipped_step_is_committed_as_skipped_and_the_run_goes_on(three: Project) -> None:
    three.start(BLOCKED, flow="three", code=5)
    three.swarm("skip", "three", "-m", "not needed")
    last = three.json("log")[-1]
    assert (last["step"], last["result"], last["agent"], last["summary"]) == (
        "three",
        "skipped",
        "human",
        "skipped by hand: not needed",
    )
    assert three.json("status")["state"] == "succeeded"


def test_only_the_next_step_can_be_skipped(three: Project) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    said = three.swarm("skip", "two", code=1).stderr
    assert said == (f"git-swarm: the next step is three/three, not two\nhint: git swarm skip three --run {run}\n")


def test_behind_the_last_step_nothing_is_skipped(three: Project) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    three.swarm("skip", "three")
    (three.worktree(run) / "by_hand.txt").write_text("mine", encoding="utf-8")
    three.swarm("rollback", "three")
    said = three.swarm("skip", "three", code=1).stderr
    assert said == f"git-swarm: no step is next: the flow is at its end\nhint: git swarm status {run}\n"


@pytest.mark.parametrize(("command", "state", "code"), [("stop", "stopped", 0), ("pause", "paused", 5)])
def test_a_wish_at_once_keeps_the_step_s_work_and_resume_continues_it(
    three: Project, hanging: subprocess.Popen[str], command: str, state: str, code: int
) -> None:
    three.swarm(command, "--now")

    assert hanging.wait(timeout=30) == code
    status = three.json("status")
    assert (status["state"], status["next_step"]) == (state, "two")
    partial = three.git("show", f"{status['tip']}:.swarm/runs/{status['run_id']}/three/handoff_partial.json")
    assert '"files": [\n    "a.txt",\n    "b.txt",\n    "d/x"\n  ]' in partial
    assert (Path(status["worktree"]) / "b.txt").read_text(encoding="utf-8") == "2"
    announced, ended = map(json.loads, three.swarm("events", "--json").stdout.splitlines()[-2:])
    assert (announced["kind"], ended["kind"]) == (
        {"stop": "run_stopping"}.get(command, "run_pausing"),
        f"run_{state}",
    )
    assert announced["payload"] == {"reason": "asked by hand"}


def test_a_request_to_stop_is_met_at_the_next_boundary(three: Project, hanging: subprocess.Popen[str]) -> None:
    said = three.swarm("stop").stdout
    run = three.json("list")[0]["run_id"]
    assert said == f"{run} will stop after its current step (process {hanging.pid})\n"
    for child in psutil.Process(hanging.pid).children(recursive=True):
        child.kill()
    assert hanging.wait(timeout=30) == 0
    assert (steps(three), three.json("status")["state"]) == (["one@1", "two@1"], "stopped")


def test_stop_ends_a_run_that_was_killed(three: Project, hanging: subprocess.Popen[str]) -> None:
    hanging.send_signal(signal.SIGKILL)
    hanging.wait(timeout=30)
    run = three.json("list")[0]["run_id"]
    assert three.swarm("stop").stdout.endswith(f"{run} stopped\n")
    assert three.json("status")["state"] == "stopped"


def test_a_run_that_somebody_executes_is_not_rolled_back(three: Project, hanging: subprocess.Popen[str]) -> None:
    run = three.json("list")[0]["run_id"]
    said = three.swarm("rollback", "one", code=1).stderr
    assert said.startswith(f"git-swarm: {run} is executed by process {hanging.pid} on ")


def test_a_detached_run_ends_by_itself_and_has_a_log(three: Project) -> None:
    said = three.swarm_process("start", "three", "--detach", "--script", three.script(SCRIPT)).stdout
    wait_until(lambda: three.json("status")["state"] == "succeeded", "the run ends")
    log = three.root / said.splitlines()[1].removeprefix("log").strip()
    assert "✓  3 three" in log.read_text(encoding="utf-8")
    events = [line for line in three.swarm("events", "--json").stdout.splitlines() if "run_resumed" in line]
    assert events == []


def test_a_discarded_run_leaves_no_ref_and_no_worktree_and_can_be_brought_back(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    worktree = three.worktree(run)
    log = three.json("log")
    refs = [line for line in three.git("for-each-ref").splitlines() if run in line]

    three.swarm("discard", run)

    left = [line for line in three.git("for-each-ref").splitlines() if run in line and "/trash/" not in line]
    assert (left, worktree.exists(), three.json("list")) == ([], False, [])
    assert three.git("worktree", "list").count("\n") == 0

    three.swarm("discard", "--restore", run)

    assert [line for line in three.git("for-each-ref").splitlines() if run in line] == refs
    assert three.json("log", run) == log


def test_discard_refuses_uncommitted_work_without_force(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    (three.worktree(run) / "new.txt").write_text("mine", encoding="utf-8")
    said = three.swarm("discard", run, code=1).stderr
    assert said.endswith(f"hint: git swarm resume {run}, or: git swarm discard {run} --force\n")
    three.swarm("discard", run, "--force")
    assert three.git("show", f"refs/swarm/trash/{run}/swarm/{run}/rollback/1:new.txt") == "mine"


def test_gc_empties_the_trash_of_what_is_old_enough(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    three.swarm("discard", run)
    assert three.swarm("gc").stdout == "nothing to clean up\n"
    assert three.swarm("gc", "--older-than", "0").stdout == f"removed  {run} from the trash\n"
    assert three.git("for-each-ref", "refs/swarm", "refs/notes", "refs/heads/shadow") == ""


@pytest.mark.parametrize("deed", ["branch -D", "branch -m"])
def test_a_branch_that_somebody_took_away_is_made_again(three: Project, deed: str) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    log = three.json("log")
    branch = f"shadow/{run}"
    if deed == "branch -D":
        three.git("worktree", "remove", "--force", str(three.worktree(run)))
        three.git("branch", "-q", "-D", branch)
    else:
        three.git("branch", "-m", branch, "elsewhere")

    three.swarm("resume", run, "-m", "again", code=5)

    assert three.json("log", run)[:3] == log


def test_a_worktree_that_somebody_deleted_is_made_again(three: Project) -> None:
    run = three.start(SCRIPT, "--until", "one", flow="three")
    worktree = three.worktree(run)
    subprocess.run(["rm", "-rf", str(worktree)], check=True)
    assert three.swarm("path", run, code=1).stderr.endswith(f"hint: git swarm resume {run}\n")
    three.swarm("resume", run)
    assert (steps(three), three.worktree(run)) == (["one@1", "two@1", "three@1"], worktree)


def test_commits_made_by_hand_are_refused_and_adopted_when_asked(three: Project) -> None:
    run = three.start(BLOCKED, flow="three", code=5)
    worktree = three.worktree(run)
    (worktree / "by_hand.txt").write_text("mine", encoding="utf-8")
    three.git("add", "by_hand.txt", cwd=worktree)
    three.git("commit", "-q", "-m", "by hand", cwd=worktree)
    mine = three.git("rev-parse", "--short=12", "HEAD", cwd=worktree)

    said = three.swarm("resume", run, code=1).stderr
    assert f"shadow/{run} has commits that no step made: {mine} on " in said
    assert said.endswith(f"hint: git swarm resume {run} --adopt   (makes them a step of yours)\n")

    three.swarm("resume", run, "--adopt", code=5)
    assert [entry["step"] for entry in three.json("log")] == ["one", "two", "three", "adopt", "three"]
    assert "by_hand.txt" in three.tree(f"shadow/{run}")
