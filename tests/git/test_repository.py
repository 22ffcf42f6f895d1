"""Finding the repository we stand in, and refusing what cannot work."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gitswarm.errors import NotARepositoryError, NotFoundError, UnsupportedRepositoryError
from gitswarm.git.discovery import LinkedWorktree
from gitswarm.git.reader import open_reader
from gitswarm.git.repository import Repository, open_repository, refuse_unready
from tests.conftest import Project


def opened(project: Project, folder: Path | None = None) -> Repository:
    return open_repository(folder or project.root, project.env)


def places(repository: Repository) -> tuple[Path, Path, Path | None]:
    return repository.common_dir, repository.checkout_git_dir, repository.checkout


def test_the_top_of_a_checkout(project: Project) -> None:
    git_dir = project.root / ".git"
    assert places(opened(project)) == (git_dir, git_dir, project.root)


def test_a_subfolder(project: Project) -> None:
    git_dir = project.root / ".git"
    assert places(opened(project, project.root / "src")) == (git_dir, git_dir, project.root)


def test_a_linked_worktree(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "linked"))
    git_dir = project.root / ".git"
    found = opened(project, tmp_path / "linked" / "src")
    assert places(found) == (git_dir, git_dir / "worktrees/linked", tmp_path / "linked")
    assert found.main_folder == project.root


def test_a_worktree_of_a_bare_clone(project: Project, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), cwd=bare)
    found = opened(project, tmp_path / "linked")
    assert places(found) == (bare, bare / "worktrees/linked", tmp_path / "linked")
    assert found.main_folder == bare


def test_a_bare_repository_has_no_checkout(project: Project, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    project.git("clone", "-q", "--bare", str(project.root), str(bare))
    assert places(opened(project, bare)) == (bare, bare, None)


def test_a_repository_inside_another_one_is_the_one_we_stand_in(project: Project) -> None:
    inner = project.root / "inner"
    project.git("init", "-q", str(inner))
    assert opened(project, inner).checkout == inner


def test_a_submodule_is_a_repository_of_its_own(project: Project, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    project.git("clone", "-q", str(project.root), str(lib))
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib), "lib")
    module = project.root / ".git/modules/lib"
    assert places(opened(project, project.root / "lib")) == (module, module, project.root / "lib")


@pytest.mark.parametrize(
    "name",
    ["with space", "naïve 日本 🐝", "quo'te\"s", "-dash", "new\nline", "line\u2028separator", "tab\t", "trailing "],
)
def test_an_odd_path(project: Project, tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    project.root.rename(root)
    assert places(open_repository(root / "src", project.env)) == (root / ".git", root / ".git", root)


def test_a_path_that_is_not_utf_8(project: Project, tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9")
    project.root.rename(root)
    assert places(open_repository(root, project.env)) == (root / ".git", root / ".git", root)


def test_git_variables_of_the_caller_do_not_lead_elsewhere(project: Project, tmp_path: Path) -> None:
    """As when a git alias or hook calls us: git exports GIT_DIR and more."""
    env = {**project.env, "GIT_DIR": str(tmp_path / "no.git"), "GIT_WORK_TREE": str(tmp_path)}
    for folder in (project.root, tmp_path):
        with pytest.raises(
            NotARepositoryError, match=r"GIT_DIR is .*/no.git, and .* is not in that repository"
        ) as caught:
            open_repository(folder, env)
        assert caught.value.hint == f"cd {tmp_path}/no.git   (or: unset GIT_DIR GIT_WORK_TREE)"
    for own in (".git", str(project.root / ".git")):
        named = {**env, "GIT_DIR": own, "GIT_WORK_TREE": "."}
        assert open_repository(project.root, named).checkout == project.root


def test_outside_of_any_repository(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(NotARepositoryError) as caught:
        open_repository(tmp_path, env)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path} is not in a git repository",
        "cd into one, or: git init && git commit --allow-empty -m start",
    )


def test_sha256_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    other = Project(tmp_path, env)
    other.git("init", "-q", "--object-format=sha256")
    with pytest.raises(UnsupportedRepositoryError, match="stores sha256 objects"):
        open_repository(tmp_path, env)


def test_reftable_is_refused(project: Project) -> None:
    project.git("config", "core.repositoryFormatVersion", "1")
    project.git("config", "extensions.refStorage", "reftable")
    with pytest.raises(UnsupportedRepositoryError, match=r"refs|refstorage"):
        opened(project)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_refused(project: Project) -> None:
    for path in (project.root, project.root / ".git"):
        os.chown(path, 65534, 65534)
    with pytest.raises(UnsupportedRepositoryError) as caught:
        opened(project)
    assert caught.value.hint == (f"if you trust it: git config --global --add safe.directory {project.root}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_is_to_be_trusted_is_the_repository_not_a_folder_in_it(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "my project"
    project.root.rename(root)
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    with pytest.raises(UnsupportedRepositoryError) as caught:
        open_repository(root / "src", project.env)
    command = shlex.split(caught.value.hint.partition(": ")[2])
    subprocess.run(command, check=True, env=dict(project.env))
    assert open_reader(root / "src", project.env).main_folder == root


def test_a_repository_without_a_commit_is_not_ready(tmp_path: Path, env: dict[str, str]) -> None:
    Project(tmp_path, env).git("init", "-q")
    with pytest.raises(UnsupportedRepositoryError, match="no commit yet"):
        refuse_unready(open_repository(tmp_path, env))


def test_a_branch_without_a_commit_is_in_the_way_of_a_run_on_it_alone(project: Project) -> None:
    project.git("checkout", "-q", "--orphan", "new")
    with pytest.raises(UnsupportedRepositoryError, match="that is checked out has no commit yet") as caught:
        refuse_unready(opened(project))
    assert caught.value.hint == "git swarm start … --base main"
    project.swarm("start", "build", "--mode", "stub", "--base", "main")


def test_a_branch_named_shadow_is_in_the_way(project: Project) -> None:
    project.git("branch", "shadow")
    with pytest.raises(UnsupportedRepositoryError, match="a branch named 'shadow'"):
        refuse_unready(opened(project))


def test_an_old_git_is_refused_before_a_run(project: Project, tmp_path: Path) -> None:
    shim = tmp_path / "git"
    git = shutil.which("git", path=project.env["PATH"])
    shim.write_text(
        f'#!/bin/sh\ncase "$*" in *--version) echo git version 2.30.1;; *) exec {git} "$@";; esac\n', encoding="utf-8"
    )
    shim.chmod(0o755)
    found = open_repository(project.root, {**project.env, "PATH": f"{tmp_path}:{project.env['PATH']}"})
    with pytest.raises(UnsupportedRepositoryError, match=r"^git version 2\.30\.1 is too old: git-swarm needs 2\.38$"):
        refuse_unready(found)


def test_branches_below_shadow_are_not_in_the_way(project: Project) -> None:
    project.git("branch", "shadow/of/mine")
    refuse_unready(opened(project))


def test_the_branch_that_is_checked_out(project: Project) -> None:
    assert opened(project).head_branch() == "refs/heads/main"


def test_a_detached_head_is_on_no_branch(project: Project) -> None:
    project.git("checkout", "-q", "--detach")
    assert opened(project).head_branch() is None


@pytest.mark.parametrize("revision", ["HEAD", "main", "HEAD~0", "v1", ":/first", "@{0}"])
def test_whatever_names_a_commit_is_resolved(project: Project, revision: str) -> None:
    project.git("tag", "-a", "v1", "-m", "one")
    assert opened(project).resolve(revision) == project.git("rev-parse", "HEAD")


@pytest.mark.parametrize("revision", ["none", "HEAD~1", "HEAD:README.md", "--all", "-n1", "", "main..main"])
def test_what_names_no_commit_is_not_found(project: Project, revision: str) -> None:
    with pytest.raises(NotFoundError, match="is not a commit"):
        opened(project).resolve(revision)


def test_head_is_that_of_the_worktree_we_stand_in(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    project.git("commit", "-q", "--allow-empty", "-m", "there", cwd=tmp_path / "linked")
    assert opened(project, tmp_path / "linked").resolve("HEAD") == project.git("rev-parse", "other")


def test_linked_worktrees_are_listed_with_their_branches(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "one", str(tmp_path / "one more"))
    project.git("worktree", "add", "-q", "--detach", str(tmp_path / "two"))
    folder = project.root / ".git/worktrees"
    assert list(opened(project).linked_worktrees()) == [
        LinkedWorktree(tmp_path / "one more", folder / "one-more", "refs/heads/one"),
        LinkedWorktree(tmp_path / "two", folder / "two", None),
    ]


def test_a_worktree_whose_folder_is_gone_is_still_listed(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "one", str(tmp_path / "one"))
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    assert [linked.path for linked in opened(project).linked_worktrees()] == [tmp_path / "one"]


def test_a_worktree_that_is_half_removed_is_passed_over(project: Project) -> None:
    (project.root / ".git/worktrees/half").mkdir(parents=True)
    assert list(opened(project).linked_worktrees()) == []


def test_configuration_is_read_by_prefix_and_the_last_value_wins(project: Project) -> None:
    project.git("config", "--global", "--remove-section", "swarm.policy")
    project.git("config", "--add", "swarm.worktreeDir", "/one")
    project.git("config", "--add", "swarm.worktreeDir", "/two")
    project.git("config", "swarm.engines.claude.mode", "stub")
    assert opened(project).config("swarm.") == {"swarm.worktreedir": "/two", "swarm.engines.claude.mode": "stub"}


def test_a_key_without_a_value_is_true(project: Project) -> None:
    project.git("config", "--global", "--remove-section", "swarm.policy")
    with (project.root / ".git/config").open("a", encoding="utf-8") as config:
        config.write("[swarm]\n\tquick\n")
    assert opened(project).config("swarm.") == {"swarm.quick": "true"}


def test_a_committer_whose_name_is_not_utf_8_does_no_harm(project: Project) -> None:
    with (project.root / ".git/config").open("ab") as config:
        config.write(b"[user]\n\tname = Ren\xe9\n\temail = rene@example.org\n")
    found = opened(project).committer()
    assert (found.name.encode(), found.email) == ("Ren\N{REPLACEMENT CHARACTER}".encode(), "rene@example.org")


def test_the_committer_is_the_user(project: Project) -> None:
    project.git("config", "user.name", "Änn")
    project.git("config", "user.email", "ann@example.org")
    found = opened(project).committer()
    assert (found.name, found.email) == ("Änn", "ann@example.org")
