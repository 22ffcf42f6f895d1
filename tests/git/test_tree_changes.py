"""What turns one tree into another."""

from __future__ import annotations

import os

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.records.envelope import ChangeKind
from gitswarm.records.evidence import ChangedFile
from tests.conftest import Project


def between(project: Project, old: str = "HEAD~1", new: str = "HEAD") -> list[ChangedFile]:
    diffs = open_repository(project.root, project.env).diffs
    return diffs.between(project.git("rev-parse", f"{old}^{{tree}}"), project.git("rev-parse", f"{new}^{{tree}}"))


def changed(
    path: str, change: ChangeKind, old: str | None, insertions: int | None, deletions: int | None
) -> ChangedFile:
    return ChangedFile(path=path, change=change, old_path=old, insertions=insertions, deletions=deletions)


LINES = "".join(f"line {number}\n" for number in range(20))


def test_added_modified_and_deleted_files_have_their_line_counts(project: Project) -> None:
    project.commit({"keep": "1\n", "edit": "1\n2\n3\n", "drop": "gone\nfor good\n"})
    (project.root / "drop").unlink()
    project.commit({"edit": "1\ntwo\n3\n4\n", "new/file": "1\n"})
    assert between(project) == [
        changed("drop", "deleted", None, 0, 2),
        changed("edit", "modified", None, 2, 1),
        changed("new/file", "added", None, 1, 0),
    ]


def test_an_empty_file_is_added_without_lines(project: Project) -> None:
    project.commit({"src/__init__.py": ""})
    assert between(project) == [changed("src/__init__.py", "added", None, 0, 0)]


def test_a_rename_is_one_change_with_both_names(project: Project) -> None:
    project.commit({"old.txt": LINES})
    project.git("mv", "old.txt", "new.txt")
    project.commit({})
    assert between(project) == [changed("new.txt", "renamed", "old.txt", 0, 0)]


def test_a_rename_with_an_edit_counts_the_edit(project: Project) -> None:
    project.commit({"old.txt": LINES})
    project.git("mv", "old.txt", "new.txt")
    project.commit({"new.txt": LINES.replace("line 3\n", "line three\n")})
    assert between(project) == [changed("new.txt", "renamed", "old.txt", 1, 1)]


def test_binary_files_have_no_line_counts(project: Project) -> None:
    project.commit({"a.bin": b"\0\1\2"})
    project.commit({"a.bin": b"\0\1\3", "b.bin": b"\0"})
    assert between(project) == [
        changed("a.bin", "modified", None, None, None),
        changed("b.bin", "added", None, None, None),
    ]


def test_a_change_of_mode_is_a_modification_without_lines(project: Project) -> None:
    project.commit({"run.sh": "#!/bin/sh\n"})
    (project.root / "run.sh").chmod(0o755)
    project.commit({})
    assert between(project) == [changed("run.sh", "modified", None, 0, 0)]


def test_a_link_is_a_file_with_one_line(project: Project) -> None:
    (project.root / "link").symlink_to("README.md")
    project.commit({})
    assert between(project) == [changed("link", "added", None, 1, 0)]


def test_a_file_that_becomes_a_link_changes_its_type(project: Project) -> None:
    project.commit({"x": "1\n2\n"})
    (project.root / "x").unlink()
    (project.root / "x").symlink_to("README.md")
    project.commit({})
    assert between(project) == [changed("x", "type_changed", None, None, None)]


def test_line_ends_are_counted_as_they_are_stored(project: Project) -> None:
    project.commit({"dos.txt": "a\r\nb\r\n", ".gitattributes": "dos.txt -text\n"})
    project.commit({"dos.txt": "a\nb\r\n"})
    assert between(project) == [changed("dos.txt", "modified", None, 1, 1)]


def test_a_submodule_is_one_change(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{head},lib")
    project.git("commit", "-qm", "module")
    (delta,) = between(project)
    assert (delta.path, delta.change) == ("lib", "added")


@pytest.mark.parametrize("name", ["with space", "naïve 日本.txt", "tab\tname", "new\nline", 'quo"te', "back\\slash"])
def test_odd_names_are_kept(project: Project, name: str) -> None:
    project.commit({name: "1\n"})
    assert between(project) == [changed(name, "added", None, 1, 0)]


def test_a_name_that_is_not_utf_8_is_told_as_text_that_can_be_written(project: Project) -> None:
    project.commit({os.fsdecode(b"caf\xe9.txt"): "1\n"})
    (delta,) = between(project)
    assert (delta.path.encode(), delta.change) == ("caf\N{REPLACEMENT CHARACTER}.txt".encode(), "added")


def test_equal_trees_differ_in_nothing(project: Project) -> None:
    assert between(project, "HEAD", "HEAD") == []


def test_very_many_files_are_compared_without_looking_for_renames(project: Project) -> None:
    project.commit({f"old/{number}": f"file {number}\n{LINES}" for number in range(250)})
    project.git("mv", "old", "new")
    project.commit({})
    found = between(project)
    assert [sum(1 for delta in found if delta.change == kind) for kind in ("added", "deleted", "renamed")] == [
        250,
        250,
        0,
    ]
