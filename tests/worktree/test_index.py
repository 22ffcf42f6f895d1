"""The worktree's index between steps: read by libgit2 or by git, made equal to a tree in the background."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gitswarm.errors import GitFailedError
from gitswarm.git.locks import Locks
from gitswarm.git.process import RunningGit
from gitswarm.git.repository import open_repository
from gitswarm.worktree import snapshot
from gitswarm.worktree.repository_watch import IndexWatch
from gitswarm.worktree.shadow import Shadow, add_shadow
from tests.conftest import Project

BRANCH = "refs/heads/shadow/run-20260101-000000-abcdef"
SMALL, BIG = 10**9, 0
"""Limits under which every index counts as small, or as big."""


@pytest.fixture
def shadow(project: Project, tmp_path: Path) -> Shadow:
    repository = open_repository(project.root, project.env)
    project.git("branch", BRANCH.removeprefix("refs/heads/"))
    return add_shadow(repository, BRANCH, tmp_path / "work", Locks(repository.common_dir))


@pytest.fixture(params=[SMALL, BIG], ids=["small", "big"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(snapshot, "_SMALL_INDEX_BYTES", request.param)
    return int(request.param)


def change(shadow: Shadow) -> None:
    (shadow.path / "src" / "app.py").write_text("changed\n", encoding="utf-8")
    (shadow.path / "new").mkdir()
    (shadow.path / "new" / "file").write_text("new\n", encoding="utf-8")
    (shadow.path / "README.md").unlink()


@pytest.mark.usefixtures("limit")
def test_a_staged_tree_is_the_one_that_git_writes(project: Project, shadow: Shadow) -> None:
    change(shadow)
    staged = snapshot.stage(shadow).tree
    assert staged == project.git("write-tree", cwd=shadow.path)
    assert project.git("ls-tree", "-r", "--name-only", staged).splitlines() == ["new/file", "src/app.py"]


@pytest.mark.usefixtures("limit")
def test_what_is_staged_lies_in_packs_that_a_prune_leaves_alone(project: Project, shadow: Shadow) -> None:
    """A loose object is a `git prune`'s that began before something named it."""
    change(shadow)
    (shadow.path / "large").write_bytes(os.urandom(1_500_000))
    photo = snapshot.write_tree(shadow).tree
    shadow.objects.flush()
    project.git("prune", "--expire=now")
    project.git("repack", "-a", "-d", "-q")
    assert project.git("count-objects").startswith("0 objects")
    named = project.git("rev-list", "--objects", "--no-object-names", photo).splitlines()
    assert (len(named), snapshot.stage(shadow).tree) == (6, photo)
    for path in ("large", "src/app.py"):
        content = (shadow.path / path).read_bytes()
        assert shadow.objects.file(photo, path) == content


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("known", [True, False])
def test_after_a_commit_the_index_is_its_tree(project: Project, shadow: Shadow, *, known: bool) -> None:
    change(shadow)
    ours = {"kept/a.json": shadow.objects.write_blob(b"{}"), "src/app.py": None}
    tree = shadow.objects.with_files(snapshot.stage(shadow).tree, ours)
    (shadow.path / "src" / "app.py").unlink()
    (shadow.path / "kept").mkdir()
    (shadow.path / "kept" / "a.json").write_bytes(b"{}")
    aligning = snapshot.begin_aligning(shadow, tree, ours if known else None)
    if aligning is not None:
        aligning.wait()
    assert project.git("write-tree", cwd=shadow.path) == tree
    assert project.git("diff", "--name-only", cwd=shadow.path) == ""


def test_an_index_that_libgit2_cannot_read_is_read_by_git(project: Project, shadow: Shadow) -> None:
    project.git("update-index", "--split-index", cwd=shadow.path)
    assert shadow.objects.indexes.tree(shadow.git_dir / "index") is None
    change(shadow)
    assert snapshot.stage(shadow).tree == project.git("write-tree", cwd=shadow.path)


