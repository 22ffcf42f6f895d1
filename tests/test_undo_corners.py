"""Taking back where it is hard: ignored files in the way, forks, failures, killed steps, nothing left to execute."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.ledger import rescue, state
from gitswarm.ledger.layout import RunLayout
from gitswarm.runner.run_processes import Request, Requests
from tests.conftest import Project
from tests.faults import Server
from tests.in_process import Answer
from tests.projects import ask, only_run
from tests.test_undo import FLOW, SCRIPT, files
from tests.unseen import unseen_line

FOLDER_FOR_FILE = """\
steps:
  one: {run: ["echo 1 > d"]}
  two: {run: ["rm d", "mkdir d", "echo mine > d/k.ign", "chmod +x d/k.ign"]}
"""
FILE_FOR_FOLDER = """\
steps:
  one: {run: ["mkdir d", "echo 1 > d/a"]}
  two: {run: ["rm -r d", "echo d >> .gitignore", "echo mine > d"]}
"""
FILE_FOR_LINK = """\
steps:
  one: {run: ["ln -s a l"]}
  two: {run: ["rm l", "echo l >> .gitignore"]}
  three: {run: ["echo mine > l"]}
"""
DANGLING_LINK_FOR_FILE = """\
steps:
  one: {run: ["echo 1 > l"]}
  two: {run: ["rm l", "echo l >> .gitignore"]}
  three: {run: ["ln -s nowhere l"]}
