"""What goes on beside a run: other git commands in tight loops, a clock that jumps, leftovers of killed processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from tests.conftest import Project
from tests.hostile import FLOW, SCRIPT, Stopped, stopped_run
from tests.projects import ask, only_run
from tests.waiting import wait_until

# --- other git commands -----------------------------------------------------------------------------------------

STEPS = 15
LONG = "id: long\nsteps:\n" + "".join(f"  - {{id: s{n}, station: code-implementer}}\n" for n in range(STEPS))
LONG_SCRIPT = "steps:\n" + "".join(
    f"  s{n}: {{write: {{f{n}.txt: '{n}', same.txt: '{n}'}}, delay_ms: 20}}\n" for n in range(STEPS)
)

LOOPS = {
    "gc": "git gc -q --prune=now",
    "pack-refs": "git pack-refs --all --prune",
    "prune": "git prune --expire=now",
    "repack": "git repack -adq",
    "maintenance": "git maintenance run --quiet --task=geometric-repack --task=worktree-prune;"  # of git 2.55
    " git maintenance run --quiet --task=loose-objects --task=incremental-repack --task=commit-graph"
    " --task=pack-refs",
    "status": "cd ../repo.swarm/run-* && git status && git diff --stat",
    "fetch": "git fetch -q ../upstream '+refs/heads/*:refs/remotes/up/*' && git commit-graph write --reachable",
    "everything": "git gc -q --prune=now; git pack-refs --all; (cd ../repo.swarm/* && git status); git repack -adq",
}

USUAL = {"everything", "prune"}


@contextmanager
def looping(project: Project, command: str, done: Path) -> Iterator[None]:
    """A shell that repeats a command in the checkout, and notes in a file that it did."""
    loop = f"while :; do ({command}) >/dev/null 2>&1; echo >> '{done}'; done"
    with subprocess.Popen(
        ["sh", "-c", loop], cwd=project.root, env=dict(project.env), start_new_session=True
    ) as shell:
        wait_until(done.exists, "the first round")
        try:
            yield
        finally:
            os.killpg(shell.pid, 9)


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.soak) for name in LOOPS]
)
def test_a_run_does_not_mind_other_git_commands(project: Project, tmp_path: Path, name: str) -> None:
    project.commit({".swarm/flows/long.yaml": LONG})
    project.git("clone", "-q", "--bare", str(project.root), str(tmp_path / "upstream"))

    with looping(project, LOOPS[name], tmp_path / "rounds"):
        done = project.swarm("start", "long", "--script", project.script(LONG_SCRIPT))

    run = only_run(project)
    assert done.stdout.startswith(f"{run} succeeded: {STEPS} steps")
    project.git("fsck", "--strict", "--no-dangling")
    project.git("rev-list", "--objects", f"shadow/{run}", f"refs/notes/swarm/{run}/events")
    for kind, commits in (("events", STEPS + 2), ("routing", STEPS + 1)):
        noted = project.git("notes", f"--ref=refs/notes/swarm/{run}/{kind}", "list").splitlines()
        assert len(noted) == commits
    assert {f"f{n}.txt" for n in range(STEPS)} < set(project.tree(f"shadow/{run}"))
    assert project.git("status", "--porcelain", cwd=tmp_path / "repo.swarm" / run) == ""
    assert project.git("for-each-ref", f"refs/swarm/{run}/next") == ""


# --- the clock --------------------------------------------------------------------------------------------------


@contextmanager
def clock(start: datetime, step: timedelta) -> Iterator[None]:
    """Every look at the clock is `step` later, or earlier, than the one before."""
    looks = itertools.count()

    def now() -> datetime:
        return start + step * next(looks)

    with ExitStack() as stack:
        for module in ("invocation", "start", "steer"):
            stack.enter_context(mock.patch(f"gitswarm.cli.{module}.now", now))
        yield


@pytest.fixture
def stopped(project: Project) -> Stopped:
    return stopped_run(project)


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(days=400), timedelta(0)])
def test_a_clock_that_jumps_between_any_two_looks_changes_no_order(stopped: Stopped, step: timedelta) -> None:
    with clock(datetime(2026, 1, 1, tzinfo=UTC), step):
        assert stopped.ask("resume", "--until", "two").code == 0
        assert stopped.ask("rollback", "one").code == 0
        assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    assert all(entry["duration_ms"] >= 0 for entry in json.loads(stopped.ask("log", "--json").stdout))
    sequences = [json.loads(line)["seq"] for line in stopped.ask("events", "--json").stdout.splitlines()]
    assert [now for before, now in itertools.pairwise(sequences) if now not in (1, before + 1)] == []


def test_the_newest_run_is_the_one_created_last_whatever_the_clock_says(project: Project) -> None:
    project.commit({".swarm/flows/three.yaml": FLOW})
    created = []
    for year in (2040, 2020, 2020, 2031):
        with clock(datetime(year, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC), timedelta(0)):
            answer = ask(project, "start", "three", "--script", project.script(SCRIPT))
            created.append(answer.stdout.split()[0])
    assert [item["run_id"] for item in json.loads(ask(project, "list", "--json").stdout)] == created[::-1]
    assert ask(project, "status").stdout.split()[0] == created[-1]
    assert [name[:19] for name in created] == ["run-20400228-235959", *["run-20400229-000000"] * 3]


# --- leftovers --------------------------------------------------------------------------------------------------

GONE = "run-20200101-000000-abcdef"
LEFT = [
    f"swarm/inbox/{GONE}",
    f"swarm/journal/{GONE}",
    f"swarm/locks/{GONE}.lock",
    f"swarm/locks/{GONE}.owner",
    f"swarm/logs/{GONE}.log",
    f"swarm/quarantine/{GONE}",
    f"swarm/requests/{GONE}.json",
    "gc.pid.4711",
    "objects/pack/swarm-new-abcdef",
    "objects/tmp_object_git2_abcdef",
]


def leave(stopped: Stopped, name: str, *, old: bool) -> None:
    path = stopped.git_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix or "object" in name:
        path.write_text("{}", encoding="utf-8")
    else:
        path.mkdir()
    if old:
        os.utime(path, (0, 0))


def test_gc_lists_and_removes_what_processes_of_no_run_left(stopped: Stopped) -> None:
    for name in LEFT:
        leave(stopped, name, old=True)
    expected = sorted(LEFT)

    would = stopped.ask("gc", "--dry-run").stdout.splitlines()
    assert sorted(line.removeprefix("would remove  ") for line in would) == expected
    gone = stopped.ask("gc").stdout.splitlines()
    assert sorted(line.removeprefix("removed  ") for line in gone) == expected
    assert stopped.ask("gc").stdout == "nothing to clean up\n"
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()


def test_gc_leaves_what_is_young_and_what_belongs_to_a_run(stopped: Stopped) -> None:
    for name in LEFT:
        leave(stopped, name, old=False)
    for name in ("swarm/quarantine/{run}", "swarm/logs/{run}.log"):
        leave(stopped, name.format(run=stopped.run), old=True)
    assert stopped.ask("gc").stdout == "nothing to clean up\n"


def test_gc_forgets_the_worktree_of_a_run_that_is_gone(stopped: Stopped) -> None:
    git = stopped.project.git
    subprocess.run(["rm", "-rf", str(stopped.worktree)], check=True)
    for ref in git("for-each-ref", "--format=%(refname)", "refs/swarm", "refs/notes", "refs/heads/shadow").split():
        git("update-ref", "-d", ref)
    os.utime(stopped.admin, (0, 0))
    assert f"removed  worktrees/{stopped.run}\n" in stopped.ask("gc").stdout
    assert git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize("state", ["unfilled", "no base", "no set-up", "half a marker"])
def test_a_start_that_was_killed_on_the_way_is_completed_by_resume(stopped: Stopped, state: str) -> None:
    if state == "unfilled":
        for path in stopped.worktree.iterdir():
            if path.name != ".git":
                subprocess.run(["rm", "-rf", str(path)], check=True)
        for name in ("index", "swarm-set-up", "swarm-branch"):
            (stopped.admin / name).unlink()
    elif state == "no base":
        stopped.project.git("update-ref", "-d", f"refs/swarm/{stopped.run}/base")
    else:
        (stopped.admin / "swarm-set-up").rename(stopped.admin / "swarm-set-up.tmp")
        if state == "half a marker":
            (stopped.admin / "swarm-branch").write_bytes(b"")
    assert stopped.ask("status").code == 0
    assert stopped.ask("resume").code == 0
    stopped.assert_whole()
    assert stopped.project.git("rev-parse", f"refs/swarm/{stopped.run}/base") == stopped.project.git(
        "rev-parse", "main"
    )


# --- disk use ---------------------------------------------------------------------------------------------------


def test_list_tells_how_much_room_each_worktree_takes(stopped: Stopped) -> None:
    before = json.loads(stopped.ask("list", "--json").stdout)[0]["disk_bytes"]
    (stopped.worktree / "big.ign").write_bytes(os.urandom(1_000_000))
    os.link(stopped.worktree / "big.ign", stopped.worktree / "twin.ign")
    (stopped.worktree / "loop.ign").symlink_to(stopped.worktree)

    after = json.loads(stopped.ask("list", "--json").stdout)[0]["disk_bytes"]

    assert 1_000_000 <= after - before < 1_200_000


def test_a_run_without_worktree_takes_no_room(stopped: Stopped) -> None:
    subprocess.run(["rm", "-rf", str(stopped.worktree)], check=True)
    assert json.loads(stopped.ask("list", "--json").stdout)[0]["disk_bytes"] is None
