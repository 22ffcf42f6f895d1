"""Objects that are read as bytes and hashed, against what git says of the same repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitswarm.errors import CorruptError
from gitswarm.git.merge import merging_repository
from gitswarm.git.object_reader import EMPTY_TREE, Person
from gitswarm.git.repository import open_repository
from gitswarm.git.scratch import scratch_repository
from gitswarm.git.sealed import SealedObjects, TreeEntry, tree_hash
from tests.conftest import Project

FILES = {"a": "1", "a-b": "2", "a.b/c": "3", "a/inner/deep": "4", "é ü": "5", "z/x": "6"}


def sealed(project: Project) -> SealedObjects:
    return open_repository(project.root, project.env).sealed_objects()


@pytest.fixture
def tree(project: Project) -> str:
    project.commit({name: content for name, content in FILES.items() if name != "a"})
    return project.git("rev-parse", "HEAD^{tree}")


def test_a_commit_is_what_its_bytes_say(project: Project, tree: str) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "subject\n\nbody", "--author", "Ann <ann@example.org>")
    commit = sealed(project).commit(project.git("rev-parse", "HEAD"))
    assert (commit.tree, commit.parents, commit.message) == (
        tree,
        (project.git("rev-parse", "HEAD^"),),
        "subject\n\nbody\n",
    )
    assert (commit.author, commit.committer) == (
        Person("Ann", "ann@example.org"),
        Person("Test User", "user@example.org"),
    )


def test_a_tree_hashes_to_its_id_again(project: Project, tree: str) -> None:
    objects = sealed(project)
    assert tree_hash(objects.tree(tree)) == tree
    assert tree_hash({}) == EMPTY_TREE


def test_the_files_of_a_tree_are_those_that_git_lists(project: Project, tree: str) -> None:
    listed = project.git("ls-tree", "-r", "-z", tree).rstrip("\0").split("\0")
    assert sorted(listed) == sorted(f"{e.mode:o} blob {e.id}\t{path}" for path, e in sealed(project).files(tree))


def test_changes_are_what_came_went_and_became_something_else(project: Project, tree: str) -> None:
    project.git("rm", "-q", "-r", "z", "a")
    (project.root / "z").symlink_to("nowhere")
    project.commit({"a": "1", "a-b": "2", "new/x": "7"})
    (project.root / "a-b").chmod(0o755)
    project.git("commit", "-q", "-a", "-m", "executable")
    new = project.git("rev-parse", "HEAD^{tree}")
    found = sealed(project).changes(tree, new)
    modes = [(c.path, c.before and f"{c.before.mode:o}", c.after and f"{c.after.mode:o}") for c in found]
    assert modes == [
        ("a/inner/deep", "100644", None),
        ("a", None, "100644"),
        ("a-b", "100644", "100755"),
        ("new/x", None, "100644"),
        ("z/x", "100644", None),
        ("z", None, "120000"),
    ]


def test_a_name_that_is_no_text_keeps_its_bytes(project: Project) -> None:
    name = os.fsdecode(b"caf\xe9")
    (project.root / name).write_bytes(b"1")
    project.git("add", "-A")
    tree = project.git("write-tree")
    objects = sealed(project)
    assert name in objects.tree(tree)
    assert tree_hash(objects.tree(tree)) == tree


@pytest.mark.parametrize(
    ("path", "folder"), [("a", None), ("a/inner", None), ("z", "a"), ("y/x", "a"), ("no/such", None)]
)
def test_a_folder_in_a_tree_is_replaced_as_if_it_was_written(
    project: Project, tree: str, path: str, folder: str | None
) -> None:
    repository = open_repository(project.root, project.env)
    other = repository.objects.entry(tree, folder) if folder else None
    expected = repository.objects.with_subtree(tree, path, other)
    assert repository.sealed_objects().with_folder(tree, path, other) == expected


@pytest.mark.parametrize(
    ("kind", "why"),
    [("blob", "is not a tree but a blob"), ("commit", "is not a tree but a commit"), ("none", "is missing")],
)
def test_what_is_no_tree_is_said(project: Project, kind: str, why: str) -> None:
    found = {"blob": "HEAD:README.md", "commit": "HEAD"}.get(kind)
    object_id = project.git("rev-parse", found) if found else "1" * 40
    with pytest.raises(CorruptError, match=f"^object {object_id} {why}$"):
        sealed(project).tree(object_id)


@pytest.mark.parametrize("content", [b"rubbish", b"100644 a\0short", b"9 a\0" + b"i" * 20, b"100644 a\0" + b"i" * 21])
def test_a_tree_of_other_bytes_is_none(project: Project, content: bytes) -> None:
    path = project.root / "bytes"
    path.write_bytes(content)
    tree = project.git("hash-object", "--literally", "-w", "-t", "tree", str(path))
    with pytest.raises(CorruptError, match="is not a tree that git can read"):
        sealed(project).tree(tree)


@pytest.mark.parametrize("object_id", ["", "zzz", "1234"])
def test_what_is_no_id_names_nothing(project: Project, object_id: str) -> None:
    with pytest.raises(CorruptError, match=r"is damaged|is missing"):
        sealed(project).read(object_id, "blob")


def test_an_entry_below_a_file_is_none(project: Project, tree: str) -> None:
    objects = sealed(project)
    assert objects.entry(tree, "a-b/x") is None
    assert objects.entry(tree, "a.b/c") == TreeEntry(0o100644, project.git("rev-parse", f"{tree}:a.b/c"))


def test_git_s_replacements_do_not_count(project: Project, tree: str) -> None:
    blob, other = project.git("rev-parse", f"{tree}:a-b"), project.git("rev-parse", f"{tree}:z/x")
    project.git("replace", blob, other)
    assert sealed(project).read(blob, "blob") == b"2"


def test_a_repository_to_merge_in_sees_everything_and_leaves_nothing(project: Project, tree: str) -> None:
    repository = open_repository(project.root, project.env)
    with merging_repository(repository) as scratch:
        place: Path = scratch.common_dir
        made = scratch.objects.with_subtree(tree, "z", None)
        assert scratch.objects.entry(made, "a-b") == repository.objects.entry(tree, "a-b")
    assert (place.exists(), repository.objects.has(made)) == (False, False)


def test_a_scratch_repository_whose_process_was_killed_goes_a_day_later(project: Project) -> None:
    repository = open_repository(project.root, project.env)
    repository.swarm_dir.mkdir(exist_ok=True)
    old, fresh = (repository.swarm_dir / f"scratch-{each}" for each in ("old", "fresh"))
    for each in (old, fresh):
        each.mkdir()
    os.utime(old, (1, 1))
    with scratch_repository(repository):
        assert (old.exists(), fresh.exists()) == (False, True)


def test_what_a_partial_clone_lacks_is_fetched(project: Project, tree: str, tmp_path: Path) -> None:
    project.git("config", "uploadpack.allowFilter", "true")
    partial = Project(tmp_path / "partial", project.env)
    project.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{project.root}", str(partial.root))
    entry = sealed(partial).entry(tree, "z/x")
    assert entry is not None
    assert sealed(partial).read(entry.id, "blob") == b"6"
