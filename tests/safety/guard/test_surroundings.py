"""Nothing around the guard changes its answer: shells, configuration, environment, odd repositories."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gitswarm.resources import bundled
from tests.conftest import Project
from tests.safety.guard.test_init_hooks import is_blocked
from tests.safety.guard.world import World, guard_pushes, guard_upstream
from tests.test_layers import wheel

__all__ = ["wheel"]

SHELLS = (("dash",), ("bash",), ("bash", "--posix"), ("busybox", "sh"))
CONFIG = (
    "core.commentChar=S",
    "core.commentString=Swarm",
    "trailer.separators==",
    "trailer.separators=#",
    "trailer.see.key=Swarm-Landed",
    "i18n.logOutputEncoding=UTF-16",
    "i18n.commitEncoding=latin1",
    "log.showSignature=true",
    "log.follow=true",
    "log.mailmap=false",
    "log.date=format:%n",
    "color.ui=always",
    "color.diff=always",
    "core.quotePath=false",
    "core.abbrev=40",
    "format.pretty=oneline",
    "diff.renames=copies",
    "diff.noprefix=true",
    "diff.orderFile=/dev/null",
    "diff.ignoreSubmodules=all",
    "diff.external=false",
    "grep.patternType=perl",
    "notes.displayRef=refs/notes/*",
    "core.notesRef=refs/notes/swarm",
    "core.pager=false",
    "pager.rev-list=false",
    "alias.rev-list=!false",
    "alias.diff-tree=!false",
    "core.useReplaceRefs=true",
    "core.literalPathspecs=true",
    "swarm.hub=",
    "push.followTags=true",
)
ENVIRONMENTS: tuple[Mapping[str, str], ...] = (
    {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "swarm.hub", "GIT_CONFIG_VALUE_0": "origin"},
    {"GIT_CONFIG_PARAMETERS": "'swarm.hub=origin'"},
    {"GIT_GLOB_PATHSPECS": "1"},
    {"GIT_ICASE_PATHSPECS": "1"},
    {"GIT_NOTES_REF": "refs/notes/x"},
    {"GIT_NOTES_DISPLAY_REF": "refs/notes/*"},
    {"GIT_EXTERNAL_DIFF": "false"},
    {"GIT_PAGER": "false", "PAGER": "false"},
    {"GIT_TRACE": "1"},
    {"GIT_REPLACE_REF_BASE": "refs/heads/"},
    {"GIT_DIFF_OPTS": "--unified=0"},
    {"GIT_REF_PARANOIA": "0"},
    {"GIT_DEFAULT_HASH": "sha256"},
    {"LANG": "de_DE.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
    {"CDPATH": "/tmp", "IFS": "s"},
    {"name": "x", "run": "x", "lines": "x", "range": "x", "hubs": "origin", "landed": "x"},
    {"POSIXLY_CORRECT": "1"},
)


def alone_or_together(settings: Sequence[str]) -> list[Any]:
    """Eight at once in every run; each by itself in the soak."""
    together = [pytest.param(settings[at::4], id=f"a quarter, {at}") for at in range(4)]
    return [*together, *(pytest.param([each], id=each, marks=pytest.mark.soak) for each in settings)]


def both_answers(world: World) -> None:
    """What is blocked stays blocked; what was landed, with evidence and by merge, passes."""
    assert is_blocked(world)
    world.land("merge")
    done = world.push("origin", "main:refs/heads/landed")
    assert done.returncode == 0, done.stderr
    world.land("evidence")
    done = world.push("origin", "main:refs/heads/evidence")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_answer_is_the_same_in_every_shell(world: World, shell: tuple[str, ...]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    hook = world.project.root / ".git" / "hooks" / "pre-push"
    guard_pushes(world)
    hook.rename(hook.with_name("guard"))
    hook.write_text(f'#!/bin/sh\nexec {" ".join(shell)} .git/hooks/guard "$@"\n', encoding="utf-8")
    hook.chmod(0o755)
    both_answers(world)


@pytest.mark.parametrize("settings", alone_or_together(CONFIG))
def test_configuration_does_not_change_the_answer(world: World, settings: Sequence[str]) -> None:
    guard_pushes(world)
    world.land("squash")
    for name, _equals, value in (setting.partition("=") for setting in settings):
        world.git("config", name, value)
    assert is_blocked(world)
    done = world.push("origin", "main:refs/heads/landed")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("more", ENVIRONMENTS, ids=" ".join)
def test_the_environment_does_not_change_the_answer(world: World, more: Mapping[str, str]) -> None:
    guard_pushes(world)
    both_answers(World(Project(world.project.root, {**world.project.env, **more}), world.run))


def test_replaced_objects_do_not_hide_a_step(world: World) -> None:
    guard_pushes(world)
    for step in world.steps():
        world.git("replace", step, world.git("commit-tree", "main^{tree}", "-p", "main", stdin=f"harmless {step}\n"))
    assert is_blocked(world)


def test_grafts_do_not_hide_a_step(world: World) -> None:
    guard_pushes(world)
    tip = world.git("rev-parse", world.shadow)
    world.project.write({".git/info/grafts": f"{tip} {world.git('rev-parse', 'main')}\n"})
    assert is_blocked(world)


def shallow(world: World, tmp_path: Path, source: str) -> World:
    """A clone of one commit of the user's repository, guarded; origin is the upstream."""
    folder = tmp_path / "shallow"
    world.git(
        "clone", "-q", "--depth=1", "--no-tags", f"--branch={source}", f"file://{world.project.root}", str(folder)
    )
    clone = World(Project(folder, world.project.env), world.run)
    clone.git("remote", "remove", "origin")
    clone.git("remote", "add", "origin", str(world.upstream))
    guard_pushes(clone)
    return clone


