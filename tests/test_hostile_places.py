"""Worktrees and repositories that somebody moved, copied, locked, deleted or stands on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.hostile import FLOW, Stopped, stopped_run
from tests.projects import ask


@pytest.fixture
def stopped(project: Project) -> Stopped:
    return stopped_run(project)


@pytest.fixture
def edited(stopped: Stopped) -> Stopped:
    """With an edit in the worktree that is not committed."""
    (stopped.worktree / "mine.txt").write_text("mine", encoding="utf-8")
    return stopped


def worktrees(project: Project) -> list[str]:
    lines = project.git("worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")][1:]


def test_a_worktree_moved_by_hand_is_taken_up_where_one_stands_in_it(edited: Stopped, tmp_path: Path) -> None:
    edited.worktree.rename(tmp_path / "elsewhere")

    assert edited.ask("resume", cwd=tmp_path / "elsewhere").code == 0

    edited.assert_whole()
    assert edited.ask("path").stdout == f"{tmp_path / 'elsewhere'}\n"
    assert worktrees(edited.project) == [str(tmp_path / "elsewhere")]
    assert edited.project.git("show", f"{edited.kept()}:mine.txt") == "mine"


def test_from_the_repository_a_moved_worktree_is_made_again_and_its_edits_stay_where_they_are(
    edited: Stopped, tmp_path: Path
) -> None:
    edited.worktree.rename(tmp_path / "elsewhere")

    answer = edited.ask("resume")

    assert answer.code == 0
    assert answer.stderr.splitlines()[0] == (
        f"{edited.worktree} is gone: the worktree is made again from the last commit; edits are where it was moved to"
    )
    edited.assert_whole()
    assert (tmp_path / "elsewhere" / "mine.txt").read_text(encoding="utf-8") == "mine"
    # From now on the folder is a copy, and the run is where it was made again.
    assert edited.ask("path", cwd=tmp_path / "elsewhere").stdout == f"{edited.worktree}\n"


def test_a_worktree_moved_with_git_is_followed(edited: Stopped, tmp_path: Path) -> None:
    edited.project.git("worktree", "move", str(edited.worktree), str(tmp_path / "elsewhere"))
    assert edited.ask("resume").code == 0
    edited.assert_whole()
    assert edited.ask("path").stdout == f"{tmp_path / 'elsewhere'}\n"


def test_after_the_repository_moved_its_worktree_says_so_and_resume_goes_on_there(
    edited: Stopped, tmp_path: Path
) -> None:
    moved = Project(tmp_path / "moved", edited.project.env)
    edited.project.root.rename(moved.root)

    answer = edited.refused("status", cwd=edited.worktree)
    assert answer.stderr == (
        f"git-swarm: {edited.worktree} is a worktree of a repository that no longer exists: {edited.admin}\n"
        "hint: cd to where the repository is now, then: git swarm resume\n"
    )

    assert ask(moved, "resume").code == 0
    edited.assert_whole(project=moved)
    assert moved.git("show", f"{edited.kept()}:mine.txt") == "mine"
    assert ask(moved, "status", cwd=edited.worktree).code == 0


def test_a_repository_and_its_worktrees_may_move_together(edited: Stopped, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    for name in ("repo", "repo.swarm"):
        (tmp_path / name).rename(tmp_path / "new" / name)
    moved = Project(tmp_path / "new" / "repo", edited.project.env)

    assert ask(moved, "resume").code == 0

    edited.assert_whole(project=moved)
    assert worktrees(moved) == [str(tmp_path / "new" / "repo.swarm" / edited.run)]
    assert moved.git("show", f"{edited.kept()}:mine.txt") == "mine"


def test_a_copy_of_the_repository_leaves_the_worktree_to_the_original(edited: Stopped, tmp_path: Path) -> None:
    copy = Project(tmp_path / "copy", edited.project.env)
    shutil.copytree(edited.project.root, copy.root, symlinks=True)

    assert ask(copy, "resume").code == 0

    edited.assert_whole(project=copy)
    assert ask(copy, "path").stdout == f"{tmp_path / 'copy.swarm' / edited.run}\n"
    assert (edited.worktree / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert edited.ask("path").stdout == f"{edited.worktree}\n"
    assert edited.ask("resume").code == 0
    edited.assert_whole()


@pytest.mark.parametrize("command", ["resume", "rollback one", "discard {run}"])
def test_a_branch_that_somebody_checked_out_is_not_moved_under_them(stopped: Stopped, command: str) -> None:
    project = stopped.project
    project.git("checkout", "-q", "--ignore-other-worktrees", stopped.branch)
    before = project.git("rev-parse", stopped.branch)

    answer = stopped.refused(*command.format(run=stopped.run).split())

    assert answer.stderr == (
        f"git-swarm: {stopped.branch} is checked out in {project.root}\n"
        f"hint: git -C {project.root} checkout --detach && git swarm resume {stopped.run}\n"
    )
    assert project.git("rev-parse", stopped.branch) == before
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()
    assert project.git("status", "--porcelain") == ""


def test_a_worktree_in_which_somebody_switched_branches_comes_back_to_its_own(stopped: Stopped) -> None:
    project = stopped.project
    project.git("checkout", "-q", "-b", "mine", cwd=stopped.worktree)
    (stopped.worktree / "mine.txt").write_text("mine", encoding="utf-8")
    project.git("add", "mine.txt", cwd=stopped.worktree)
    project.git("commit", "-q", "-m", "mine", cwd=stopped.worktree)

    assert stopped.ask("resume").code == 0

    stopped.assert_whole()
    assert project.git("show", "mine:mine.txt") == "mine"
    assert project.git("symbolic-ref", "HEAD", cwd=stopped.worktree) == f"refs/heads/{stopped.branch}"


def test_a_worktree_that_is_switched_away_and_checked_out_elsewhere_is_refused(stopped: Stopped) -> None:
    stopped.project.git("checkout", "-q", "--detach", cwd=stopped.worktree)
    stopped.project.git("checkout", "-q", stopped.branch)
    answer = stopped.refused("resume")
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


def test_a_locked_worktree_works_and_can_be_discarded(stopped: Stopped) -> None:
    stopped.project.git("worktree", "lock", str(stopped.worktree))
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    assert stopped.ask("discard", stopped.run).code == 0


def test_a_locked_worktree_that_is_gone_is_not_made_again_unasked(stopped: Stopped) -> None:
    stopped.project.git("worktree", "lock", str(stopped.worktree))
    shutil.rmtree(stopped.worktree)
    answer = stopped.refused("resume")
    assert f"{stopped.worktree} is gone, and somebody locked that worktree" in answer.stderr
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


def test_a_worktree_that_was_deleted_and_pruned_is_made_again(stopped: Stopped) -> None:
    shutil.rmtree(stopped.worktree)
    stopped.project.git("worktree", "prune")
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


def test_a_worktree_that_git_forgot_is_moved_aside_by_the_hint(edited: Stopped) -> None:
    shutil.rmtree(edited.git_dir / "worktrees")
    answer = edited.refused("resume")
    assert f"{edited.worktree} is in the way: the worktree of {edited.run} has to be made there" in answer.stderr
    assert edited.obey(answer).code == 0
    edited.assert_whole()
    assert Path(f"{edited.worktree}.old/mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_worktree_s_place_is_moved_aside_by_the_hint(stopped: Stopped) -> None:
    shutil.rmtree(stopped.worktree)
    stopped.worktree.write_text("precious", encoding="utf-8")
    assert stopped.obey(stopped.refused("resume")).code == 0
    stopped.assert_whole()
    assert Path(f"{stopped.worktree}.old").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("name", ["two words", "line\nend", "größe-日本", b"caf\xe9", "it's; $HOME"])
def test_any_folder_name_will_do(project: Project, tmp_path: Path, name: str | bytes) -> None:
    odd = tmp_path / os.fsdecode(name)
    odd.mkdir()
    project.root.rename(odd / "repo")
    stopped = stopped_run(Project(odd / "repo", project.env))
    assert stopped.ask("status", "--json", cwd=stopped.worktree).code == 0
    shutil.rmtree(stopped.worktree)
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    assert stopped.ask("discard", stopped.run).code == 0


@pytest.mark.parametrize(("shared", "modes"), [("group", 0o440), ("0664", 0o444), ("umask", 0o400)])
def test_those_who_share_the_repository_can_read_what_a_run_writes(project: Project, shared: str, modes: int) -> None:
    """However narrow the umask of the one who runs it is; git's own commands do so for what they write."""
    project.commit({".swarm/flows/three.yaml": FLOW})
    project.git("config", "core.sharedRepository", shared)
    git_dir = project.root / ".git"
    before = {path for path in git_dir.rglob("*") if path.is_file()}
    umask = os.umask(0o077)
    try:
        assert ask(project, "start", "three", "--mode", "stub", "-m", "x").code == 0
    finally:
        os.umask(umask)
    new = [path for path in git_dir.rglob("*") if path.is_file() and path not in before]
    assert {path.stat().st_mode & 0o444 for path in new} == {modes}
    folders = {path.stat().st_mode & 0o055 for path in (git_dir / "refs" / "swarm").rglob("*") if path.is_dir()}
    assert folders == {(modes & 0o044) | (modes & 0o044) >> 2}
