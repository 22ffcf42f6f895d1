"""Blobs, trees and commits as plain git sees them."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest

from gitswarm.errors import CorruptError
from gitswarm.git.object_reader import EMPTY_TREE, NewCommit, Person
from gitswarm.git.objects import Objects
from gitswarm.git.repository import open_repository
from tests.conftest import Project

pytestmark = pytest.mark.usefixtures("written_at_once")
WHO = Person("Ann", "ann@example.org")


def objects_of(project: Project) -> Objects:
    return open_repository(project.root, project.env).objects


def listing(project: Project, tree: str) -> list[str]:
    """`mode path` of every file."""
    lines = project.git("ls-tree", "-r", tree).splitlines()
    return [f"{line.split()[0]} {line.partition(chr(9))[2]}" for line in lines]


@pytest.mark.parametrize("content", [b"", b"text\r\n", bytes(range(256)) * 300])
def test_a_blob_is_stored_byte_for_byte(project: Project, content: bytes) -> None:
    objects = objects_of(project)
    assert objects.read_blob(objects.write_blob(content)) == content


def test_no_filter_touches_a_blob(project: Project) -> None:
    project.commit({".gitattributes": "* text=auto eol=crlf\n"})
    blob_id = objects_of(project).write_blob(b"a\r\n")
    assert project.git("cat-file", "-s", blob_id) == "3"


def test_a_file_and_an_entry_are_found_by_path(project: Project) -> None:
    project.commit({"a/b/c.txt": "deep"})
    objects, tree = objects_of(project), project.git("rev-parse", "HEAD^{tree}")
    assert (objects.file(tree, "a/b/c.txt"), objects.entry(tree, "a/b")) == (
        b"deep",
        project.git("rev-parse", "HEAD:a/b"),
    )


@pytest.mark.parametrize("path", ["gone", "a/gone", "a/b/c.txt/d", "a"])
def test_what_is_no_file_has_no_content(project: Project, path: str) -> None:
    project.commit({"a/b/c.txt": "deep"})
    assert objects_of(project).file(project.git("rev-parse", "HEAD^{tree}"), path) is None


def test_files_lists_regular_files_only(project: Project) -> None:
    project.write({"d/run.sh": "#!/bin/sh\n", "d/sub/x": "x"})
    (project.root / "d/run.sh").chmod(0o755)
    (project.root / "d/link").symlink_to("sub/x")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{project.git('rev-parse', 'HEAD')},d/module")
    project.git("add", "d/run.sh", "d/sub", "d/link")
    tree = project.git("write-tree")
    assert [path for path, _blob in objects_of(project).files(tree, "d")] == ["d/run.sh", "d/sub/x"]


def test_files_of_a_folder_that_is_not_there_are_none(project: Project) -> None:
    assert list(objects_of(project).files(project.git("rev-parse", "HEAD^{tree}"), "none")) == []


def test_with_files_adds_and_replaces_and_leaves_the_rest(project: Project) -> None:
    objects, tree = objects_of(project), project.git("rev-parse", "HEAD^{tree}")
    blob = objects.write_blob(b"new")
    made = objects.with_files(tree, {"src/app.py": blob, "a/b/c": blob})
    assert listing(project, made) == ["100644 README.md", "100644 a/b/c", "100644 src/app.py"]
    assert objects.file(made, "src/app.py") == b"new"


def test_with_files_replaces_a_file_that_is_in_the_way_of_a_folder(project: Project) -> None:
    objects, tree = objects_of(project), project.git("rev-parse", "HEAD^{tree}")
    made = objects.with_files(tree, {"README.md/x": objects.write_blob(b"new")})
    assert listing(project, made) == ["100644 README.md/x", "100644 src/app.py"]


def test_a_file_that_takes_the_place_of_a_folder_stays(project: Project) -> None:
    before = project.commit({"a/b": "1", "run.sh": "1"})
    project.git("rm", "-rq", "a")
    project.write({"a": "file"})
    (project.root / "run.sh").chmod(0o755)
    after = project.commit({"other": "1"})
    objects = objects_of(project)
    old, new = (objects.commit(each).tree for each in (before, after))
    for paths in (["a", "a/b", "run.sh"], ["a/b", "a", "run.sh"]):
        made = objects.with_entries_of(old, new, paths)
        assert listing(project, made) == ["100644 README.md", "100644 a", "100755 run.sh", "100644 src/app.py"]
    blob = objects.entry(new, "a")
    assert objects.with_files(old, {"a": blob, "a/b": None}) == objects.with_files(old, {"a": blob})
    assert objects.with_files(new, {"a/b": None}) == objects.with_entries_of(new, old, ["a/none"]) == new


def test_with_files_of_nothing_starts_an_empty_tree(project: Project) -> None:
    objects = objects_of(project)
    made = objects.with_files(None, {"a": objects.write_blob(b"new")})
    assert listing(project, made) == ["100644 a"]


def test_modes_and_links_survive_a_change_beside_them(project: Project) -> None:
    project.write({"run.sh": "#!/bin/sh\n"})
    (project.root / "run.sh").chmod(0o755)
    (project.root / "link").symlink_to("run.sh")
    project.git("add", "-A")
    tree = project.git("write-tree")
    objects = objects_of(project)
    made = objects.with_files(tree, {"x": objects.write_blob(b"")})
    assert listing(project, made) == [
        "100644 README.md",
        "120000 link",
        "100755 run.sh",
        "100644 src/app.py",
        "100644 x",
    ]


def test_names_that_are_not_utf_8_survive_a_change_beside_them(project: Project) -> None:
    odd = os.fsdecode(b"caf\xe9/\xff.txt")
    project.commit({odd: "x"})
    objects = objects_of(project)
    made = objects.with_files(project.git("rev-parse", "HEAD^{tree}"), {"x": objects.write_blob(b"")})
    argv = ["git", "ls-tree", "-r", "-z", "--name-only", made]
    names = subprocess.run(argv, cwd=project.root, env=dict(project.env), capture_output=True, check=True).stdout
    assert names.split(b"\0")[:-1] == [b"README.md", b"caf\xe9/\xff.txt", b"src/app.py", b"x"]


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("a/b", ["100644 README.md", "100644 a/x", "100644 src/app.py"]),
        ("a", ["100644 README.md", "100644 src/app.py"]),
        ("src", ["100644 README.md", "100644 a/b/c", "100644 a/x"]),
        ("none/at/all", ["100644 README.md", "100644 a/b/c", "100644 a/x", "100644 src/app.py"]),
    ],
)
def test_a_folder_is_taken_out_of_a_tree(project: Project, path: str, left: list[str]) -> None:
    project.commit({"a/b/c": "1", "a/x": "2"})
    made = objects_of(project).with_subtree(project.git("rev-parse", "HEAD^{tree}"), path, None)
    assert listing(project, made) == left


def test_a_folder_that_becomes_empty_goes_with_its_last_one(project: Project) -> None:
    before = project.git("rev-parse", "HEAD^{tree}")
    project.commit({".swarm/runs/r/spec.json": "{}"})
    made = objects_of(project).with_subtree(project.git("rev-parse", "HEAD^{tree}"), ".swarm/runs", None)
    assert made == before


def test_a_folder_is_put_into_a_tree(project: Project) -> None:
    objects, tree = objects_of(project), project.git("rev-parse", "HEAD^{tree}")
    inner = objects.with_files(None, {"spec.json": objects.write_blob(b"{}")})
    made = objects.with_subtree(tree, ".swarm/runs", inner)
    assert listing(project, made) == ["100644 .swarm/runs/spec.json", "100644 README.md", "100644 src/app.py"]


def test_a_tree_without_its_only_folder_is_the_empty_tree(project: Project) -> None:
    objects = objects_of(project)
    tree = objects.with_files(None, {"a/b": objects.write_blob(b"")})
    assert objects.with_subtree(tree, "a", None) == EMPTY_TREE


def test_a_commit_has_its_people_time_and_parents(project: Project) -> None:
    objects, parent = objects_of(project), project.git("rev-parse", "HEAD")
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
    tree = objects.commit(parent).tree
    new = NewCommit(tree, (parent,), "subject\n\nbody\n", Person("bot", "bot@git-swarm.invalid"), WHO, when)
    commit = objects.write_commit(new)
    assert project.git("log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%aI%n%P%n%T%n%B", commit) == (
        "bot <bot@git-swarm.invalid>\nAnn <ann@example.org>\n2026-01-02T03:04:05-03:30\n"
        f"{parent}\n{tree}\nsubject\n\nbody\n"
    ).rstrip("\n")


@pytest.mark.parametrize(
    "person",
    [
        Person("Ann", "<ann@example.org>"),
        Person("Ann <ann@example.org>", "ann@example.org"),
        Person("Änn 日本", "änn@example.org"),
    ],
)
def test_an_identity_that_git_itself_would_clean_up_makes_a_commit(project: Project, person: Person) -> None:
    objects = objects_of(project)
    tree = project.git("rev-parse", "HEAD^{tree}")
    new = NewCommit(tree, (), "subject\n", person, person, datetime(2026, 1, 1, tzinfo=UTC))
    environment = {"GIT_COMMITTER_NAME": person.name, "GIT_COMMITTER_EMAIL": person.email}
    as_git_does = Project(project.root, {**project.env, **environment}).git("var", "GIT_COMMITTER_IDENT")
    expected = as_git_does.rpartition(" ")[0].rpartition(" ")[0]
    assert project.git("log", "-1", "--format=%cn <%ce>", objects.write_commit(new)) == expected


def test_an_object_that_is_no_commit_is_not_read_as_one(project: Project) -> None:
    objects = objects_of(project)
    with pytest.raises(CorruptError):
        objects.commit(objects.write_blob(b""))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("", []),
        ('[submodule "lib"]\n\tpath = lib\n\turl = ../lib\n', ["lib"]),
        ('[submodule "a"]\n\tpath=a/b\n[submodule "c"]\n\tpath = c d\n', ["a/b", "c d"]),
        ('[submodule "q"]\n\tpath = "with # hash"\n', ["with # hash"]),
    ],
)
def test_submodules_are_those_that_git_reads_in_gitmodules(project: Project, text: str, paths: list[str]) -> None:
    project.commit({".gitmodules": text})
    tree = project.git("rev-parse", "HEAD^{tree}")
    assert list(objects_of(project).submodules(tree)) == paths
