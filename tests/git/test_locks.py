"""Who owns a run, and who keeps git's gc waiting."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pytest

from gitswarm.errors import RunHeldError, SwarmError
from gitswarm.git import locks as locks_module
from gitswarm.git.locks import Locks
from gitswarm.git.owners import Owner
from tests.conftest import Project

RUN = "run-20260101-000000-abcdef"
OTHER = "run-20260101-000000-000000"
STARTED = "2026-01-01T00:00:00.000Z"

OWNER = """\
import sys
from pathlib import Path
from gitswarm.git.locks import Locks
with Locks(Path(sys.argv[1])).own_run(sys.argv[2], sys.argv[3]):
    print("owned", flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class OwningProcess:
    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def leave(self) -> None:
        cast("IO[str]", self.process.stdin).close()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def owning(project: Project, run: str) -> Iterator[OwningProcess]:
    """Another process that owns a run."""
    argv = [sys.executable, "-c", OWNER, str(project.root / ".git"), run, STARTED]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=dict(project.env), stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert cast("IO[str]", process.stdout).readline() == "owned\n"
            yield OwningProcess(process)
        finally:
            process.kill()


def locks(project: Project) -> Locks:
    return Locks(project.root / ".git")


def gc_pid(project: Project) -> str | None:
    path = project.root / ".git/gc.pid"
    return path.read_text(encoding="utf-8") if path.exists() else None


def held_by(pid: int) -> str:
    return f"{pid} {socket.gethostname()}\n"


def test_a_run_that_nobody_owns_has_no_owner(project: Project) -> None:
    assert locks(project).owner(RUN) is None


def test_whoever_asks_is_told_who_owns_a_run(project: Project) -> None:
    with owning(project, RUN) as other:
        assert locks(project).owner(RUN) == Owner(other.pid, socket.gethostname(), STARTED)


def test_a_second_owner_is_refused_and_told_who_has_it(project: Project) -> None:
    with owning(project, RUN) as other, pytest.raises(RunHeldError) as caught, locks(project).own_run(RUN, "now"):
        pass
    assert (caught.value.message, caught.value.hint) == (
        f"{RUN} is executed by process {other.pid} on {socket.gethostname()} since {STARTED}",
        f"git swarm status {RUN}",
    )


def test_two_runs_have_two_owners(project: Project) -> None:
    with owning(project, RUN), locks(project).own_run(OTHER, "now"):
        owner = locks(project).owner(RUN)
    assert owner is not None


def test_a_run_whose_owner_left_can_be_owned_again(project: Project) -> None:
    with owning(project, RUN) as other:
        other.leave()
        with locks(project).own_run(RUN, "now"):
            pass
    assert locks(project).owner(RUN) is None


def test_a_run_whose_owner_was_killed_can_be_owned_again(project: Project) -> None:
    with owning(project, RUN) as other:
        other.kill()
        assert locks(project).owner(RUN) is None
        with locks(project).own_run(RUN, "now"):
            pass


@pytest.mark.parametrize("lets_go", [True, False])
def test_a_process_that_a_killed_owner_had_just_started_is_waited_for(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, lets_go: bool
) -> None:
    """Until it is another program it has the files of its parent open, and so the parent's lock."""
    monkeypatch.setattr(locks_module, "_PROBE_WAIT_S", 0.05)
    monkeypatch.setattr(locks_module, "_CHILD_WAIT_S", 10 if lets_go else 0.05)
    with owning(project, RUN) as other:
        other.kill()
    child = os.open(project.root / f".git/swarm/locks/{RUN}.lock", os.O_RDWR)
    fcntl.flock(child, fcntl.LOCK_EX)
    closing = threading.Timer(0.3, os.close, [child])
    closing.start()
    with nullcontext() if lets_go else pytest.raises(RunHeldError), locks(project).own_run(RUN, "now"):
        assert lets_go
    closing.join()


def test_asking_for_the_owner_does_not_keep_a_run_from_being_owned(project: Project) -> None:
    with owning(project, RUN) as other:
        other.leave()
    ours = locks(project)
    for _ in range(20):
        assert ours.owner(RUN) is None
        with ours.own_run(RUN, "now"):
            pass


def test_two_who_ask_at_the_same_moment_do_not_take_each_other_for_the_owner(project: Project) -> None:
    with owning(project, RUN) as other:
        other.kill()
    ours, found = locks(project), list[Owner | None]()
    asking = [threading.Thread(target=lambda: found.extend(ours.owner(RUN) for _ in range(3_000))) for _ in range(2)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert set(found) == {None}


def test_an_owner_holds_gc_while_it_lives(project: Project) -> None:
    with locks(project).own_run(RUN, "now"):
        assert gc_pid(project) == held_by(os.getpid())
    assert gc_pid(project) is None


def test_a_foreign_gc_waits_for_the_owner(project: Project) -> None:
    argv = ["git", "gc", "--quiet", "--prune=now"]
    with locks(project).own_run(RUN, "now"):
        done = subprocess.run(argv, cwd=project.root, env=dict(project.env), capture_output=True, check=False)
    assert (done.returncode, b"gc is already running" in done.stderr) == (128, True)


def test_gc_pid_is_handed_on_between_two_owners(project: Project) -> None:
    with owning(project, RUN) as first, owning(project, OTHER) as second:
        assert gc_pid(project) == held_by(first.pid)
        first.leave()
        assert gc_pid(project) == held_by(second.pid)
        second.leave()
    assert gc_pid(project) is None


def test_the_owner_that_does_not_hold_gc_leaves_it_alone(project: Project) -> None:
    with owning(project, RUN) as first, owning(project, OTHER) as second:
        second.leave()
        assert gc_pid(project) == held_by(first.pid)


def test_gc_is_not_handed_to_an_owner_that_was_killed(project: Project) -> None:
    with owning(project, RUN) as first, owning(project, OTHER) as second:
        second.kill()
        first.leave()
    assert gc_pid(project) is None


def test_gc_pid_of_a_killed_owner_is_taken_over(project: Project) -> None:
    with owning(project, RUN) as first:
        first.kill()
    with locks(project).own_run(OTHER, "now"):
        assert gc_pid(project) == held_by(os.getpid())


def test_an_owner_takes_gc_over_at_its_next_step_when_the_holder_was_killed(project: Project) -> None:
    with owning(project, RUN) as first, locks(project).own_run(OTHER, "now"):
        first.kill()
        locks(project).hold_gc()
        assert gc_pid(project) == held_by(os.getpid())


@pytest.mark.parametrize("content", ["4711 another-host\n", "1 " + socket.gethostname() + "\n"])
def test_a_gc_of_somebody_else_is_left_alone(project: Project, content: str) -> None:
    path = project.root / ".git/gc.pid"
    path.write_text(content, encoding="utf-8")
    with locks(project).own_run(RUN, "now"):
        pass
    assert gc_pid(project) == content


def test_what_a_killed_owner_left_half_written_is_swept_and_lies_among_our_own_files(project: Project) -> None:
    folder = project.root / ".git/swarm/locks"
    folder.mkdir(parents=True)
    with owning(project, OTHER) as other:
        other.kill()
    dead, live = folder / f"gc.pid.{other.pid}", folder / f"gc.pid.{os.getppid()}"
    for path in (dead, live):
        path.touch()
    with locks(project).own_run(RUN, "now"):
        assert (dead.exists(), live.exists()) == (False, True)


@pytest.mark.parametrize(("age_s", "branch", "stays"), [(0, None, False), (0, OTHER, True), (-3600, None, True)])
def test_the_lock_of_a_branch_that_a_killed_owner_did_not_get_to_make_is_swept(
    project: Project, age_s: int, branch: str | None, *, stays: bool
) -> None:
    with owning(project, OTHER) as other:
        other.kill()
    if branch is not None:
        project.git("branch", f"shadow/{branch}")
    lock = project.root / f".git/refs/heads/shadow/{OTHER}.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    os.utime(lock, (0, lock.stat().st_mtime - age_s))
    with locks(project).own_run(RUN, "now"):
        assert lock.exists() == stays


def test_a_gc_that_runs_is_waited_for(project: Project, tmp_path: Path) -> None:
    git = tmp_path / "git"
    shutil.copy2(shutil.which("sleep") or "", git)
    with subprocess.Popen([str(git), "1000"]) as gc:
        (project.root / ".git/gc.pid").write_text(held_by(gc.pid), encoding="utf-8")
        killed = threading.Event()

        def end() -> None:
            killed.set()
            gc.kill()

        ender = threading.Timer(0.2, end)
        ender.start()
        with locks(project).own_run(RUN, "now"):
            assert (killed.is_set(), gc_pid(project)) == (True, held_by(os.getpid()))
        ender.join()


def test_a_gc_that_does_not_end_is_named(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks_module, "_GC_WAIT_S", 0.05)
    git = tmp_path / "git"
    shutil.copy2(shutil.which("sleep") or "", git)
    with subprocess.Popen([str(git), "1000"]) as gc:
        (project.root / ".git/gc.pid").write_text(held_by(gc.pid), encoding="utf-8")
        with pytest.raises(SwarmError) as caught, locks(project).own_run(RUN, "now"):
            pass
        assert (str(gc.pid) in caught.value.message, caught.value.hint) == (True, f"kill {gc.pid}   (or wait for it)")
        gc.kill()
    with locks(project).own_run(RUN, "now"):
        assert gc_pid(project) == held_by(os.getpid())


@pytest.mark.parametrize(("content", "age_s", "taken"), [("{dead}", 0, True), ("", 3600, False)])
def test_a_lock_of_gc_pid_goes_only_when_its_owner_is_dead(
    project: Project, content: str, age_s: int, *, taken: bool
) -> None:
    lock = project.root / ".git/gc.pid.lock"
    with subprocess.Popen(["true"]) as dead:
        pass
    lock.write_text(content.format(dead=held_by(dead.pid), live=held_by(1)), encoding="utf-8")
    os.utime(lock, (0, lock.stat().st_mtime - age_s))
    with locks(project).own_run(RUN, "now"):
        assert (lock.exists(), gc_pid(project) == held_by(os.getpid())) == (not taken, taken)


def test_holding_gc_keeps_the_file_young(project: Project) -> None:
    path = project.root / ".git/gc.pid"
    with locks(project).own_run(RUN, "now"):
        os.utime(path, (0, 0))
        locks(project).hold_gc()
        assert path.stat().st_mtime > 1_000_000_000


def test_a_corrupt_owner_file_hides_nobody(project: Project) -> None:
    with owning(project, RUN):
        (project.root / f".git/swarm/locks/{RUN}.owner").write_text("{", encoding="utf-8")
        assert locks(project).owner(RUN) == Owner(0, "unknown", "")


def test_a_corrupt_owner_file_of_another_run_does_not_keep_gc(project: Project) -> None:
    folder = project.root / ".git/swarm/locks"
    folder.mkdir(parents=True)
    (folder / f"{OTHER}.owner").write_text(json.dumps({"pid": "x"}), encoding="utf-8")
    with locks(project).own_run(RUN, "now"):
        pass
    assert gc_pid(project) is None


def test_the_repository_lock_is_free_again_when_its_holder_fails(project: Project) -> None:
    ours = locks(project)
    with pytest.raises(RuntimeError, match="boom"), ours.repository():
        raise RuntimeError("boom")
    with ours.repository():
        assert Path(project.root / ".git/swarm/locks/repository.lock").exists()
