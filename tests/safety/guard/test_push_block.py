"""From the worktree of a run nothing is pushed, whatever the remote, the spelling and the environment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest

from gitswarm.worktree.push_block import plan_block, render
from tests.conftest import Project
from tests.safety.guard.layouts import snapshot
from tests.safety.guard.world import SCRIPT, World

Arrange = Callable[[World], object]


@pytest.fixture
def world(world: World) -> World:
    """With remotes that can be reached from any folder."""
    world.git("remote", "set-url", "origin", str(world.upstream))
    world.git("remote", "set-url", "hub", str(world.hub))
    return world


@pytest.fixture
def closed(world: World) -> World:
    """After `init`, with a run that was started then."""
    world.init()
    world.worktree()
    return world


def newest_worktree(world: World) -> Path:
    """That of the newest run."""
    return world.project.worktree(str(world.project.json("list")[0]["run_id"]))


def push_from(folder: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["git", "push", *arguments]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)


def refuses(world: World, folder: Path, *arguments: str) -> bool:
    """Whether a push fails and no bare repository gets anything."""
    remotes = (world.upstream, world.hub)
    before = [world.refs_of(remote) for remote in remotes]
    clean = {name: world.project.env[name] for name in ("HOME", "PATH")}
    done = push_from(folder, clean, *arguments)
    assert [world.refs_of(remote) for remote in remotes] == before
    return done.returncode != 0


def pushurl_of_its_own(world: World) -> None:
    world.git("config", "remote.origin.pushurl", f"{world.upstream.parent}/./origin.git")


def pushurl_like_the_url(world: World) -> None:
    world.git("config", "remote.origin.url", str(world.upstream))
    world.git("config", "remote.origin.pushurl", str(world.upstream))


def pushurl_behind_an_alias(world: World) -> None:
    world.git("config", "--global", f"url.{world.upstream.parent}/.insteadOf", "home:")
    world.git("config", "remote.origin.pushurl", "home:origin.git")


def several_pushurls(world: World) -> None:
    world.git("config", "remote.origin.pushurl", str(world.upstream))
    world.git("config", "--add", "remote.origin.pushurl", str(world.hub))


def longer_prefix(world: World) -> None:
    """A rule of the user's that is longer than our empty one."""
    world.git("config", "--global", f"url.file://{world.upstream.parent}/.pushInsteadOf", f"{world.upstream.parent}/")


def empty_prefix(world: World) -> None:
    """A rule of the user's as short as ours, and read first."""
    world.git("config", "url.file://.pushInsteadOf", "")
    world.git("config", "remote.origin.url", str(world.upstream))


def plain(_world: World) -> None:
    """Nothing but a URL."""


ARRANGEMENTS: tuple[Arrange, ...] = (
    plain,
    pushurl_of_its_own,
    pushurl_like_the_url,
    pushurl_behind_an_alias,
    several_pushurls,
    longer_prefix,
    empty_prefix,
)
SPELLINGS = (
    ("origin", "HEAD:refs/heads/x"),
    ("--no-verify", "origin", "HEAD:refs/heads/x"),
    ("--no-verify", "ROOT/origin.git", "HEAD:refs/heads/x"),
    ("--no-verify", "file://ROOT/origin.git", "HEAD:refs/heads/x"),
    ("--no-verify", "../../origin.git", "HEAD:refs/heads/x"),
    ("--no-verify", "--all", "origin"),
    ("--no-verify", "--mirror", "hub"),
    ("--no-verify", "hub", "main"),
)


def spellings(world: World) -> list[list[str]]:
    root = str(world.upstream.parent)
    return [[word.replace("ROOT", root) for word in words] for words in SPELLINGS]


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
def test_no_push_gets_out_of_a_worktree(world: World, arrange: Arrange) -> None:
    arrange(world)
    world.init()
    folder = world.worktree()
    assert [words for words in spellings(world) if not refuses(world, folder, *words)] == []


@pytest.mark.parametrize("arrange", ARRANGEMENTS[:-1])
def test_the_same_pushes_would_arrive_without_init(world: World, arrange: Arrange) -> None:
    arrange(world)
    folder = world.worktree()
    clean = {name: world.project.env[name] for name in ("HOME", "PATH")}
    done = {" ".join(words): push_from(folder, clean, "--dry-run", *words) for words in spellings(world)}
    assert {words: one.stderr for words, one in done.items() if one.returncode != 0} == {}