def test_a_change_within_the_tick_of_the_last_staging_is_seen_after_aligning(
    project: Project, shadow: Shadow
) -> None:
    """Size and time of the file are as they were; only that the index is no younger tells git to look inside."""
    project.git("config", "core.trustctime", "false")  # no test can set that time back
    changed, index = shadow.path / "src" / "app.py", shadow.git_dir / "index"
    then = changed.stat().st_mtime_ns - 10_000_000_000
    os.utime(changed, ns=(then, then))
    tree = snapshot.stage(shadow).tree
    os.utime(index, ns=(then, then))
    changed.write_text(changed.read_text("utf-8").swapcase(), encoding="utf-8")
    os.utime(changed, ns=(then, then))
    snapshot.align_index(shadow, tree)
    assert project.git("diff", "--name-only", cwd=shadow.path) == "src/app.py"


@pytest.mark.parametrize("prepare", ["--split-index", "missing", "sparse"])
def test_an_index_that_libgit2_may_not_write_is_aligned_by_git(
    project: Project, shadow: Shadow, prepare: str
) -> None:
    index, tree = shadow.git_dir / "index", project.git("rev-parse", "HEAD^{tree}")
    if prepare == "sparse":
        project.git("sparse-checkout", "set", "--no-cone", "src", cwd=shadow.path)
    elif prepare == "missing":
        index.unlink()
    else:
        project.git("update-index", prepare, cwd=shadow.path)
    snapshot.align_index(shadow, tree)
    assert project.git("write-tree", cwd=shadow.path) == tree
    assert ("S README.md" in project.git("ls-files", "-t", cwd=shadow.path)) == (prepare == "sparse")
    assert not (shadow.git_dir / "index.aligned").exists()


def test_a_link_in_the_place_of_the_aligned_index_is_not_followed(project: Project, shadow: Shadow) -> None:
    other = project.root / "README.md"
    before = other.read_bytes()
    (shadow.git_dir / "index.aligned").symlink_to(other)
    tree = shadow.objects.with_files(project.git("rev-parse", "HEAD^{tree}"), {"x": shadow.objects.write_blob(b"")})
    snapshot.align_index(shadow, tree)
    assert project.git("write-tree", cwd=shadow.path) == tree
    assert (other.read_bytes(), (shadow.git_dir / "index").is_symlink()) == (before, False)


def test_leaving_the_index_waits_until_it_is_written(project: Project, shadow: Shadow) -> None:
    watch = IndexWatch(shadow)
    tree = shadow.objects.with_files(project.git("rev-parse", "HEAD^{tree}"), {"x": shadow.objects.write_blob(b"")})
    watch.begin_aligning(tree, None)
    watch.leave()
    assert project.git("write-tree", cwd=shadow.path) == tree


def test_an_index_that_cannot_be_written_in_the_background_is_told_when_it_is_waited_for(shadow: Shadow) -> None:
    running = RunningGit(shadow.git, "read-tree", "--reset", "0" * 40)
    with pytest.raises(GitFailedError, match="read-tree failed"):
        running.wait()


def test_the_index_waits_for_whoever_has_its_lock(shadow: Shadow) -> None:
    """`git status` beside us writes what it had read, as long as it has it."""
    lock, index = shadow.git_dir / "index.lock", shadow.git_dir / "index"
    lock.touch()
    before = index.stat().st_ino
    change(shadow)
    seen: list[bool] = []

    def let_go() -> None:
        seen.append(index.stat().st_ino == before)
        lock.unlink()

    timer = threading.Timer(0.5, let_go)
    timer.start()
    staged = snapshot.stage(shadow).tree
    timer.join()
    assert seen == [True]
    assert (snapshot.stage(shadow).tree, lock.exists()) == (staged, False)
    assert index.stat().st_ino != before


def test_a_lock_of_a_killed_process_is_not_waited_for_for_long(
    shadow: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_LOCK_WAIT_S", 0.05)
    (shadow.git_dir / "index.lock").touch()
    before = (shadow.git_dir / "index").stat().st_ino
    change(shadow)
    snapshot.stage(shadow)
    assert (shadow.git_dir / "index").stat().st_ino != before
