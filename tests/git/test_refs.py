"""Refs move by compare-and-swap only, their first creation included."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from gitswarm.errors import GitFailedError, RefMovedError
from gitswarm.git import refs as refs_module
from gitswarm.git.refs import Refs
from gitswarm.git.repository import open_repository
from tests.conftest import Project

NAME = "refs/swarm/run-20260101-000000-abcdef/next"
OTHER = "refs/notes/swarm/run-20260101-000000-abcdef/events"
ROUNDS = 50
PROCESSES = 4


def commits(project: Project, count: int) -> list[str]:
    """Ids of commits that differ."""
    tree = project.git("rev-parse", "HEAD^{tree}")
    return [project.git("commit-tree", "-m", f"number {number}", tree) for number in range(count)]


def refs_of(project: Project) -> Refs:
    return open_repository(project.root, project.env).refs


def test_a_ref_is_created_where_there_is_none(project: Project) -> None:
    (new,) = commits(project, 1)
    refs_of(project).swap(NAME, None, new, why="created")
    assert project.git("rev-parse", NAME) == new


def test_a_ref_moves_from_what_it_holds(project: Project) -> None:
    old, new = commits(project, 2)
    refs = refs_of(project)
    refs.swap(NAME, None, old, why="created")
    refs.swap(NAME, old, new, why="moved")
    assert project.git("rev-parse", NAME) == new


def test_a_ref_is_deleted(project: Project) -> None:
    (old,) = commits(project, 1)
    refs = refs_of(project)
    refs.swap(NAME, None, old, why="created")
    refs.swap(NAME, old, None, why="done")
    assert refs.read(NAME) is None


@pytest.mark.parametrize(("name", "folder"), [(NAME, "refs/swarm"), ("refs/heads/shadow", "refs/heads")])
def test_a_deleted_ref_leaves_no_empty_folder_of_its_own(project: Project, name: str, folder: str) -> None:
    (old,) = commits(project, 1)
    refs = refs_of(project)
    project.git("pack-refs", "--all")
    refs.swap(name, None, old, why="created")
    refs.swap(name, old, None, why="done")
    assert list((project.root / ".git" / folder).iterdir()) == []


@pytest.mark.parametrize(("held", "expected"), [(0, None), (0, 1), (None, 1)])
def test_a_ref_that_holds_something_else_stays_as_it_is(
    project: Project, held: int | None, expected: int | None
) -> None:
    ids = commits(project, 3)
    refs = refs_of(project)
    before = None if held is None else ids[held]
    if before:
        refs.swap(NAME, None, before, why="created")
    with pytest.raises(RefMovedError):
        refs.swap(NAME, None if expected is None else ids[expected], ids[2], why="moved")
    assert refs.read(NAME) == before


def test_the_refusal_names_the_ref_and_what_it_holds(project: Project) -> None:
    first, second = commits(project, 2)
    refs = refs_of(project)
    refs.swap(NAME, None, first, why="created")
    with pytest.raises(RefMovedError) as caught:
        refs.swap(NAME, None, second, why="created")
    assert caught.value.message == f"{NAME} is at {first}, expected nothing"


@pytest.mark.parametrize("gone", [True, False])
def test_a_swap_may_be_repeated_after_a_crash(project: Project, *, gone: bool) -> None:
    old, new = commits(project, 2)
    refs = refs_of(project)
    refs.swap(NAME, None, old, why="created")
    target = None if gone else new
    refs.swap(NAME, old, target, why="moved")
    refs.swap(NAME, old, target, why="moved")
    assert refs.read(NAME) == target


def test_a_packed_ref_moves_too(project: Project) -> None:
    old, new = commits(project, 2)
    refs = refs_of(project)
    refs.swap(NAME, None, old, why="created")
    project.git("pack-refs", "--all")
    refs.swap(NAME, old, new, why="moved")
    assert project.git("rev-parse", NAME) == new


def test_a_packed_ref_is_deleted_for_good(project: Project) -> None:
    (old,) = commits(project, 1)
    refs = refs_of(project)
    refs.swap(NAME, None, old, why="created")
    project.git("pack-refs", "--all")
    refs.swap(NAME, old, None, why="done")
    assert project.git("for-each-ref", NAME) == ""


def test_deleting_a_ref_takes_no_other_ref_back(project: Project) -> None:
    """`git pack-refs` has put a newer value of another ref into packed-refs than the one that libgit2 remembers."""
    old, new = commits(project, 2)
    refs = refs_of(project)
    for name in (NAME, OTHER):
        refs.swap(name, None, old, why="created")
    project.git("pack-refs", "--all")
    assert refs.list("refs/swarm") == [NAME]
    packed = project.root / ".git" / "packed-refs"
    known = packed.stat()
    packed.write_text(packed.read_text().replace(f"{old} {OTHER}", f"{new} {OTHER}"))
    os.utime(packed, ns=(known.st_atime_ns, known.st_mtime_ns))

    refs.swap(NAME, old, None, why="done")

    assert (
        project.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/swarm", "refs/notes")
        == f"{new} {OTHER}"
    )


@dataclass
class Packing:
    """`git pack-refs` that packs one ref: it has read the value, and writes it when it ends."""

    git_dir: Path
    value: str

    @property
    def lock(self) -> Path:
        return self.git_dir / "packed-refs.lock"

    def begin(self) -> None:
        self.lock.touch()

    def end(self) -> None:
        if self.lock.exists():
            (self.git_dir / "packed-refs").write_text(f"# pack-refs with: sorted \n{self.value} {NAME}\n")
            self.lock.unlink()


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_a_ref_that_is_packed_while_it_is_deleted_does_not_come_back(
    project: Project, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    (value,) = commits(project, 1)
    project.git("config", "core.packedRefsTimeout", "0")
    refs = refs_of(project)
    refs.swap(NAME, None, value, why="created")
    packing = Packing(project.root / ".git", value)
    unlink = Path.unlink

    def packed_meanwhile(path: Path, *, missing_ok: bool = False) -> None:
        if path == packing.git_dir / NAME:
            packing.begin()
        unlink(path, missing_ok=missing_ok)

    if begins == "before":
        packing.begin()
    monkeypatch.setattr(Path, "unlink", packed_meanwhile)
    monkeypatch.setattr("gitswarm.git.refs.time.sleep", lambda _seconds: packing.end())
    refs.swap(NAME, value, None, why="done")
    packing.end()

    assert project.git("for-each-ref", NAME) == ""


def test_a_branch_keeps_why_it_moved_in_its_reflog(project: Project) -> None:
    (new,) = commits(project, 1)
    refs_of(project).swap("refs/heads/shadow/x", None, new, why="run created")
    assert project.git("reflog", "show", "--format=%gs", "shadow/x") == "git-swarm: run created"


def test_refs_are_listed_by_prefix_in_order(project: Project) -> None:
    (new,) = commits(project, 1)
    refs = refs_of(project)
    for name in ("refs/swarm/b", "refs/swarm/a", "refs/swarmy"):
        refs.swap(name, None, new, why="created")
    assert refs.list("refs/swarm/") == ["refs/swarm/a", "refs/swarm/b"]


@pytest.mark.parametrize("name", ["refs/heads/none", "not a ref..", ""])
def test_a_ref_that_does_not_exist_reads_as_none(project: Project, name: str) -> None:
    assert refs_of(project).read(name) is None


def test_a_ref_that_stays_locked_is_an_error_and_not_moved(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs_module, "_LOCK_WAIT_S", 0.05)
    (new,) = commits(project, 1)
    lock = project.root / ".git" / f"{NAME}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with pytest.raises(GitFailedError, match="is in the way"):
        refs_of(project).swap(NAME, None, new, why="created")
    assert refs_of(project).read(NAME) is None


def _race(folder: Path, mine: str, olds: list[str | None], barrier: Barrier, wins: Queue[list[int]]) -> None:
    """One process: every round it tries to put its own commit where the others try to put theirs."""
    refs = open_repository(folder, {}).refs
    won = []
    for number, old in enumerate(olds):
        barrier.wait(timeout=30)
        try:
            refs.swap(f"refs/swarm/race/{number}", old, mine, why="race")
        except RefMovedError:
            continue
        won.append(number)
    wins.put(won)


def race(project: Project, olds: list[str | None], ids: list[str]) -> list[int]:
    """The rounds that were won, each as often as somebody won it."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES)
    wins: Queue[list[int]] = context.Queue()
    racers = [context.Process(target=_race, args=(project.root, mine, olds, barrier, wins)) for mine in ids]
    for racer in racers:
        racer.start()
    won = sorted(number for _racer in racers for number in wins.get(timeout=60))
    for racer in racers:
        racer.join()
        racer.close()
    wins.close()
    wins.join_thread()
    return won