"""
BEGINS_TO_TRACK = 'steps: {two: {run: ["echo > .gitignore", "echo tracked > k.ign"]}}'
FAILING = 'steps: {two: [{fail: overloaded}, {write: {b.txt: "2"}}]}'
NOT_OURS = (".", ":(top,exclude).swarm")
BLOCKED = 'steps: {three: [{status: BLOCKED, summary: "which?"}, {summary: third}]}'


@pytest.fixture
def three(project: Project) -> Project:
    project.commit({".swarm/flows/three.yaml": FLOW, ".gitignore": "*.ign\n"})
    return project


def swarm(project: Project, *arguments: str, code: int = 0) -> Answer:
    said = ask(project, *arguments)
    assert said.code == code, f"exit code {said.code}\n{said.stdout}\n{said.stderr}"
    return said


def start(project: Project, script: str, *arguments: str, code: int = 0) -> Path:
    """Executes a run; its worktree."""
    swarm(project, "start", "three", "--script", project.script(script), *arguments, code=code)
    return project.root.parent / "repo.swarm" / only_run(project)


def told(project: Project, *arguments: str) -> Any:
    return json.loads(swarm(project, *arguments, "--json").stdout)


def steps(project: Project, *run: str) -> list[str]:
    return [f"{entry['step']}@{entry['iteration']}" for entry in told(project, "log", *run)]


@pytest.mark.parametrize("script", [FOLDER_FOR_FILE, FILE_FOR_FOLDER, FILE_FOR_LINK, DANGLING_LINK_FOR_FILE])
def test_an_ignored_file_that_cannot_stay_comes_back_with_the_undo(three: Project, script: str) -> None:
    worktree = start(three, script)
    before = files(worktree)

    swarm(three, "rollback", "one")
    assert three.git("status", "--porcelain", cwd=worktree) == ""
    assert files(worktree) != before
    swarm(three, "rollback", "--undo")

    assert files(worktree) == before
    assert three.git("status", "--porcelain", cwd=worktree) == ""


def test_an_ignored_file_that_an_undo_would_overwrite_is_set_aside(three: Project) -> None:
    worktree = start(three, BEGINS_TO_TRACK)
    swarm(three, "rollback", "one")
    (worktree / "k.ign").write_text("mine", encoding="utf-8")

    swarm(three, "rollback", "--undo")

    assert (worktree / "k.ign").read_text(encoding="utf-8") == "tracked\n"
    assert three.git("show", f"refs/swarm/{worktree.name}/rollback/2:k.ign") == "mine"


def test_an_ignored_file_that_a_resume_would_overwrite_is_set_aside(three: Project) -> None:
    worktree = start(three, SCRIPT, "--until", "one")
    (worktree / "d/x").unlink()
    (worktree / "d").rmdir()
    (worktree / ".gitignore").write_text("d\n", encoding="utf-8")
    (worktree / "d").write_text("mine", encoding="utf-8")

    swarm(three, "resume")

    assert three.git("show", f"refs/swarm/{worktree.name}/rollback/1:d") == "mine"


def test_an_undo_holds_although_a_step_was_killed_after_the_rollback(three: Project, tmp_path: Path) -> None:
    deadly = tmp_path / "deadly"
    line = unseen_line(f'[ ! -e "{deadly}" ] || kill -9 "$PPID"')
    start(three, f"steps: {{two: {{run: [{line}]}}}}")
    log = told(three, "log")
    swarm(three, "rollback", "one")
    deadly.touch()
    killed_by_its_step(three)

    swarm(three, "rollback", "--undo")
    said = swarm(three, "resume")

    assert "succeeded already" in said.stderr
    assert told(three, "log") == log


def test_an_undo_that_is_killed_again_and_again_can_be_asked_for_until_it_is_done(
    three: Project, tmp_path: Path
) -> None:
    worktree = start(three, SCRIPT)
    (worktree / "new.txt").write_text("not committed", encoding="utf-8")
    before = (files(worktree), told(three, "log"))
    swarm(three, "rollback", "one")

    with Server(tmp_path) as server:
        codes = [
            server.execute(point, ("rollback", "--undo"), three.root, three.env).returncode
            for point in range(3, 300, 18)
        ]

    assert (codes[0], codes[-1]) == (-signal.SIGKILL, 1)
    assert (files(worktree), told(three, "log")) == before


@pytest.mark.parametrize("command", ["stop", "pause"])
def test_a_run_with_nothing_left_to_execute_succeeds_whatever_is_requested(three: Project, command: str) -> None:
    (start(three, SCRIPT) / "by_hand.txt").write_text("mine", encoding="utf-8")
    swarm(three, "rollback", "three")
    assert swarm(three, command).stdout == f"{only_run(three)} succeeded\n"
    swarm(three, "resume")
    assert steps(three) == ["one@1", "two@1", "three@1"]


def test_a_fork_goes_on_behind_a_step_made_by_hand(three: Project) -> None:
    worktree = start(three, BLOCKED, code=5)
    (worktree / "by_hand.txt").write_text("mine", encoding="utf-8")
    swarm(three, "resume", "--adopt")

    swarm(three, "fork", "adopt", "--run", worktree.name)

    (forked,) = {run["run_id"] for run in told(three, "list")} - {worktree.name}
    assert steps(three, forked) == ["one@1", "two@1", "three@1", "adopt@1", "three@2"]
    assert told(three, "status", forked)["state"] == "succeeded"


def test_a_fork_is_not_rolled_back_behind_its_own_start(three: Project) -> None:
    worktree = start(three, SCRIPT)
    swarm(three, "fork", "two", "--run", worktree.name)
    (forked,) = {run["run_id"] for run in told(three, "list")} - {worktree.name}
    log = told(three, "log", forked)

    said = swarm(three, "rollback", "one", "--run", forked, code=1)

    assert said.stderr == (
        f"git-swarm: {forked} was forked after three/two: it cannot be rolled back further\n"
        f"hint: git swarm fork 1 --run {forked}\n"
    )
    assert told(three, "log", forked) == log
    swarm(three, "rollback", "two", "--run", forked)
    assert steps(three, forked) == ["one@1", "two@1"]


@pytest.mark.parametrize(
    ("script", "code", "step"), [(FAILING, 4, "two"), (BLOCKED, 5, "three")], ids=["failed", "blocked"]
)
def test_edits_adopted_after_a_rollback_to_a_step_without_success_let_it_be_executed_again(
    three: Project, script: str, code: int, step: str
) -> None:
    worktree = start(three, script, code=code)
    swarm(three, "rollback", step)
    (worktree / "by_hand.txt").write_text("mine", encoding="utf-8")

    swarm(three, "resume", "--adopt", "--until", step)

    assert steps(three)[-3:] == [f"{step}@1", "adopt@1", f"{step}@2"]


def test_a_step_without_success_can_be_skipped_after_a_rollback_to_it(three: Project) -> None:
    start(three, FAILING, code=4)
    swarm(three, "rollback", "two")
    swarm(three, "skip", "two")
    assert steps(three) == ["one@1", "two@1", "two@2", "three@1"]
    assert told(three, "status")["state"] == "succeeded"


@pytest.mark.parametrize("refused", [("resume", "--adopt"), ("skip", "one")], ids=["adopt", "skip"])
def test_what_is_refused_does_not_take_a_run_past_a_blocked_step(three: Project, refused: tuple[str, str]) -> None:
    start(three, BLOCKED, code=5)
    swarm(three, "rollback", "three")

    swarm(three, *refused, code=1)

    swarm(three, "resume", code=5)
    assert steps(three) == ["one@1", "two@1", "three@1"]
    swarm(three, "resume")
    assert steps(three)[3:] == ["three@2"]


def killed_by_its_step(project: Project) -> None:
    """Ends the process that executes the next step, by the line `deadly` there."""
    done = subprocess.run(
        project.argv("resume"), cwd=project.root, env=dict(project.env), capture_output=True, check=False
    )
    assert done.returncode == -9


def test_a_skipped_step_takes_nothing_that_a_killed_one_left(three: Project) -> None:
    line = unseen_line('echo left.txt > .gitignore; echo mine > left.txt; kill -9 "$PPID"')
    worktree = start(three, f"steps: {{two: {{run: [{line}]}}}}", "--until", "one")
    killed_by_its_step(three)

    swarm(three, "skip", "two")

    changed = three.git("show", "--format=", "--name-only", told(three, "log")[1]["commit"], "--", *NOT_OURS)
    assert changed == ""
    assert (worktree / "left.txt").read_text(encoding="utf-8") == "mine\n"


def test_a_discarded_run_comes_back_with_uncommitted_and_ignored_files(three: Project) -> None:
    three.commit({".swarm/config.yaml": "worktree: {copy: [local.cfg]}\n"})
    three.write({"local.cfg": "KEY=1\n"})
    worktree = start(three, SCRIPT)
    (worktree / "k.ign").write_text("ignored", encoding="utf-8")
    (worktree / "new.txt").write_text("not committed", encoding="utf-8")
    before = files(worktree)

    swarm(three, "discard", worktree.name, "--force")
    swarm(three, "discard", "--restore", worktree.name)

    assert files(worktree) == before
    assert three.git("status", "--porcelain", cwd=worktree) == "?? local.cfg\n?? new.txt"
    (worktree / "new.txt").unlink()
    swarm(three, "discard", worktree.name)


def test_two_who_ask_at_once_for_the_end_of_a_run_both_succeed(project: Project) -> None:
    requests = Requests(open_repository(project.root, project.env), RunLayout("run-20260101-000000-000000"))
    with ThreadPoolExecutor(2) as pool:
        for asked in [pool.submit(requests.put, Request(kind="stop", reason="x")) for _ in range(1_000)]:
            asked.result()
    assert requests.read() == Request(kind="stop", reason="x")
    assert [path.suffix for path in (project.root / ".git/swarm/requests").iterdir()] == [".json"]


def test_each_commit_is_read_once_however_much_was_set_aside(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project, run = three, three.start(SCRIPT, flow="three")
    layout, repository = RunLayout(run), open_repository(project.root, project.env)
    tip = project.git("rev-parse", layout.branch)
    for number in range(1, 10):
        aside = project.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "work")
        project.git("update-ref", f"{layout.rollback_prefix}{number}", aside)
    read: list[str] = []
    first_parents = state.first_parents

    def counted(*asked: Any) -> Iterator[Any]:
        for commit, message in first_parents(*asked):
            read.append(commit.id)
            yield commit, message

    monkeypatch.setattr(rescue, "first_parents", counted)
    assert rescue.find_orphaned_commits(repository, layout, tip) is None
    assert len(set(read)) + 9 == len(read)


def test_a_discarded_run_comes_back_with_all_its_files_or_not_at_all(three: Project) -> None:
    run = three.start(SCRIPT, flow="three")
    path = three.worktree(run)
    (path / "mine.ign").write_text("mine", encoding="utf-8")
    three.swarm("discard", run)
    (path / "new").mkdir(parents=True)
    answer = ask(three, "discard", "--restore", run)
    assert (answer.code, f"{path} is where its worktree was" in " ".join(answer.stderr.split())) == (1, True)
    assert three.json("list") == []
    path.rename(f"{path}.old")
    three.swarm("discard", "--restore", run)
    assert (path / "mine.ign").read_text(encoding="utf-8") == "mine"


def test_the_files_of_a_discarded_run_come_back_after_a_kill_too(
    three: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = three.start(SCRIPT, flow="three")
    path = three.worktree(run)
    (path / "mine.ign").write_text("mine", encoding="utf-8")
    three.swarm("discard", run)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", _killed)
        three.swarm("discard", "--restore", run, code=3)
    assert [each.name for each in path.iterdir()] == [".git"]
    three.swarm("discard", "--restore", run)
    assert (path / "mine.ign").read_text(encoding="utf-8") == "mine"
    assert three.git("status", "--porcelain", cwd=path) == ""


def _killed(_path: Path, _target: Path) -> Path:
    raise OSError("as if it was killed")
