"""Notes with our own fan-out are ordinary notes to plain git."""

from __future__ import annotations

from datetime import UTC, datetime

from gitswarm.git.notes import Notes
from gitswarm.git.object_reader import Person
from gitswarm.git.objects import Objects
from gitswarm.git.repository import open_repository
from tests.conftest import Project

REF = "refs/notes/swarm/run-20260101-000000-abcdef/events"
WHO = Person("Ann", "ann@example.org")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def opened(project: Project) -> tuple[Objects, Notes]:
    repository = open_repository(project.root, project.env)
    return repository.objects, repository.notes(REF)


def put(project: Project, commit_id: str, text: str) -> str:
    """Writes a note; the id of its blob."""
    objects, notes = opened(project)
    blob_id = objects.write_blob(text.encode())
    notes.write(commit_id, blob_id, by=WHO, when=WHEN)
    return blob_id


def test_a_note_is_read_by_us_and_by_git(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    blob_id = put(project, head, "one\n")
    _objects, notes = opened(project)
    assert (notes.read(head), notes.blob_of(head)) == (b"one\n", blob_id)
    assert project.git("notes", f"--ref={REF}", "show", head) == "one"


def test_the_note_is_the_very_blob_that_was_given(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    blob_id = put(project, head, "one\n")
    assert project.git("notes", f"--ref={REF}", "list", head) == blob_id


def test_300_notes_lie_in_folders_of_two_digits_and_git_shows_each(project: Project) -> None:
    objects, notes = opened(project)
    annotated = [objects.write_blob(f"object {number}".encode()) for number in range(300)]
    blobs = [objects.write_blob(f"note {number}\n".encode()) for number in range(300)]
    for target, blob_id in zip(annotated, blobs, strict=True):
        notes.write(target, blob_id, by=WHO, when=WHEN)
    listed = project.git("notes", f"--ref={REF}", "list").splitlines()
    assert sorted(listed) == sorted(f"{b} {t}" for b, t in zip(blobs, annotated, strict=True))
    assert project.git("notes", f"--ref={REF}", "show", annotated[123]) == "note 123"
    assert {len(name) for name in project.git("ls-tree", "--name-only", REF).splitlines()} == {2}


def test_a_newer_note_replaces_the_older_one(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    put(project, head, "one\n")
    put(project, head, "one\ntwo\n")
    assert project.git("notes", f"--ref={REF}", "show", head) == "one\ntwo"


def test_every_write_is_a_commit_on_the_notes_ref(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    put(project, head, "one\n")
    put(project, head, "two\n")
    assert project.git("log", "--format=%an %s", REF).splitlines() == ["Ann Notes added by git-swarm"] * 2


def test_writing_the_same_note_again_changes_nothing(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    put(project, head, "one\n")
    tip = project.git("rev-parse", REF)
    put(project, head, "one\n")
    assert project.git("rev-parse", REF) == tip


def test_a_note_that_git_wrote_without_folders_is_read_too(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("notes", f"--ref={REF}", "add", "-m", "by hand", head)
    _objects, notes = opened(project)
    assert notes.read(head) == b"by hand\n"


def test_our_note_replaces_one_that_git_wrote_without_folders(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("notes", f"--ref={REF}", "add", "-m", "by hand", head)
    put(project, head, "ours\n")
    assert project.git("notes", f"--ref={REF}", "show", head) == "ours"


def test_a_commit_without_a_note_has_none(project: Project) -> None:
    _objects, notes = opened(project)
    assert (notes.tip, notes.read(project.git("rev-parse", "HEAD"))) == (None, None)
