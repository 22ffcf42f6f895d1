"""A store that is locked, full, read-only, or has something in the way."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gitswarm.git import packing as packing_module
from gitswarm.git import process as process_module
from gitswarm.git import refs as refs_module
from gitswarm.ledger import journal as journal_module
from gitswarm.worktree.run_folder import RunFolder
from tests.conftest import Project
from tests.hostile import FLOW, Stopped, stopped_run
from tests.unseen import unseen_line


@pytest.fixture
def stopped(project: Project) -> Stopped:
    return stopped_run(project)


# --- locks ------------------------------------------------------------------------------------------------------

OWN = [
    "worktrees/{run}/index.lock",
    "worktrees/{run}/HEAD.lock",
    "refs/heads/shadow/{run}.lock",
    "refs/notes/swarm/{run}/events.lock",
    "refs/notes/swarm/{run}/routing.lock",
    "refs/swarm/{run}/next.lock",
]
SHARED = ["packed-refs.lock", "index.lock", "HEAD.lock", "config.lock"]


@pytest.mark.parametrize("name", OWN)
def test_a_stale_lock_that_only_the_run_writes_is_removed(stopped: Stopped, name: str) -> None:
    (stopped.git_dir / name.format(run=stopped.run)).touch()
    assert stopped.ask("status").code == 0
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


@pytest.mark.parametrize("name", SHARED)
def test_a_stale_lock_that_is_shared_stays_and_is_not_needed(stopped: Stopped, name: str) -> None:
    lock = stopped.git_dir / name
    lock.touch()
    os.utime(lock, (0, 0))
    assert stopped.ask("resume").code == 0
    assert lock.exists()
    lock.unlink()
    stopped.assert_whole()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for in the product; not so long here."""
    monkeypatch.setattr(refs_module, "_LOCK_WAIT_S", 0.05)
    monkeypatch.setattr(process_module, "_LOCK_WAIT_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_shared_lock_that_is_needed_is_named_with_its_age_and_the_command_that_removes_it(stopped: Stopped) -> None:
    stopped.project.git("pack-refs", "--all")
    lock = stopped.git_dir / "packed-refs.lock"
    lock.touch()
    os.utime(lock, (0, lock.stat().st_mtime - 3 * 3600))

    answer = stopped.refused("discard", stopped.run)

    message, hint = answer.stderr.splitlines()
    assert message.startswith("git-swarm: cannot move refs/")
    assert message.endswith(f": {lock} is in the way, 3 h old")
    assert hint == f"hint: rm {lock}   (if no git command is running)"
    assert lock.exists()
    assert stopped.obey(answer).code == 0
    assert stopped.ask("discard", stopped.run).code == 0
    assert stopped.ask("discard", "--restore", stopped.run).code == 0
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


# --- in the way -------------------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_our_folder_is_moved_aside_by_the_hint(stopped: Stopped) -> None:
    folder = stopped.git_dir / "swarm"
    shutil.rmtree(folder)
    folder.write_text("precious", encoding="utf-8")
    assert stopped.ask("status").code == 0
    answer = stopped.refused("resume")
    assert answer.stderr == (
        f"git-swarm: Not a directory: {folder}/locks\nhint: mv {folder} {folder}.old && git swarm resume\n"
    )
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()
    assert (stopped.git_dir / "swarm.old").read_text(encoding="utf-8") == "precious"


def test_a_file_in_the_place_of_the_branches_folder_is_moved_aside_by_the_hint(stopped: Stopped) -> None:
    stopped.project.git("pack-refs", "--all")
    folder = stopped.git_dir / "refs" / "heads" / "shadow"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("", encoding="utf-8")
    answer = stopped.refused("resume")
    (stopped.git_dir / "refs/heads/shadow").replace(stopped.git_dir / "out-of-refs")
    assert f"mv {folder} {folder}.old" in answer.stderr
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


def test_an_object_store_that_takes_nothing_loses_nothing(stopped: Stopped) -> None:
    packs, aside = stopped.git_dir / "objects" / "pack", stopped.git_dir / "packs"
    stopped.project.unpack()
    packs.rename(aside)
    packs.touch()
    answer = stopped.refused("resume")
    assert "object" in answer.stderr
    packs.unlink()
    aside.rename(packs)
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


# --- no space ---------------------------------------------------------------------------------------------------

FULL = "git-swarm: the disk is full: "
AGAIN = re.compile(r"hint: git swarm resume( run-[-0-9a-f]+)?   \(when there is room again: df -h\)")


@contextmanager
def failing(owner: Any, name: str, error: Exception, when: Callable[..., bool]) -> Iterator[list[int]]:
    """While it lasts, calls of `owner.name` for which `when` holds fail; how many did."""
    original = getattr(owner, name)
    count = [0]

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when(*args, **kwargs):
            count[0] += 1
            raise error
        return original(*args, **kwargs)

    with mock.patch.object(owner, name, wrapped):
        yield count


def no_space(*args: object) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *args)