def test_a_worktree_that_was_there_before_init_is_closed_too(world: World) -> None:
    folder = world.worktree()
    assert [str(path) for path in world.init().blocked] == [str(folder)]
    assert refuses(world, folder, "--no-verify", "origin", "HEAD:refs/heads/x")


def test_undo_opens_it_again(closed: World) -> None:
    closed.undo()
    folder = newest_worktree(closed)
    assert push_from(folder, dict(closed.project.env), "origin", "HEAD:refs/heads/x").returncode == 0


def test_a_restored_worktree_is_closed_again(closed: World) -> None:
    run = str(closed.project.json("list")[0]["run_id"])
    closed.project.swarm("discard", run)
    closed.project.swarm("discard", "--restore", run)
    assert refuses(closed, closed.project.worktree(run), "--no-verify", "origin", "HEAD:refs/heads/x")


def test_fetching_works_in_a_closed_worktree(closed: World) -> None:
    other = closed.git("commit-tree", "main^{tree}", "-p", "main", stdin="elsewhere\n")
    closed.git("push", "-q", "--no-verify", "origin", f"{other}:refs/heads/news")
    closed.project.git("fetch", "-q", "origin", cwd=newest_worktree(closed))
    assert closed.git("rev-parse", "origin/news") == other


def test_the_users_own_checkout_pushes_as_before(closed: World) -> None:
    assert closed.push("origin", "main:refs/heads/ordinary").returncode == 0


def test_libgit2_opens_repository_and_worktree(closed: World) -> None:
    folder = newest_worktree(closed)
    opened = pygit2.Repository(str(folder))
    assert (opened.is_bare, opened.head.shorthand.startswith("shadow/")) == (False, True)
    assert pygit2.Repository(str(closed.project.root)).head.shorthand == "main"


def test_a_run_goes_on_in_a_closed_worktree(closed: World) -> None:
    run = str(closed.project.json("list")[0]["run_id"])
    closed.project.swarm("rollback", "1", "--run", run)
    closed.project.swarm("resume", run)
    assert closed.project.json("status", run)["state"] == "succeeded"


def test_without_init_nothing_is_configured(world: World) -> None:
    world.project.start(SCRIPT, flow="visit")
    assert not list((world.project.root / ".git").rglob("config.worktree"))


def test_worktrees_of_a_bare_repository_stay_what_they_are(world: World, tmp_path: Path) -> None:
    world.git("clone", "-q", "--bare", ".", "../bare.git")
    bare = tmp_path / "bare.git"
    world.project.git("worktree", "add", "-q", "../tree", "main", cwd=bare)
    before = snapshot(bare)
    inside = World(Project(tmp_path / "tree", world.project.env), world.run)
    inside.init()
    assert inside.git("status", "--porcelain") == ""
    assert world.project.git("rev-parse", "--is-bare-repository", cwd=bare) == "true"
    inside.project.start(SCRIPT, flow="visit")
    assert refuses(inside, newest_worktree(inside), "--no-verify", str(world.upstream), "HEAD:refs/heads/x")
    inside.project.swarm("discard", "--force", str(inside.project.json("list")[0]["run_id"]))
    inside.undo()
    after = snapshot(bare)
    assert {name: after.get(name) for name in before} == before


def test_an_address_that_the_user_rewrites_exactly_stays_open_and_is_told(world: World) -> None:
    world.git("config", f"url.{world.upstream}.insteadOf", "exactly:this")
    world.git("config", "remote.origin.pushurl", "exactly:this")
    world.worktree()
    assert world.init().open == ["exactly:this"]


def test_the_plan_takes_up_what_is_configured() -> None:
    config = [("url.git@x:.pushinsteadof", "https://x/"), ("remote.o.pushurl", "u"), ("user.name", "me")]
    block = plan_block(config)
    assert (block.push[0], block.both, block.open) == ("", ("u",), ())
    assert "https://x/a" in block.push
    assert "https://x/" not in block.push


def test_what_is_written_is_what_git_reads(tmp_path: Path, project: Project) -> None:
    block = plan_block([("url.a.pushinsteadof", 'odd "\\ #;'), ("remote.o.pushurl", " ünï\udcff ")])
    (tmp_path / "file").write_bytes(render(block))
    argv = ["git", "config", "--file", str(tmp_path / "file"), "-z", "--get-all"]
    for key, wanted in (("pushInsteadOf", block.push), ("insteadOf", block.both)):
        said = subprocess.run(
            [*argv, f"url.swarm-blocked://.{key}"], env=dict(project.env), capture_output=True, check=True
        )
        assert tuple(said.stdout.decode(errors="surrogateescape").split("\0")[:-1]) == wanted
