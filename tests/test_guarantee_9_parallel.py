"""Guarantee 9: runs never disturb each other, and nobody takes a run out of its owner's hands."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.conftest import Project
from tests.faults import COUNT, STOP
from tests.fingerprint import fingerprint
from tests.unseen import unseen, unseen_line
from tests.waiting import DEADLINE_S, ends_within, wait_until

LOCK_PATIENCE_S = 1.5

FLOW = """\
id: trek
steps:
  - {id: walk, station: walker, teaching: {outputs: [diary.md, "src/**"]}}
  - {id: judge, station: walker, routing: {kind: microloop, loop_target: walk, max_iterations: 3}}
  - {id: check, engine: command, command: {run: "cat src/*.txt"}}
"""
STATION = """\
id: walker
title: Walker
category: implementation
identity: You walk.
invariants: [You walk alone.]
"""
SCRIPT = """\
steps:
  walk:
    - {write: {src/same.txt: "NAME first\\n", RUN_BASE/trek/diary.md: "NAME left\\n"}, delay_ms: 20}
    - {write: {src/NAME.txt: "NAME second\\n", RUN_BASE/trek/diary.md: "NAME arrived\\n"}, delay_ms: 20}
  judge:
    - {status: UNVERIFIED, can_further_iteration_help: "yes", summary: NAME again}
    - {status: VERIFIED, summary: NAME done}
"""
GATED = """\
steps:
  walk:
    - run:
        - echo "walk $SWARM_ITERATION" >> "$SWARM_DOOR/trace"
        - touch "$SWARM_DOOR/reached"
        - while [ ! -e "$SWARM_DOOR/open" ]; do sleep 0.02; done
      write: {src/a.txt: "a\\n"}
"""
"""The step says that it was reached and waits until somebody opens the door."""
DYING = f"""\
steps:
  walk:
    - run:
        - {unseen_line('[ "$SWARM_ITERATION" != 1 ] || kill -9 "$PPID"')}
        - echo "walk $SWARM_ITERATION" >> "$SWARM_DOOR/trace"
        - touch "$SWARM_DOOR/reached"
        - while [ ! -e "$SWARM_DOOR/open" ]; do sleep 0.02; done
      write: {{src/a.txt: "a\\n"}}
"""
"""The same, but the first execution kills its owner."""


@dataclass(frozen=True)
class Door:
    """What a gated step and its test have in common, outside of the repository."""

    folder: Path

    @property
    def trace(self) -> list[str]:
        return (self.folder / "trace").read_text(encoding="utf-8").splitlines()

    def wait(self) -> None:
        wait_until((self.folder / "reached").exists, "the step is reached")

    def open(self) -> None:
        (self.folder / "open").touch()

    def close(self) -> None:
        for name in ("open", "reached"):
            (self.folder / name).unlink(missing_ok=True)


@pytest.fixture
def door(tmp_path: Path, env: dict[str, str]) -> Door:
    """Made before `project`, so that every process gets it in its environment."""
    folder = tmp_path / "door"
    folder.mkdir()
    env["SWARM_DOOR"] = str(folder)
    return Door(folder)


@pytest.fixture
def trail(door: Door, project: Project) -> Project:
    assert project.env["SWARM_DOOR"] == str(door.folder)
    project.commit({".swarm/flows/trek.yaml": FLOW, ".swarm/flows/stations/walker.yaml": STATION}, "the flow")
    return project


@contextmanager
def swarming(project: Project, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The product as a process that goes on while the block is executed; at its end it must have ended."""
    with process_of(project, project.argv(*arguments)) as process:
        yield process