def test_of_four_that_create_a_ref_at_once_exactly_one_wins(project: Project) -> None:
    ids = commits(project, PROCESSES)
    assert race(project, [None] * ROUNDS, ids) == list(range(ROUNDS))
    held = project.git("for-each-ref", "--format=%(objectname)", "refs/swarm/race/").splitlines()
    assert (len(held), set(held) <= set(ids)) == (ROUNDS, True)


def test_of_four_that_move_a_ref_at_once_exactly_one_wins(project: Project) -> None:
    old, *ids = commits(project, PROCESSES + 1)
    for number in range(ROUNDS):
        refs_of(project).swap(f"refs/swarm/race/{number}", None, old, why="created")
    assert race(project, [old] * ROUNDS, ids) == list(range(ROUNDS))


def test_a_value_that_libgit2_remembers_wrongly_is_looked_up_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside `git pack-refs` in a tight loop: what libgit2 knows of packed-refs is a moment old."""
    refs = refs_of(project)
    first = project.git("rev-parse", "HEAD")
    second = project.commit({"a": "1"})
    refs.swap("refs/swarm/x", None, first, why="test")
    refs.swap("refs/swarm/x", first, second, why="test")
    stale, look = iter([first]), Refs._value_of
    monkeypatch.setattr(
        Refs, "_value_of", lambda self, repository, name: next(stale, None) or look(self, repository, name)
    )
    assert refs.read("refs/swarm/x") == second
