"""A step that takes too much of the machine is ended and reported, and the run can go on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.safety.sandbox.backends import Bubblewrap, Sandbox, find_sandbox
from gitswarm.safety.sandbox.limits import Limits, _parents, _remove_left, find_parent
from tests.conftest import Project
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

MIB = 1 << 20


def _limited(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    def find(env: Mapping[str, str], home: Path | None, *, isolated: bool = False) -> Sandbox:
        found = find_sandbox(env, home, isolated=isolated)
        assert isinstance(found.backend, Bubblewrap)
        return replace(found, backend=replace(found.backend, limits=Limits(**limits)))

    monkeypatch.setattr("gitswarm.runner.containing.find_sandbox", find)


def _failed(project: Project, lines: str) -> str:
    """Why a step that runs these lines failed; the next attempt is fine."""
    script = "steps: {build/implement: [{write: {x.sh: %s}, run: [sh x.sh]}, {write: {fine.txt: x}}]}"
    run = project.start(script % json.dumps(lines), "--until", "implement", code=4)
    receipt = json.loads(project.swarm("show", "implement", "--receipt", "--run", run).stdout)
    assert receipt["status"] == "failed"
    project.swarm("resume", run, "--until", "implement")
    assert "fine.txt" in project.tree(f"shadow/{run}")
    project.swarm("verify", run)
    return str(receipt["error"])


def test_a_step_that_fills_the_disk_is_ended(confined: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _limited(monkeypatch, growth=64 * MIB, reserve=8 * MIB)
    fills = "i=0; while true; do i=$((i+1)); head -c 8000000 /dev/zero > f$i; sleep 0.05; done\n"
    assert " are its limit" in _failed(confined, fills)
    worktree = next((confined.root.parent / "repo.swarm").glob("run-*"))
    assert sum(path.stat().st_size for path in worktree.rglob("*") if path.is_file()) < 16 * MIB


def test_a_step_that_starts_processes_without_end_is_ended(
    confined: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than the machine has beside; the processes only wait, so that other tests go on.
    most = sum(path.name.isdigit() for path in Path("/proc").iterdir()) + 300
    _limited(monkeypatch, processes=most)
    error = _failed(confined, "while true; do sleep 300 & done\n")
    assert error.startswith("ended: it had ")
    assert error.endswith(f" processes, and {most} are its limit")


def test_a_step_that_takes_the_memory_that_is_left_is_ended(
    confined: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limited(monkeypatch, memory=256 * MIB, memory_left=1 << 50)
    error = _failed(confined, "python3 -c 'import time; held = bytearray(400_000_000); time.sleep(60)'\n")
    had = re.match(r"ended: it had (\d+) MiB of memory, and ", error)
    assert had
    assert int(had[1]) >= 256  # it is looked at while it grows


def _backend(project: Project, **limits: int) -> Bubblewrap:
    found = find_sandbox(project.env, Path(project.env["HOME"])).backend
    assert isinstance(found, Bubblewrap)
    return replace(found, limits=Limits(**limits))


def _run(project: Project, backend: Bubblewrap, line: str, timeout_s: float = 60) -> tuple[int | None, str]:
    limits = CommandLimits(timeout_s, containment=backend.opened(write=(project.root,)))
    done = run_shell(line, cwd=project.root, env=project.env, limits=limits)
    return done.exit_code, done.output


def test_folders_in_memory_have_a_size(confined: Project) -> None:
    backend = _backend(confined, temporary=MIB, shared_memory=MIB, home=MIB)
    for folder in ("/tmp", "/dev/shm", "$HOME"):
        code, output = _run(confined, backend, f"head -c 2000000 /dev/zero > {folder}/f")
        assert (code, "No space left" in output) == (1, True), folder
    for folder in ("/", "/run", "/var", "/dev"):
        code, output = _run(confined, backend, f"touch {folder}/f")
        assert (code, "Read-only" in output) == (1, True), folder


def test_a_file_has_a_size_and_no_core_is_dumped(confined: Project) -> None:
    backend = _backend(confined, growth=MIB)
    assert _run(confined, backend, "head -c 2000000 /dev/zero > f; ulimit -c; stat -c %s f")[1].split()[-2:] == [
        "0",
        str(MIB),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel does not limit root")
def test_a_user_has_so_many_processes(confined: Project) -> None:
    backend = _backend(confined, threads=40)
    assert "fork" in _run(confined, backend, "for i in $(seq 100); do sleep 9 & done")[1]


by_group = pytest.mark.skipif(
    os.geteuid() != 0 or find_parent() is None,
    reason="a user is limited without, or no control group can be made here",
)


@by_group
def test_root_has_so_many_processes(confined: Project) -> None:
    backend = _backend(confined, threads=40).grouped("test")
    assert backend.group is not None
    assert "fork" in _run(confined, backend, "for i in $(seq 100); do sleep 9 & done")[1]
    assert not backend.group.folder.exists()


@by_group
def test_every_line_of_a_run_is_in_a_group_that_goes_with_it(confined: Project) -> None:
    run = confined.start("steps: {build/implement: {run: ['grep pids /proc/self/cgroup']}}", "--until", "implement")
    parent = find_parent()
    assert parent is not None
    assert f"{run}.build.implement" in confined.swarm("transcript", "implement").stdout
    assert not list(parent.glob(f"*{run}*"))


def test_groups_of_processes_that_were_killed_are_removed(tmp_path: Path) -> None:
    gone = tmp_path / "git-swarm-999999999-run.build.implement"
    mine = tmp_path / f"git-swarm-{os.getpid()}-run.build.implement"
    gone.mkdir()
    mine.mkdir()
    _remove_left(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]


V1 = "36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
V2 = "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("mounts", "member", "parents"),
    [
        (V1, "8:pids:/a\n7:memory:/b\n0::/\n", ["/sys/fs/cgroup/pids/a"]),
        (V2, "0::/user.slice/x\n", ["/sys/fs/cgroup/user.slice/x"]),
        (V1.replace("pids", "memory"), "8:pids:/a\n", []),
        ("", "0::/\n", []),
    ],
)
def test_where_groups_can_be_made(tmp_path: Path, mounts: str, member: str, parents: list[str]) -> None:
    (tmp_path / "mountinfo").write_text(mounts, encoding="utf-8")
    (tmp_path / "cgroup").write_text(member, encoding="utf-8")
    assert [str(each) for each in _parents(tmp_path)] == parents


def test_there_are_no_privileges_inside(confined: Project) -> None:
    _code, output = _run(confined, _backend(confined), "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
    assert output.split() == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


def test_what_is_left_behind_ends_with_the_command(confined: Project) -> None:
    began = time.monotonic()
    code, _output = _run(confined, _backend(confined), "setsid sh -c 'sleep 3; touch late' & exit 3")
    assert code == 3
    assert time.monotonic() - began < 3
    time.sleep(3.5)
    assert not (confined.root / "late").exists()


def test_a_timeout_reaches_the_program_inside(confined: Project) -> None:
    line = "trap 'echo last word; exit 0' TERM; touch up; while true; do sleep 0.1; done"
    limits = CommandLimits(3, containment=_backend(confined).opened(write=(confined.root,)))
    done = run_shell(line, cwd=confined.root, env=confined.env, limits=limits)
    assert (done.ending, done.output) == (Ending.TIMED_OUT, "last word\n")


def test_a_killed_owner_leaves_nothing(confined: Project) -> None:
    backend = _backend(confined).opened(write=(confined.root,))
    code = f"import subprocess; subprocess.run({backend.wrap(['sh', '-c', 'touch up; sleep 3; touch late'])!r})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=confined.root, env=dict(confined.env)) as owner:
        while not (confined.root / "up").exists():
            time.sleep(0.05)
        owner.kill()
    time.sleep(4)
    assert not (confined.root / "late").exists()