@contextmanager
def process_of(project: Project, argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        argv,
        cwd=project.root,
        env=dict(project.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def answer(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process that ends by itself."""
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def trek_together(project: Project, names: list[str]) -> dict[str, str]:
    """Runs that were started at the same time, by the name that each writes everywhere: name → run id."""
    runs = {}
    with ExitStack() as stack:
        started = {}
        for name in names:
            script = project.root.parent / f"{name}.yaml"
            script.write_text(SCRIPT.replace("NAME", name), encoding="utf-8")
            arguments = ("start", "trek", "-m", name, "--script", str(script), "--json")
            started[name] = stack.enter_context(swarming(project, *arguments))
        for name, process in started.items():
            code, out, err = answer(process)
            assert code == 0, f"{name}: {err}"
            (runs[name],) = {json.loads(line)["run_id"] for line in out.splitlines()}
    return runs


def contents(project: Project, revision: str) -> dict[str, str]:
    """Path → text of every code file in a commit."""
    return {name: project.git("show", f"{revision}:{name}") for name in project.tree(revision)}


def check_trek(project: Project, name: str, run: str) -> None:
    """A run is exactly what its own script says."""
    expected = contents(project, "main") | {"src/same.txt": f"{name} first", f"src/{name}.txt": f"{name} second"}
    assert contents(project, f"shadow/{run}") == expected
    diary = f".swarm/runs/{run}/trek/diary.md"
    assert project.git("show", f"shadow/{run}:{diary}") == f"{name} arrived"
    assert project.git("ls-tree", "--name-only", f"shadow/{run}:.swarm/runs") == run
    log = project.json("log", run)
    assert [(entry["step"], entry["status"]) for entry in log] == [
        ("walk", "VERIFIED"),
        ("judge", "UNVERIFIED"),
        ("walk", "VERIFIED"),
        ("judge", "VERIFIED"),
        ("check", "VERIFIED"),
    ]
    told = project.swarm("events", run, "--json").stdout.splitlines()
    assert {json.loads(line)["run_id"] for line in told} == {run}
    worktree = project.root.parent / "repo.swarm" / run
    assert project.git("status", "--porcelain", cwd=worktree) == ""


def check_together(project: Project, names: list[str]) -> None:
    before = fingerprint(project.root)
    runs = trek_together(project, names)
    after = fingerprint(project.root)
    assert after.entries == before.entries
    assert before.objects <= after.objects
    assert len(set(runs.values())) == len(names)
    branches = project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").splitlines()
    assert branches == sorted(["main", *(f"shadow/{run}" for run in runs.values())])
    for name, run in runs.items():
        check_trek(project, name, run)
    assert not (project.root / ".git" / "gc.pid").exists()
    assert project.git("fsck", "--full", "--strict", "--no-dangling") == ""


def test_four_runs_at_once_all_finish_and_nothing_of_one_is_in_another(trail: Project) -> None:
    check_together(trail, ["ann", "ben", "cid", "dot"])


@pytest.mark.soak
def test_sixteen_runs_at_once_all_finish_and_nothing_of_one_is_in_another(trail: Project) -> None:
    check_together(trail, [f"walker{number}" for number in range(16)])


def test_resume_of_a_live_run_is_refused_and_names_its_owner(trail: Project, door: Door) -> None:
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))) as owner:
        door.wait()
        refused = trail.swarm("resume", code=1)
        run = trail.json("list")[0]["run_id"]
        door.open()
        assert answer(owner)[0] == 0
    when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    who = f"process {owner.pid} on {re.escape(socket.gethostname())} since {when}"
    assert refused.stdout == ""
    assert re.fullmatch(f"git-swarm: {run} is executed by {who}\nhint: git swarm status {run}\n", refused.stderr), (
        refused.stderr
    )
    assert door.trace == ["walk 1"]


def test_a_live_run_reads_as_running(trail: Project, door: Door) -> None:
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))) as owner:
        door.wait()
        status = trail.json("status")
        door.open()
        assert answer(owner)[0] == 0
    assert (status["state"], status["current_step"], status["steps_completed"]) == ("running", "walk", 0)
    assert trail.json("status")["state"] == "succeeded"


def test_a_live_run_whose_agent_commits_by_itself_reads_as_running(trail: Project, door: Door) -> None:
    script = GATED.replace("        - touch", "        - git commit -q --allow-empty -m mine\n        - touch", 1)
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(script))) as owner:
        door.wait()
        listed = trail.swarm("list", "--json")
        door.open()
        assert answer(owner)[0] == 0
    assert [run["state"] for run in json.loads(listed.stdout)] == ["running"]


def test_a_foreign_gc_waits_while_a_run_is_live(trail: Project, door: Door) -> None:
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))) as owner:
        door.wait()
        refused = subprocess.run(
            ["git", "gc", "--prune=now"],
            cwd=trail.root,
            env=dict(trail.env),
            capture_output=True,
            text=True,
            check=False,
        )
        door.open()
        assert answer(owner)[0] == 0
    host = socket.gethostname()
    assert (refused.returncode, refused.stderr) == (
        128,
        f"fatal: gc is already running on machine '{host}' pid {owner.pid} (use --force if not)\n",
    )


def test_gc_waits_until_the_last_of_two_runs_has_ended(trail: Project, door: Door) -> None:
    gc_pid = trail.root / ".git" / "gc.pid"
    other = trail.root.parent / "free.yaml"
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))) as owner:
        door.wait()
        other.write_text(SCRIPT.replace("NAME", "ann"), encoding="utf-8")
        trail.swarm("start", "trek", "--script", str(other))
        held_by = gc_pid.read_text(encoding="utf-8")
        door.open()
        assert answer(owner)[0] == 0
    assert held_by == f"{owner.pid} {socket.gethostname()}\n"
    assert not gc_pid.exists()


def test_gc_is_handed_to_the_run_that_still_lives(trail: Project, door: Door) -> None:
    """The owner that holds gc ends first: it must not let go for the other one."""
    gc_pid = trail.root / ".git" / "gc.pid"
    second = door.folder / "second"
    second.mkdir()
    with ExitStack() as stack:
        first = stack.enter_context(swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))))
        door.wait()
        late = Project(trail.root, {**trail.env, "SWARM_DOOR": str(second)})
        later = stack.enter_context(swarming(late, "start", "trek", "--script", late.script(unseen(GATED))))
        Door(second).wait()
        door.open()
        assert answer(first)[0] == 0
        held_by = gc_pid.read_text(encoding="utf-8")
        Door(second).open()
        assert answer(later)[0] == 0
    assert held_by == f"{later.pid} {socket.gethostname()}\n"
    assert not gc_pid.exists()


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_gc_is_not_left_with_a_run_that_is_just_ending(trail: Project, door: Door, every: int) -> None:
    """The other run ends, and looks for somebody to hand gc to, at every, or every eighth, moment of our own end."""
    script = trail.root.parent / "free.yaml"
    script.write_text(SCRIPT.replace("NAME", "ann"), encoding="utf-8")
    start = ("start", "trek", "--script", str(script))
    moments: dict[int, bool] = {}
    with swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))) as other:
        door.wait()
        points = faulty(trail, COUNT, *start).splitlines()
        door.open()
        assert answer(other)[0] == 0
    ending = len(points) - [name.partition(" ")[2] for name in points[::-1]].index("after Indexes.align")
    for point in range(ending + 1, len(points) + 1, every):
        moments[point] = ends_beside_a_holder(trail, door, f"{point}{STOP}", *start)
    assert moments
    assert not any(moments.values()), f"gc.pid was left behind at {moments}"


def ends_beside_a_holder(trail: Project, door: Door, point: str, *start: str) -> bool:
    """A run stops at a point of its end, the one that holds gc ends, the first goes on. Whether gc stays held."""
    door.close()
    with ExitStack() as stack:
        other = stack.enter_context(swarming(trail, "start", "trek", "--script", trail.script(unseen(GATED))))
        door.wait()
        argv = [sys.executable, "-m", "tests.faults", point, *start]
        ours = stack.enter_context(process_of(trail, argv))
        wait_until(lambda: psutil.Process(ours.pid).status() == psutil.STATUS_STOPPED, f"stopped at {point}")
        door.open()
        ends_within(other, LOCK_PATIENCE_S)  # it cannot, while ours is stopped with a lock in its hands
        ours.send_signal(signal.SIGCONT)
        assert [answer(process)[0] for process in (ours, other)] == [0, 0]
    return (trail.root / ".git" / "gc.pid").exists()


def faulty(trail: Project, *arguments: str) -> str:
    with process_of(trail, [sys.executable, "-m", "tests.faults", *arguments]) as process:
        code, out, err = answer(process)
    assert code == 0, err
    return out


def test_after_a_run_gc_keeps_everything_of_it(trail: Project) -> None:
    run = trail.start(SCRIPT, flow="trek")
    log = trail.json("log", run)
    trail.git("gc", "-q", "--prune=now")
    assert trail.json("log", run) == log
    assert trail.git("fsck", "--full", "--strict", "--no-dangling") == ""


def test_of_two_resumes_at_once_exactly_one_works(trail: Project, door: Door) -> None:
    start = trail.argv("start", "trek", "--script", trail.script(unseen(DYING)))
    killed = subprocess.run(start, cwd=trail.root, env=dict(trail.env), capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    with ExitStack() as stack:
        both = [stack.enter_context(swarming(trail, "resume")) for _ in range(2)]
        wait_until(lambda: any(ends_within(process, 0) for process in both), "one of the two is refused")
        (refused,) = [process for process in both if process.poll() is not None]
        (working,) = [process for process in both if process is not refused]
        code, out, err = answer(refused)
        door.open()
        assert answer(working)[0] == 0
    assert (code, out) == (1, "")
    assert f"is executed by process {working.pid} on {socket.gethostname()}" in err
    assert door.trace == ["walk 2"]
    assert [entry["step"] for entry in trail.json("log")] == ["walk", "judge", "check"]
