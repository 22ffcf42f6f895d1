"""Where a run's worktree lies, and what an agent may do to its git without harm."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from gitswarm.errors import SetupFailedError
from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository, open_repository
from gitswarm.worktree.shadow import Placement, Shadow, add_shadow, choose_path, find_shadow, reattach
from tests.conftest import Project
from tests.projects import ask, evidence, only_run
from tests.unseen import unseen

RUN = "run-20260101-000000-abcdef"
BRANCH = f"refs/heads/shadow/{RUN}"
ONE = "id: one\nsteps:\n  - {id: work, station: code-implementer}\n"


def opened(project: Project) -> Repository:
    return open_repository(project.root, project.env)


def placed(repository: Repository, tmp_path: Path, override: Path | None = None) -> Path:
    return choose_path(repository, RUN, Placement(override, tmp_path / "state"))


# --- placement --------------------------------------------------------------------------------------------------


def test_a_worktree_lies_beside_the_repository(project: Project, tmp_path: Path) -> None:
    assert placed(opened(project), tmp_path) == tmp_path / "repo.swarm" / RUN


def test_from_a_linked_worktree_it_lies_beside_the_main_one(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "far" / "linked"))
    repository = open_repository(tmp_path / "far" / "linked", project.env)
    assert placed(repository, tmp_path) == tmp_path / "repo.swarm" / RUN


def test_of_a_bare_repository_it_lies_beside_it_without_the_suffix(project: Project, tmp_path: Path) -> None:
    project.git("clone", "-q", "--bare", str(project.root), str(tmp_path / "hub.git"))
    repository = open_repository(tmp_path / "hub.git", project.env)
    assert placed(repository, tmp_path) == tmp_path / "hub.swarm" / RUN


def test_the_user_s_own_folder_wins(project: Project, tmp_path: Path) -> None:
    assert placed(opened(project), tmp_path, tmp_path / "mine") == tmp_path / "mine" / RUN


def fallback(project: Project, tmp_path: Path) -> Path:
    name = hashlib.sha256(str(project.root / ".git").encode()).hexdigest()[:12]
    return tmp_path / "state" / "git-swarm" / name / RUN


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_it_lies_in_the_state_folder_when_the_parent_is_not_writable(project: Project, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert placed(opened(project), tmp_path) == fallback(project, tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_it_lies_in_the_state_folder_when_a_file_is_in_the_way(project: Project, tmp_path: Path) -> None:
    (tmp_path / "repo.swarm").touch(mode=0o644)
    assert placed(opened(project), tmp_path) == fallback(project, tmp_path)


@pytest.mark.parametrize("folder", [".", "src"])
def test_a_relative_folder_is_relative_to_the_repository(project: Project, tmp_path: Path, folder: str) -> None:
    """And not to the folder that one happens to stand in, nor to `.git`."""
    project.commit({".swarm/flows/one.yaml": ONE, ".swarm/config.yaml": "worktree: {dir: ../own}\n"})
    project.swarm("start", "one", "--script", project.script("{}"), cwd=project.root / folder)
    run = only_run(project)
    assert ask(project, "path").stdout == f"{tmp_path / 'own' / run}\n"
    assert project.git("status", "--porcelain") == ""


@pytest.mark.parametrize("value", ["{tmp}/own place", "~/worktrees"])
def test_a_run_obeys_swarm_worktree_dir(project: Project, tmp_path: Path, value: str) -> None:
    project.commit({".swarm/flows/one.yaml": ONE})
    project.git("config", "swarm.worktreeDir", value.replace("{tmp}", str(tmp_path)))
    project.swarm("start", "one", "--script", project.script("{}"))
    run = only_run(project)
    folder = tmp_path / "own place" if "tmp" in value else tmp_path / "home/worktrees"
    assert ask(project, "path").stdout == f"{folder / run}\n"
    assert (folder / run / "README.md").read_text(encoding="utf-8") == "# hello\n"


def test_a_run_falls_back_to_the_state_folder(project: Project, tmp_path: Path) -> None:
    project.commit({".swarm/flows/one.yaml": ONE})
    (tmp_path / "repo.swarm").touch(mode=0o644)
    project.swarm("start", "one", "--script", project.script("{}"))
    assert Path(ask(project, "path").stdout.strip()).parent.parent == tmp_path / "home/state/git-swarm"


# --- adding and finding -----------------------------------------------------------------------------------------


@pytest.fixture
def shadow(project: Project, tmp_path: Path) -> Shadow:
    repository = opened(project)
    repository.refs.swap(BRANCH, None, project.git("rev-parse", "HEAD"), why="created")
    return add_shadow(repository, BRANCH, tmp_path / "repo.swarm" / RUN, Locks(repository.common_dir))


def test_a_shadow_has_the_files_of_its_branch_and_a_clean_status(project: Project, shadow: Shadow) -> None:
    assert (shadow.path / "src/app.py").read_text(encoding="utf-8") == "print('hello')\n"
    assert project.git("status", "--porcelain", "--branch", cwd=shadow.path) == f"## shadow/{RUN}"


def test_a_shadow_is_found_by_its_branch(project: Project, shadow: Shadow) -> None:
    found = find_shadow(opened(project), BRANCH)
    assert found
    assert (found.path, found.git_dir, found.branch) == (shadow.path, shadow.git_dir, shadow.branch)


def test_a_shadow_whose_folder_is_gone_is_not_found(project: Project, shadow: Shadow) -> None:
    shutil.rmtree(shadow.path)
    assert find_shadow(opened(project), BRANCH) is None


def test_a_shadow_whose_folder_is_gone_is_added_again(project: Project, shadow: Shadow) -> None:
    shadow.remember_set_up([])
    shutil.rmtree(shadow.path)
    repository = opened(project)
    again = add_shadow(repository, BRANCH, shadow.path, Locks(repository.common_dir))
    assert (again.path, again.is_set_up, (again.path / "README.md").exists()) == (shadow.path, False, True)


def test_no_hook_of_the_user_runs_when_a_shadow_is_added(project: Project, tmp_path: Path) -> None:
    hook = project.root / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    hook.chmod(0o755)
    repository = opened(project)
    repository.refs.swap(BRANCH, None, project.git("rev-parse", "HEAD"), why="created")
    add_shadow(repository, BRANCH, tmp_path / "repo.swarm" / RUN, Locks(repository.common_dir))
    assert not (tmp_path / "ran").exists()


def test_the_user_s_config_is_not_written_to(project: Project, tmp_path: Path) -> None:
    project.git("config", "branch.autoSetupMerge", "always")
    before = (project.root / ".git/config").read_bytes()
    repository = opened(project)
    repository.refs.swap(BRANCH, None, project.git("rev-parse", "HEAD"), why="created")
    add_shadow(repository, BRANCH, tmp_path / "repo.swarm" / RUN, Locks(repository.common_dir))
    assert (project.root / ".git/config").read_bytes() == before


def test_a_folder_that_cannot_be_made_names_the_way_out(project: Project, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    repository = opened(project)
    repository.refs.swap(BRANCH, None, project.git("rev-parse", "HEAD"), why="created")
    with pytest.raises(SetupFailedError) as caught:
        add_shadow(repository, BRANCH, tmp_path / "file" / "deep" / RUN, Locks(repository.common_dir))
    assert caught.value.hint == "git config swarm.worktreeDir /a/folder/you/may/write"


@pytest.mark.parametrize("copied", [(), (".env",), (".env", "conf/a b", "new\nline")])
def test_what_was_copied_is_remembered(shadow: Shadow, copied: tuple[str, ...]) -> None:
    before = shadow.is_set_up
    shadow.remember_set_up(copied)
    assert (before, shadow.is_set_up, shadow.copied) == (False, True, copied)


# --- an agent at work -------------------------------------------------------------------------------------------


def test_a_shadow_in_order_needs_nothing_put_back(shadow: Shadow) -> None:
    assert reattach(shadow) == []


def test_head_is_put_back_on_the_branch(project: Project, shadow: Shadow) -> None:
    project.git("checkout", "-q", "--detach", cwd=shadow.path)
    assert reattach(shadow) == ["HEAD"]
    assert project.git("symbolic-ref", "HEAD", cwd=shadow.path) == BRANCH


@pytest.mark.parametrize("kind", ["gone", "file", "folder", "link", "binary"])
def test_the_pointer_to_git_is_put_back(project: Project, shadow: Shadow, tmp_path: Path, kind: str) -> None:
    pointer = shadow.path / ".git"
    pointer.unlink()
    if kind == "file":
        pointer.write_text(f"gitdir: {tmp_path}\n", encoding="utf-8")
    elif kind == "folder":
        (pointer / "objects").mkdir(parents=True)
    elif kind == "link":
        pointer.symlink_to(tmp_path)
    elif kind == "binary":
        pointer.write_bytes(b"\xff\xfe")
    assert reattach(shadow) == [".git"]
    assert project.git("status", "--porcelain", "--branch", cwd=shadow.path) == f"## shadow/{RUN}"


def played(project: Project, *lines: str) -> str:
    """A run whose step executes these lines; its id."""
    project.commit({".swarm/flows/one.yaml": ONE})
    quoted = ", ".join("'" + line.replace("'", "''") + "'" for line in lines)
    project.swarm(
        "start", "one", "--script", project.script(unseen(f"steps:\n  work: [{{run: [{quoted}]}}, {{}}]\n"))
    )
    return only_run(project)


def code(project: Project, run: str) -> list[str]:
    return sorted(name for name in project.tree(f"shadow/{run}") if not name.startswith(".swarm/"))


COMMIT = "git add -A && git commit -qm mine"


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        pytest.param([f"echo x > new.txt && {COMMIT}"], "branch", id="commits"),
        pytest.param([f"echo x > new.txt && {COMMIT}", "echo y > more.txt"], "branch", id="commits and goes on"),
        pytest.param(["git checkout -qb other", f"echo x > new.txt && {COMMIT}"], "HEAD", id="switches branch"),
        pytest.param(["git checkout -q --detach", "echo x > new.txt"], "HEAD", id="detaches HEAD"),
        pytest.param(["echo x > new.txt", "rm .git && git init -q . && git add -A"], ".git", id="own repository"),
        pytest.param(["echo x > new.txt", "echo gitdir: /nowhere > .git"], ".git", id="pointer elsewhere"),
        pytest.param(["echo x > new.txt", "rm .git"], ".git", id="pointer deleted"),
        pytest.param(["echo x > new.txt", "git update-ref -d refs/heads/shadow/$RUN_ID"], "branch", id="no branch"),
        pytest.param(["git reset -q --hard HEAD~1", "echo x > new.txt"], "branch", id="moves the branch back"),
    ],
)
def test_what_an_agent_does_to_its_refs_is_undone_and_its_code_kept(
    project: Project, lines: list[str], reported: str
) -> None:
    run = played(project, *lines)
    made = ["README.md", *(["more.txt"] if "more" in " ".join(lines) else []), "new.txt", "src/app.py"]
    assert code(project, run) == made
    subjects = project.git("log", "--format=%s", f"shadow/{run}").splitlines()
    again = ["one/work: ok"] if "reset" in lines[0] else []  # with the branch it moved the evidence back
    assert subjects == ["run succeeded: the flow is complete", *again, "one/work: ok", "run one", "change", "first"]
    found = json.loads(project.swarm("show", "work@1", "--evidence").stdout)["tampered"][0]
    names = {"branch": f"refs/heads/shadow/{run} (moved to ", "HEAD": "HEAD of the ", ".git": ".git of the "}
    assert found.startswith(names[reported])


def test_the_worktree_is_clean_after_an_agent_committed(project: Project) -> None:
    run = played(project, f"echo x > new.txt && {COMMIT}")
    assert (
        project.git("status", "--porcelain", "--branch", cwd=project.root.parent / "repo.swarm" / run)
        == f"## shadow/{run}"
    )


def test_what_an_agent_committed_counts_as_the_step_s_own_change(project: Project) -> None:
    _run = played(project, f"echo x > new.txt && {COMMIT}")
    assert evidence(project, "one/work")["diff"]["files"] == [
        {"path": "new.txt", "change": "added", "old_path": None, "insertions": 1, "deletions": 0}
    ]


def test_a_file_that_an_agent_only_took_out_of_the_index_is_still_in_the_commit(project: Project) -> None:
    run = played(project, "git rm -q --cached README.md")
    assert code(project, run) == ["README.md", "src/app.py"]


def test_an_index_that_an_agent_broke_costs_no_code(project: Project) -> None:
    run = played(project, "echo x > new.txt", 'echo broken > "$(git rev-parse --git-path index)"')
    assert code(project, run) == ["README.md", "new.txt", "src/app.py"]


def test_a_file_that_an_agent_hid_from_git_is_seen(project: Project) -> None:
    """`assume-unchanged` and `skip-worktree` tell git not to look."""
    _run = played(
        project,
        "git update-index --assume-unchanged README.md && echo one >> README.md",
        "git update-index --skip-worktree src/app.py && echo two >> src/app.py",
    )
    assert [file["path"] for file in evidence(project, "one/work")["diff"]["files"]] == ["README.md", "src/app.py"]
