"""`git swarm init` and `init --undo` as commands: what they print, where they may be typed, what they leave."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Project
from tests.safety.guard.layouts import husky_9, snapshot
from tests.safety.guard.world import World


def test_init_prints_every_line_that_it_adds(world: World) -> None:
    said = world.project.swarm("init").stdout.splitlines()
    config = (world.project.root / ".swarm" / "config.yaml").read_text(encoding="utf-8").splitlines()
    guard = (world.project.root / ".git" / "hooks" / "pre-push").read_text(encoding="utf-8").splitlines()
    assert said == [
        "+ .git/config  extensions.worktreeConfig = true",
        f"+ .git/hooks/pre-push  the push guard, {len(guard)} lines",
        "+ .swarm/config.yaml",
        *(f"    {line}".rstrip() for line in config),
        "undo       git swarm init --undo",
        "decisions  git log --notes='swarm/*/routing' shadow/RUN",
    ]


def test_undo_says_what_it_restored(world: World) -> None:
    before = snapshot(world.project.root)
    world.project.swarm("init")
    assert world.project.swarm("init", "--undo").stdout.splitlines() == [
        "restored   .swarm/config.yaml",
        "restored   .git/hooks/pre-push",
        "restored   .git/config",
    ]
    assert snapshot(world.project.root) == before


def test_undo_without_init_is_friendly(project: Project) -> None:
    said = project.swarm("init", "--undo").stdout
    assert said == "nothing to undo: git swarm init was not done here\n"


def test_the_hub_of_the_team_becomes_the_hub_of_the_guard(world: World) -> None:
    world.project.write({".swarm/config.yaml": "hub: hub\n"})
    assert "+ .git/config  swarm.hub = hub\n" in world.project.swarm("init").stdout
    assert world.push("origin", world.shadow).returncode == 1
    assert world.push("hub", world.shadow).returncode == 0


def test_a_hub_of_the_person_stays(world: World) -> None:
    world.project.write({".swarm/config.yaml": "hub: hub\n"})
    world.git("config", "swarm.hub", "mine")
    world.project.swarm("init")
    assert world.git("config", "--get-all", "swarm.hub") == "mine"


def test_the_configuration_that_init_writes_can_be_used(world: World) -> None:
    world.project.swarm("init")
    world.project.commit({}, "our settings")
    world.project.swarm("start", "visit", "--dry-run")


def test_a_configuration_that_was_edited_stays(world: World) -> None:
    world.project.swarm("init")
    world.project.write({".swarm/config.yaml": "hub: hub\n"})
    done = world.project.swarm("init", "--undo", code=1)
    assert "left       .swarm/config.yaml: somebody changed it since\n" in done.stdout
    assert (world.project.root / ".swarm" / "config.yaml").read_text(encoding="utf-8") == "hub: hub\n"


def test_a_configuration_that_was_committed_stays(world: World) -> None:
    world.project.swarm("init")
    world.project.commit({}, "our settings")
    said = world.project.swarm("init", "--undo").stdout.splitlines()
    assert said == [
        "restored   .git/hooks/pre-push",
        "restored   .git/config",
        "stays      .swarm/config.yaml: it is part of the project by now (git rm .swarm/config.yaml)",
    ]
    assert world.git("status", "--porcelain") == ""


def test_undo_takes_only_our_lines_out_of_a_configuration_that_changed(world: World) -> None:
    world.init()
    world.git("config", "user.nickname", "me")
    undone = world.undo()
    assert undone is not None
    assert undone.ours_removed == [world.project.root / ".git" / "config"]
    assert world.git("config", "user.nickname") == "me"
    assert "worktreeConfig" not in (world.project.root / ".git" / "config").read_text(encoding="utf-8")


def test_settings_of_a_single_worktree_outlive_undo(world: World) -> None:
    world.git("worktree", "add", "-q", "../linked")
    world.init()
    linked = world.project.root.parent / "linked"
    world.project.git("config", "--worktree", "user.nickname", "me", cwd=linked)
    undone = world.undo()
    assert undone is not None
    assert [path.name for path, _reason in undone.left] == ["config"]
    assert world.project.git("config", "user.nickname", cwd=linked) == "me"


def test_init_in_a_subfolder_and_in_a_linked_worktree_is_the_same(world: World) -> None:
    world.git("worktree", "add", "-q", "../linked")
    world.project.swarm("init", cwd=world.project.root / "src")
    inside = world.project.swarm("init", cwd=world.project.root.parent / "linked").stdout
    assert inside.splitlines()[0].startswith("+ ../linked/.swarm/config.yaml")
    assert world.push("origin", world.shadow).returncode == 1


def test_a_run_s_own_worktree_gets_no_file(world: World) -> None:
    world.project.start("steps: {work: [{}], polish: [{}]}\n", flow="visit")
    folder = world.project.worktree(str(world.project.json("list")[0]["run_id"]))
    world.project.swarm("init", cwd=folder)
    assert world.project.git("status", "--porcelain", cwd=folder) == ""


def test_init_in_a_bare_repository_guards_its_pushes(world: World, tmp_path: Path) -> None:
    world.git("clone", "-q", "--mirror", ".", "../mirror.git")
    bare = tmp_path / "mirror.git"
    before = snapshot(bare)
    world.project.swarm("init", cwd=bare)
    blocked = world.push(str(world.upstream), world.shadow, cwd=bare)
    assert (blocked.returncode, "git swarm approve" in blocked.stderr) == (1, True)
    assert world.project.git("rev-parse", "--is-bare-repository", cwd=bare) == "true"
    world.project.swarm("init", "--undo", cwd=bare)
    assert snapshot(bare) == before


def test_a_crash_between_record_and_files_is_mended_by_the_same_command(world: World) -> None:
    husky_9(world.project)
    before = snapshot(world.project.root)
    world.init()
    (world.project.root / ".git" / "config.worktree").unlink()
    world.init()
    assert world.push("origin", world.shadow).returncode == 1
    world.undo()
    assert snapshot(world.project.root) == before


def test_a_locked_configuration_is_told(world: World) -> None:
    lock = world.project.root / ".git" / "config.lock"
    lock.touch()
    done = world.project.swarm("init", code=1)
    assert done.stderr.splitlines()[1] == f"hint: rm {lock}   (when no git runs), and git swarm init"
