"""New objects as packs: what plain git finds of them, and how many there are."""

from __future__ import annotations

import errno
import gc
import shutil
import weakref
from collections.abc import Iterable
from pathlib import Path

import pytest

from gitswarm.errors import SwarmError
from gitswarm.git import packing
from gitswarm.git.packing import is_left_behind
from gitswarm.git.repository import Repository, open_repository
from tests.conftest import Project

REF = "refs/swarm/x"


@pytest.fixture
def repository(project: Project) -> Repository:
    return open_repository(project.root, project.env)


def packs(repository: Repository, suffix: str = "idx") -> list[Path]:
    return list((repository.objects.store / "pack").glob(f"*.{suffix}"))


def put(repository: Repository, number: int, old: str | None = None) -> str:
    """A tree that a ref names; its id."""
    blob = repository.objects.write_blob(f"{number}\n".encode() * (number + 1))
    tree = repository.objects.with_files(old, {f"folder/{number}": blob})
    repository.refs.swap(REF, old, tree, why="test")
    return tree


def test_plain_git_finds_what_a_ref_names(project: Project, repository: Repository) -> None:
    with repository.packed():
        put(repository, 7)
    assert project.git("show", f"{REF}:folder/7") == "\n".join(["7"] * 8)
    # Nothing is left but a pack and its index, which git checks against each other.
    assert sorted(path.suffix for path in (repository.objects.store / "pack").iterdir()) == [".idx", ".pack"]
    project.git("verify-pack", str(packs(repository)[0]))


def test_many_writes_are_few_packs_and_one_in_the_end(project: Project, repository: Repository) -> None:
    tree, most, known = None, 0, []
    with repository.packed():
        for number in range(300):
            tree = put(repository, number, tree)
            known.append(tree)
            most = max(most, len(packs(repository)))
            repository.objects.file(tree, f"folder/{number // 2}")
        # A pack that has gone is not looked into for ever.
        maps = Path("/proc/self/maps")
        mapped = maps.read_text(encoding="utf-8").splitlines() if maps.exists() else []
        gone = [line for line in mapped if line.endswith(".idx (deleted)") and str(project.root) in line]
        assert len(gone) <= 40
    assert (most <= 45, len(packs(repository)), packs(repository, "keep")) == (True, 1, [])
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""
    # libgit2 reads them too, which saw packs come and go.
    assert [len(repository.objects.names(each, "folder")) for each in known] == list(range(1, 301))


def test_what_is_written_twice_is_not_lost_when_packs_become_one(project: Project, repository: Repository) -> None:
    with repository.packed():
        for contents in ([b"once", b"again"], [b"again"], [b"once", b"again"]):
            blobs = [repository.objects.write_blob(content) for content in contents]
            repository.objects.flush()
    assert [project.git("cat-file", "-p", blob) for blob in blobs] == ["once", "again"]
    assert len(packs(repository)) == 1


def test_a_pack_that_was_damaged_is_not_copied_into_another(project: Project, repository: Repository) -> None:
    with repository.packed():
        repository.objects.write_blob(b"one")
        repository.objects.flush()
        (damaged,) = packs(repository, "pack")
        whole = repository.objects.write_blob(b"two")
        repository.objects.flush()
        content = bytearray(damaged.read_bytes())
        content[-25] ^= 1
        damaged.chmod(0o644)
        damaged.write_bytes(content)
    assert (len(packs(repository)), project.git("cat-file", "-p", whole)) == (2, "two")


def test_a_repository_that_nobody_uses_any_more_lets_go_of_its_packs(project: Project) -> None:
    used = open_repository(project.root, project.env)
    with used.packed():
        tree = put(used, 2, put(used, 1))
    used.objects.file(tree, "folder/1")
    was = weakref.ref(used)
    del used
    gc.collect()
    maps = Path("/proc/self/maps")
    assert (was(), maps.exists() and str(project.root) in maps.read_text(encoding="utf-8")) == (None, False)


def test_a_pack_is_on_disk_before_what_it_replaces_goes(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("gitswarm.git.packing.os.fsync", lambda _file: told.append("flushed"))
    real = Path.unlink

    def unlink(path: Path, *, missing_ok: bool) -> None:
        told.append(path.suffix)
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    with repository.packed():
        put(repository, 2, put(repository, 1))
    told = [each for each in told if each != ".keep"]
    assert told == ["flushed", "flushed", "flushed", *([".idx", ".pack"] * 2)]


def test_a_repack_takes_nothing_away_that_no_ref_names_yet(project: Project, repository: Repository) -> None:
    blob = repository.objects.write_blob(b"soon")
    repository.git.before()
    project.git("repack", "-a", "-d", "-q")
    assert project.git("cat-file", "-p", blob) == "soon"
    with repository.packed():
        put(repository, 1)
        project.git("repack", "-a", "-d", "-q")
        assert project.git("cat-file", "-p", blob) == "soon"  # what another ref will name
    project.git("repack", "-a", "-d", "-q")
    assert (len(packs(repository)), project.git("show", f"{REF}:folder/1")) == (1, "1\n1")


def test_where_there_are_no_hard_links_a_file_keeps_the_pack(
    project: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    blob = repository.objects.write_blob(b"soon")
    repository.git.before()
    project.git("repack", "-a", "-d", "-q")
    (keep,) = packs(repository, "keep")
    assert (project.git("cat-file", "-p", blob), is_left_behind(keep)) == ("soon", True)
    with repository.packed():
        put(repository, 1)
    assert packs(repository, "keep") == []


def test_what_is_half_written_is_no_git_prune_s_and_gone_when_there_is_no_room(
    project: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And two processes that write the same pack at once do not write the same file."""
    names: list[str] = []

    def no_room(path: Path, content: Iterable[bytes], *, durable: bool) -> None:
        names.append(path.name)
        put_down(path, content, durable=durable)
        if path.suffix == ".index":
            project.git("prune", "--expire=now")
            assert path.exists()
            raise OSError(errno.ENOSPC, "No space left on device")

    put_down = packing._put
    monkeypatch.setattr(packing, "_put", no_room)
    blob = repository.objects.write_blob(b"large")
    for _ in range(2):
        with pytest.raises(SwarmError, match="No space left"):
            repository.git.before()
    assert (len(set(names)), list((repository.objects.store / "pack").iterdir())) == (4, [])
    monkeypatch.undo()
    repository.git.before()
    assert project.git("cat-file", "-p", blob) == "large"


def test_a_repack_of_somebody_else_s_meanwhile_loses_nothing(project: Project, repository: Repository) -> None:
    tree = None
    with repository.packed():
        for number in range(40):
            tree = put(repository, number, tree)
            if number % 15 == 7:
                project.git("repack", "-a", "-d", "-q")
            if number == 38:
                project.git("multi-pack-index", "write")
    project.git("multi-pack-index", "verify")
    assert len(project.git("ls-tree", "--name-only", f"{REF}:folder").splitlines()) == 40
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""


def test_what_a_killed_process_keeps_is_told_from_what_a_fetch_keeps(repository: Repository) -> None:
    put(repository, 1)
    pack = packs(repository, "pack")[0]
    keep = pack.with_suffix(".keep")
    ours = is_left_behind(keep)
    keep.unlink()
    shutil.copy(pack, keep)  # the repository was copied
    copied = is_left_behind(keep)
    keep.write_text("fetch-pack 4711 on host", encoding="utf-8")
    assert (ours, copied, is_left_behind(keep)) == (True, True, False)
