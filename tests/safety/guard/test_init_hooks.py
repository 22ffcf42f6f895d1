"""`init` beside the hooks that are there: theirs go on as before, the guard comes first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.safety.guard.layouts import (
    BESIDE,
    ELSEWHERE,
    LEFTHOOK,
    PRE_COMMIT,
    RECORD,
    hooks_of,
    husky_9,
    lefthook,
    nothing,
    own,
    pre_commit,
    program,
    recording,
    relative_path,
    snapshot,
    trace_of,
)
from tests.safety.guard.world import World

Layout = Callable[[Project], None]


def is_blocked(world: World, cwd: Path | None = None) -> bool:
    done = world.push("origin", f"{world.shadow}:refs/heads/x", cwd=cwd)
    refused = done.returncode == 1 and "git swarm approve" in done.stderr
    assert refused == ("refs/heads/x" not in world.refs_of(world.upstream)), done.stderr
    return refused


def push_and_take_back(world: World) -> list[str]:
    """What hooks see of an ordinary push, which leaves nothing behind."""
    trace_of(world)
    assert world.push("origin", "main:refs/heads/ordinary").returncode == 0
    seen = trace_of(world)
    world.git("push", "-q", "--no-verify", "origin", ":refs/heads/ordinary")
    return seen


@pytest.mark.parametrize("layout", [*BESIDE, *ELSEWHERE])
def test_a_run_is_blocked_in_any_layout(world: World, layout: Layout) -> None:
    layout(world.project)
    world.init()
    assert is_blocked(world)
    assert trace_of(world) == []


@pytest.mark.parametrize("layout", ELSEWHERE)
def test_hooks_elsewhere_see_exactly_what_they_saw(world: World, layout: Layout) -> None:
    layout(world.project)
    before = push_and_take_back(world)
    world.init()
    assert len(before) > 5
    assert push_and_take_back(world) == before


@pytest.mark.parametrize("layout", BESIDE)
def test_hooks_beside_see_what_they_saw_but_for_their_folder(world: World, layout: Layout) -> None:
    layout(world.project)
    before = push_and_take_back(world)
    world.init()
    after = push_and_take_back(world)
    assert [line.replace("/swarm-chained/", "/") for line in after] == before


@pytest.mark.parametrize("layout", [own, relative_path])
def test_a_hook_that_refuses_still_refuses(world: World, layout: Layout) -> None:
    layout(world.project)
    for path in (hooks_of(world.project) / "pre-push", world.project.root / "tools/hooks/pre-push"):
        if path.exists():
            program(path, "#!/bin/sh\nexit 7\n")
    world.init()
    done = world.push("origin", "main:refs/heads/ordinary")
    assert (done.returncode, "refs/heads/ordinary" in world.refs_of(world.upstream)) == (1, False)


@pytest.mark.parametrize("layout", [*BESIDE, *ELSEWHERE])
def test_undo_restores_every_file(world: World, layout: Layout) -> None:
    layout(world.project)
    before = snapshot(world.project.root.parent)
    world.init()
    assert snapshot(world.project.root.parent) != before
    world.undo()
    assert snapshot(world.project.root.parent) == before


@pytest.mark.parametrize("layout", [nothing, own, husky_9])
def test_init_twice_changes_nothing_more(world: World, layout: Layout) -> None:
    layout(world.project)
    world.init()
    before = snapshot(world.project.root.parent)
    again = world.init()
    assert (again.changes, again.dispatching) == ([], [])
    assert snapshot(world.project.root.parent) == before


def test_hooks_that_are_added_later_run(world: World) -> None:
    husky_9(world.project)
    world.init()
    program(world.project.root / ".husky" / "pre-commit", RECORD.format(name="later"))
    world.git("commit", "-q", "--allow-empty", "-m", "x")
    assert trace_of(world)[0] == "later: .husky/pre-commit"


def test_a_tool_that_sets_the_path_anew_does_not_switch_the_guard_off(world: World) -> None:
    husky_9(world.project)
    world.init()
    program(world.project.root / ".other" / "pre-push", f"#!/bin/sh\n{RECORD.format(name='other')}")
    world.git("config", "core.hooksPath", ".other")
    assert is_blocked(world)
    assert push_and_take_back(world)[0] == "other: .other/pre-push"


def test_pre_commit_installed_later_runs_the_guard_as_its_legacy_hook(world: World) -> None:
    own(world.project)
    world.init()
    hooks = hooks_of(world.project)
    (hooks / "pre-push").rename(hooks / "pre-push.legacy")
    pre_commit_only(world.project)
    assert is_blocked(world)
    world.undo()
    assert [line for line in push_and_take_back(world) if ": " in line] == [
        f"own: {hooks}/pre-push.legacy",
        "pre-commit: .git/hooks/pre-push",
    ]


def pre_commit_only(project: Project) -> None:
    legacy = hooks_of(project) / "pre-push.legacy"
    kept = legacy.read_bytes()
    pre_commit(project)
    legacy.write_bytes(kept)


def test_init_says_so_when_a_tool_overwrote_the_guard(world: World) -> None:
    world.init()
    lefthook(world.project)
    assert not is_blocked(world)
    said = world.project.swarm("init").stdout.splitlines()
    assert "+ .git/hooks/swarm-chained/pre-push  8 lines" in said
    world.git("push", "-q", "--no-verify", "origin", ":refs/heads/x")
    assert is_blocked(world)


def test_init_says_so_when_a_tool_moved_the_hooks_elsewhere(world: World) -> None:
    world.init()
    husky_9(world.project)
    assert not is_blocked(world)
    said = world.project.swarm("init").stdout.splitlines()
    folder = world.project.root / ".git" / "swarm" / "hooks"
    assert f"+ .git/config.worktree  core.hooksPath = {folder}" in said
    world.git("push", "-q", "--no-verify", "origin", ":refs/heads/x")
    assert is_blocked(world)


@pytest.mark.parametrize("layout", [own, husky_9])
def test_worktrees_of_the_user_are_guarded_too(world: World, layout: Layout) -> None:
    layout(world.project)
    world.git("worktree", "add", "-q", "../before")
    world.init()
    world.git("worktree", "add", "-q", "../after")
    assert is_blocked(world, world.project.root.parent / "before")
    assert is_blocked(world, world.project.root.parent / "after")


def test_undo_leaves_a_hook_that_somebody_changed(world: World) -> None:
    own(world.project)
    world.init()
    recording(hooks_of(world.project) / "pre-push", "changed")
    done = world.project.swarm("init", "--undo", code=1)
    assert "left       .git/hooks/pre-push: somebody changed it since\n" in done.stdout
    assert (hooks_of(world.project) / "swarm-chained" / "pre-push").exists()
    assert push_and_take_back(world)[0] == "changed: .git/hooks/pre-push"


def test_undo_brings_back_what_a_tool_put_there_in_between(world: World) -> None:
    world.init()
    lefthook(world.project)
    before = snapshot(hooks_of(world.project))
    world.init()
    undone = world.undo()
    assert undone is not None
    assert undone.left == []
    assert snapshot(hooks_of(world.project)) == before


def as_pre_commit(project: Project) -> None:
    """`pre-commit install`: what is there becomes its legacy hook."""
    hooks = hooks_of(project)
    if (hooks / "pre-push").exists():
        (hooks / "pre-push").rename(hooks / "pre-push.legacy")
    program(hooks / "pre-push", PRE_COMMIT.format(record=RECORD.format(name="pre-commit")))


def as_lefthook(project: Project) -> None:
    """`lefthook install`: what is there is put aside, and never called."""
    hooks = hooks_of(project)
    if (hooks / "pre-push").exists():
        (hooks / "pre-push").rename(hooks / "pre-push.old")
    program(hooks / "pre-push", LEFTHOOK.format(record=RECORD.format(name="lefthook")))


@pytest.mark.parametrize("first", [nothing, own])
@pytest.mark.parametrize(
    "tools", [(as_pre_commit,), (as_lefthook,), (as_pre_commit, as_lefthook)], ids=["pre-commit", "lefthook", "both"]
)
@pytest.mark.parametrize("again", ["again", "not again"])
def test_undo_leaves_the_hooks_as_the_tools_would_have(
    world: World, first: Layout, tools: tuple[Layout, ...], again: str
) -> None:
    """Installed on top of the guard, with `init` repeated after each or not at all."""
    first(world.project)
    start = hooks_of(world.project)
    kept = start.with_name("hooks.kept")
    shutil.copytree(start, kept, symlinks=True)
    for tool in tools:
        tool(world.project)
    wanted = snapshot(start)
    shutil.rmtree(start)
    kept.rename(start)
    world.init()
    for tool in tools:
        tool(world.project)
        if again == "again":
            world.init()
            assert is_blocked(world)
            world.git("push", "-q", "--no-verify", "origin", ":refs/heads/x")
    undone = world.undo()
    if again == "again":
        assert undone is not None
        assert undone.left == []
    assert snapshot(start) == wanted
