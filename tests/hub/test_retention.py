"""Runs that have ended are folded into the hub's archive, and found and brought back from there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from gitswarm.cli import cleaning
from gitswarm.cli.invocation import now
from gitswarm.git.ref_files import ARCHIVE_REF
from gitswarm.git.remote import Move, Remote
from tests.conftest import Project
from tests.faults import COUNT
from tests.hub.clones import STEPS, Clones, two_clones

GC = ("gc", "--hub", "--archive", "0s")


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return two_clones(tmp_path)


def refs_of(clones: Clones) -> list[str]:
    return clones.on_hub("for-each-ref", "--format=%(refname)").splitlines()


def archived(project: Project) -> list[str]:
    return [each["run_id"] for each in project.json("list", "--hub", "--all") if "archived" in each]


def test_a_hub_may_keep_its_refs_in_a_reftable(tmp_path: Path) -> None:
    if b"--ref-format" not in subprocess.run(["git", "init", "-h"], capture_output=True, check=False).stdout:
        pytest.skip("git is older than 2.45")
    clones = two_clones(tmp_path, "--ref-format=reftable")
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    there.swarm("resume", "--hub")
    run = clones.run
    here.swarm("pull", run)
    assert here.json("log", run) == there.json("log", run)
    assert clones.pushed() == list(STEPS)
    here.swarm(*GC)
    assert (archived(there), refs_of(clones)) == ([run], ["refs/heads/main", ARCHIVE_REF])
    assert (clones.hub / "reftable").is_dir()


def lose_garbage(clones: Clones) -> None:
    clones.on_hub("gc", "-q", "--prune=now")


@pytest.mark.parametrize("filters", ["true", pytest.param("false", marks=pytest.mark.soak)])
def test_an_archived_run_is_found_and_pulled(clones: Clones, filters: str) -> None:
    here, there = clones.here, clones.there
    clones.on_hub("config", "uploadpack.allowFilter", filters)
    here.swarm(*clones.start())
    run = clones.run
    before = here.json("status", run) | {"worktree": None}

    would = here.swarm(*GC, "--dry-run").stdout
    assert would.startswith(f"would archive  {run}")
    assert run in here.swarm(*GC).stdout

    assert refs_of(clones) == ["refs/heads/main", ARCHIVE_REF]
    lose_garbage(clones)
    assert clones.on_hub("fsck", "--full", "--strict") == ""
    objects = there.git("rev-list", "--all", "--objects")
    assert there.json("list", "--hub") == []
    assert there.json("list", "--hub", "--all") == [before | {"archived": True}]
    assert there.json("status", run[-6:], "--hub") == before | {"archived": True}
    assert there.git("rev-list", "--all", "--objects") == objects
    there.swarm("pull", run[-6:])
    assert there.json("log", run) == here.json("log", run)
    assert "verified, no changes found" in there.swarm("verify", run).stdout
    assert there.git("fsck", "--full", "--strict", "--no-dangling") == ""
    assert list((there.root / ".git" / "swarm").glob("scratch-*")) == []


@pytest.mark.soak
def test_an_archived_run_continues_and_is_archived_once_more(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start())
    run = clones.run
    here.swarm(*GC)
    there.swarm("pull", run)
    there.swarm("rollback", "first", "--run", run)
    there.swarm("resume", run, "--hub")
    assert archived(here) == []
    there.swarm(*GC)
    assert (archived(here), refs_of(clones)) == ([run], ["refs/heads/main", ARCHIVE_REF])
    here.swarm("pull", run)
    assert here.json("log", run) == there.json("log", run)


@pytest.mark.soak
def test_only_runs_that_are_over_are_archived(clones: Clones) -> None:
    here = clones.here
    here.swarm(*clones.start(), "--until", "second")
    paused = clones.run
    here.swarm("hold", paused)
    assert here.swarm(*GC).stdout == "nothing to archive on hub\n"
    here.swarm("release", paused)
    assert here.swarm("gc", "--hub", "--archive", "1d").stdout == "nothing to archive on hub\n"
    moved = clones.on_hub("rev-parse", f"shadow/{paused}~")
    clones.on_hub("update-ref", f"refs/heads/shadow/{paused}", moved)
    assert here.swarm(*GC).stdout == "nothing to archive on hub\n"
    assert "nothing says how long runs stay" in here.swarm("gc", "--hub", code=2).stderr


@pytest.mark.soak
def test_a_run_that_was_killed_is_not_archived(clones: Clones) -> None:
    clones.here.swarm_process(*clones.start(second=['kill -9 "$PPID"']), code=-signal.SIGKILL)
    assert clones.there.swarm(*GC).stdout == "nothing to archive on hub\n"


@pytest.mark.soak
def test_older_work_never_replaces_what_is_archived(clones: Clones) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start(), "--until", "first")
    run = clones.run
    there.swarm("resume", run, "--hub")
    there.swarm(*GC)
    refused = here.swarm("push", run, code=1)
    assert f"hub has commits of {run} that are not here" in refused.stderr
    here.swarm("resume", run, "--hub")
    assert [entry["step"] for entry in here.json("log", run)] == list(STEPS)
    assert clones.trace == list(STEPS)


@pytest.mark.soak
def test_of_two_at_once_one_wins_and_the_other_tries_again(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = clones.here, clones.there
    here.swarm(*clones.start())
    first = clones.run
    there.swarm("pull", first)
    push, turns = Remote.push, iter([True])

    def after_another(remote: Remote, moves: Sequence[Move]) -> str | None:
        if any(move.ref == ARCHIVE_REF for move in moves) and next(turns, False):
            there.swarm_process(*GC)
            there.swarm_process(*clones.start())
        return push(remote, moves)

    monkeypatch.setattr(Remote, "push", after_another)
    monkeypatch.setattr(cleaning, "now", lambda: now() + timedelta(hours=1))
    said = here.swarm(*GC).stdout

    (second,) = {each["run_id"] for each in there.json("list")} - {first}
    assert (first in said, second in said) == (False, True)
    assert sorted(archived(here)) == sorted([first, second])
    assert refs_of(clones) == ["refs/heads/main", ARCHIVE_REF]
    lose_garbage(clones)
    assert clones.on_hub("fsck", "--full", "--strict") == ""


@pytest.mark.soak
def test_a_kill_at_any_point_leaves_each_run_in_one_place(tmp_path: Path) -> None:
    made = two_clones(tmp_path / "made")
    made.here.swarm(*made.start())
    points = killed_at(made, COUNT).stdout.splitlines()
    assert any("git push" in name for name in points)
    for number in range(1, len(points) + 1, 3):
        clones = two_clones(tmp_path / str(number))
        clones.here.swarm(*clones.start())
        run = clones.run
        assert killed_at(clones, str(number)).returncode == -signal.SIGKILL, points[number - 1]
        lose_garbage(clones)
        clones.there.swarm("pull", run)
        clones.here.swarm(*GC)
        assert refs_of(clones) == ["refs/heads/main", ARCHIVE_REF]
        assert archived(clones.there) == [run]
        assert clones.on_hub("fsck", "--full", "--strict", "--no-dangling") == ""


def killed_at(clones: Clones, point: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.faults", point, *GC]
    return subprocess.run(
        argv, cwd=clones.here.root, env=dict(clones.here.env), capture_output=True, text=True, check=False
    )