class _FullJournal:
    """`os` as the journal sees it: the disk takes half of the n-th line and then nothing."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._torn = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, file: int, line: bytes) -> int:
        self._left -= 1
        if self._left > 0:
            return os.write(file, line)
        if self._torn:
            raise no_space()
        self._torn = True
        return os.write(file, line[: len(line) // 2])


@pytest.mark.parametrize("line", [1, 3, 6, *(pytest.param(each, marks=pytest.mark.soak) for each in (2, 4, 5))])
def test_a_disk_that_fills_up_while_journalling_fails_no_step(
    stopped: Stopped, monkeypatch: pytest.MonkeyPatch, line: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "os", _FullJournal(line))
        answer = stopped.refused("resume")
    assert answer.stderr.splitlines()[-2].startswith(FULL)
    assert AGAIN.fullmatch(answer.stderr.splitlines()[-1])
    assert stopped.ask("events", "--json").code == 0
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_disk_that_fills_up_while_objects_are_written(stopped: Stopped, number: int) -> None:
    calls = iter(range(1000))
    error = no_space()
    with failing(packing_module, "_put", error, lambda *_a, **_o: next(calls) + 1 >= number):
        answer = stopped.refused("resume")
    message, hint = answer.stderr.splitlines()[-2:]
    assert message == f"{FULL}cannot write to the object store: {error}"
    assert AGAIN.fullmatch(hint)
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


def test_a_disk_that_fills_up_while_the_run_folder_is_written(stopped: Stopped) -> None:
    with failing(RunFolder, "write", no_space(), lambda *_a: True):
        answer = stopped.refused("resume")
    assert AGAIN.fullmatch(answer.stderr.splitlines()[-1])
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


@pytest.mark.parametrize("verb", ["add -A", "read-tree", "worktree"])
def test_a_disk_that_fills_up_while_git_works(stopped: Stopped, tmp_path: Path, verb: str) -> None:
    real = shutil.which("git", path=stopped.project.env["PATH"])
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    said = "fatal: unable to write new index file: No space left on device"
    fake.write_text(
        f"#!/bin/sh\ncase \" $* \" in *' {verb} '*) echo '{said}' >&2; exit 128;; esac\nexec {real} \"$@\"\n"
    )
    fake.chmod(0o755)
    shutil.rmtree(stopped.worktree)
    path = f"{fake.parent}{os.pathsep}{stopped.project.env['PATH']}"
    full = Stopped(
        Project(stopped.project.root, {**stopped.project.env, "PATH": path}), stopped.run, stopped.worktree
    )

    answer = full.refused("resume")

    message, hint = answer.stderr.splitlines()[-2:]
    assert message == f"{FULL}git {verb.split(maxsplit=1)[0]} failed: {said}"
    assert AGAIN.fullmatch(hint)
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()


def in_namespace(script: str, *arguments: str) -> list[str]:
    """A shell script that may mount, in a mount namespace of its own; the test is skipped where there is none."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    can = shutil.which("unshare") and subprocess.run([*unshare, "true"], capture_output=True, check=False)
    if not can or can.returncode != 0:
        pytest.skip("no mount namespace for this user: the tests above inject what the system would say")
    return [*unshare, "sh", "-euc", script, "sh", *arguments]


ON_A_SMALL_DISK = """\
mount -t tmpfs -o size=3m none "$1"
cd "$1"
git init -q repo
cd repo
mkdir -p .swarm/flows
cp "$2" .swarm/flows/three.yaml
git add -A
git commit -q -m first
set +e
swarm() { "$PYTHON" -m gitswarm "$@" 2>&1; echo "exit $?"; }
swarm start three --script "$3"
swarm resume
rm "$1/fill"
swarm resume
git fsck --strict --no-dangling
git log --format=%s "shadow/$(ls ../repo.swarm)"
"""


def test_a_disk_that_is_really_full(project: Project, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "flow").write_text(FLOW, encoding="utf-8")
    fill = "test -e ../../filled || { touch ../../filled; cat /dev/zero > ../../fill; }"
    script = project.script(
        f"steps:\n  two: {{write: {{b.txt: '2'}}, run: ['{unseen_line(fill)}'], summary: second}}\n"
    )
    done = subprocess.run(
        in_namespace(ON_A_SMALL_DISK, str(disk), str(tmp_path / "flow"), script),
        env={**project.env, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    ends = [line for line in lines if line.startswith(("exit ", FULL))]
    assert [line.split(":")[1] if line.startswith(FULL) else line for line in ends] == [
        " the disk is full",
        "exit 1",
        " the disk is full",
        "exit 1",
        "exit 0",
    ], done
    assert lines[-6:-1] == [
        "run succeeded: the flow is complete",
        "three/three: ok",
        "three/two: second",
        "three/one: ok",
        "run three",
    ], done


# --- read-only --------------------------------------------------------------------------------------------------

READ_ONLY = """\
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
cd "$2"
shift 2
exec "$PYTHON" -m gitswarm "$@"
"""


def read_only(stopped: Stopped, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = in_namespace(READ_ONLY, str(stopped.git_dir), str(stopped.project.root), *arguments)
    env = {**stopped.project.env, "PYTHON": sys.executable}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", ["resume", "rollback one", "discard {run}", "stop", "start three"])
def test_a_read_only_repository_refuses_what_changes_it(stopped: Stopped, arguments: str) -> None:
    done = read_only(stopped, *arguments.format(run=stopped.run).split())
    message, hint = done.stderr.splitlines()[-2:]
    assert (done.returncode, message[:38]) == (1, "git-swarm: the file system is read-onl"), done
    typed = arguments.format(run=stopped.run)
    assert hint == f"hint: git swarm {typed}   (when this user may write there again)"
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


@pytest.mark.parametrize("arguments", ["status", "log", "list", "show", "events", "path", "transcript"])
def test_a_read_only_repository_can_be_read(stopped: Stopped, arguments: str) -> None:
    done = read_only(stopped, arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere: the tests above mount it read-only")
def test_a_repository_that_the_user_may_not_write_to(stopped: Stopped) -> None:
    folders = [path for path in (stopped.git_dir, *stopped.git_dir.rglob("*")) if path.is_dir()]
    for path in folders:
        path.chmod(0o500)
    try:
        answer = stopped.refused("resume")
    finally:
        for path in folders:
            path.chmod(0o700)
    assert "ermission denied" in answer.stderr
    assert stopped.obey(answer).code == 0
    stopped.assert_whole()