def test_a_shallow_clone_blocks_a_run(world: World, tmp_path: Path) -> None:
    clone = shallow(world, tmp_path, world.shadow)
    done = clone.push("origin", "HEAD:refs/heads/x")
    assert (done.returncode, "git swarm approve" in done.stderr) == (1, True)


def test_a_shallow_clone_lets_ordinary_work_on_landed_evidence_pass(world: World, tmp_path: Path) -> None:
    world.land("evidence")
    world.project.commit({"later.txt": ""}, "later")
    world.git("push", "-q", "--no-verify", str(world.upstream), "main")
    clone = shallow(world, tmp_path, "main")
    clone.project.commit({"mine.txt": ""}, "mine")
    done = clone.push("origin", "HEAD:refs/heads/x")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["refs/heads/ä/ö", "refs/heads/-x", "refs/heads/a'b", "refs/heads/$(false)", "refs/x/y"]
)
def test_odd_names_of_refs_change_nothing(world: World, name: str) -> None:
    guard_pushes(world)
    world.git("update-ref", name, world.shadow)
    blocked = world.push("origin", f"{name}:{name}")
    world.git("update-ref", name, "main")
    passed = world.push("origin", f"{name}:{name}")
    assert (blocked.returncode, passed.returncode) == (1, 0), passed.stderr


def test_odd_names_of_remotes_change_nothing(world: World) -> None:
    guard_pushes(world)
    world.git("remote", "rename", "origin", "team/it's")
    assert world.push("team/it's", world.shadow).returncode == 1
    assert world.push("team/it's", "main").returncode == 0


def test_the_guard_is_asked_in_a_linked_worktree_and_in_a_subfolder(world: World) -> None:
    guard_pushes(world)
    world.git("worktree", "add", "-q", "../linked")
    assert is_blocked(world, world.upstream.parent / "linked" / "src")


def damage(world: World) -> None:
    """An object of the user's own history is gone."""
    gone = world.git("rev-parse", "main~1")
    world.git("pack-refs", "--all")
    (world.project.root / ".git" / "objects" / gone[:2] / gone[2:]).unlink()


def judged(world: World, tip: str) -> subprocess.CompletedProcess[str]:
    line = f"refs/heads/x {tip} refs/heads/x {'0' * 40}\n"
    hook = [str(bundled("hooks") / "pre-push"), "elsewhere", "../elsewhere.git"]
    return subprocess.run(
        hook,
        cwd=world.project.root,
        env=dict(world.project.env),
        input=line,
        capture_output=True,
        text=True,
        check=False,
    )


def test_when_git_fails_nothing_leaves_a_repository_with_runs(world: World) -> None:
    damage(world)
    done = judged(world, world.git("rev-parse", "main"))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "hint: git fsck")


def test_when_git_fails_a_repository_without_runs_is_not_held_up(world: World) -> None:
    tip = world.git("rev-parse", "main")
    for name in world.git(
        "for-each-ref", "--format=%(refname)", "refs/swarm", "refs/notes", "refs/heads/shadow"
    ).split():
        world.git("update-ref", "-d", name)
    damage(world)
    assert judged(world, tip).returncode == 0


def test_what_is_refused_is_said(world: World) -> None:
    guard_pushes(world)
    run, first, second, third = world.steps()
    short = [world.git("rev-parse", "--short", commit) for commit in (third, second, first)]
    done = world.push("origin", world.shadow)
    subjects = [world.git("log", "-1", "--format=%s", commit) for commit in (third, second, first)]
    assert run
    lines = done.stderr.splitlines()
    assert lines[0] == "git-swarm: origin would get 4 commit(s) of a run that were neither approved nor landed:"
    assert [lines[1], lines[3], lines[5]] == [f"  {a} {b}" for a, b in zip(short, subjects, strict=True)]
    assert lines[4] == f"      run {world.run}, step polish"
    assert lines[7:10] == [
        "  and 1 more",
        f"hint: git swarm approve {world.run} && git swarm land {world.run}",
        "hint: or name a remote that runs may go to: git config --add swarm.hub REMOTE",
    ]


def test_above_an_approval_it_is_said_what_may_go(world: World) -> None:
    guard_pushes(world)
    approved = world.steps()[2]
    world.git("update-ref", f"refs/swarm/{world.run}/approval", approved)
    short = world.git("rev-parse", "--short", approved)
    hints = [line for line in world.push("origin", world.shadow).stderr.splitlines() if line.startswith("hint: ")]
    command = f"git push REMOTE {short}:refs/heads/NAME"
    assert hints[0] == f"hint: {command}   (of {world.run} that was approved, and nothing above it)"
    assert world.push(*command.replace("REMOTE", "origin").replace("NAME", "x").split()[2:]).returncode == 0


def test_a_server_says_what_it_refuses(world: World) -> None:
    guard_upstream(world)
    done = world.push("origin", world.shadow)
    said = [line.removeprefix("remote: ").strip() for line in done.stderr.splitlines()]
    assert (
        said[0] == "git-swarm: this repository would get 4 commit(s) of a run that were neither approved nor landed:"
    )


@pytest.mark.parametrize(("land", "code"), [("squash", 0), ("merge", 0), ("evidence", 0), ("", 1)])
def test_a_check_in_ci_judges_what_a_request_brings(world: World, land: str, code: int) -> None:
    base = world.git("rev-parse", "main")
    head = world.land(land) if land else world.git("rev-parse", world.shadow)
    line = f"HEAD {head} refs/heads/x {base}\n"
    argv = ["sh", str(bundled("hooks") / "pre-push"), ".", "."]
    done = subprocess.run(
        argv, cwd=world.project.root, env=dict(world.project.env), input=line, text=True, check=False
    )
    assert done.returncode == code


def test_both_hooks_are_one_file() -> None:
    folder = Path(__file__).parents[3] / "hooks"
    assert ((folder / "pre-receive").is_symlink(), (folder / "pre-receive").readlink()) == (True, Path("pre-push"))


def test_the_hooks_are_in_the_wheel_and_can_be_executed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        found = {
            name.rpartition("/")[2]: (packed.read(name), packed.getinfo(name).external_attr >> 16 & 0o111)
            for name in packed.namelist()
            if name.startswith("gitswarm/_bundled/hooks/")
        }
    expected = {path.name: (path.read_bytes(), 0o111) for path in bundled("hooks").iterdir()}
    assert found == expected
