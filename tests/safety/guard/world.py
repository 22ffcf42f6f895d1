"""A repository with a run, an upstream and a hub, copied afresh for every push."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository, open_repository
from gitswarm.resources import bundled
from gitswarm.runner.initialise import Initialised, InitOptions, initialise, undo_init
from gitswarm.safety.guard import Uninstalled
from gitswarm.worktree.shadow import add_shadow
from tests.conftest import GIT_CONFIG, Project

FLOW = """\
id: visit
steps:
  - {id: work, station: visitor, teaching: {outputs: ["src/**"]}}
  - {id: polish, station: visitor, teaching: {outputs: ["src/**"]}}
"""
STATION = """\
id: visitor
title: Visitor
category: implementation
identity: You write.
invariants: [Nothing but code.]
"""
SCRIPT = """\
steps:
  work: [{write: {src/new.py: "new = 1\\n"}, summary: write it}]
  polish: [{write: {src/new.py: "new = 2\\n"}, summary: polish it}]
"""


@dataclass(frozen=True)
class World:
    """`project`: the user's checkout on `main`, which upstream `origin` has; `hub` is a second remote.

    `run` has been executed, not landed: `shadow/<run>` holds a commit `run`, two steps, and an `end`.
    """

    project: Project
    run: str

    @property
    def shadow(self) -> str:
        return f"shadow/{self.run}"

    @property
    def upstream(self) -> Path:
        return self.project.root.parent / "origin.git"

    @property
    def hub(self) -> Path:
        return self.project.root.parent / "hub.git"

    def git(self, *arguments: str, stdin: str | None = None) -> str:
        return self.project.git(*arguments, stdin=stdin)

    def refs_of(self, remote: Path) -> str:
        return self.project.git("for-each-ref", "--format=%(refname) %(objectname)", cwd=remote)

    def steps(self) -> list[str]:
        """Ids of the commits of the run, oldest first: run, work, polish, end."""
        return self.git("rev-list", "--reverse", f"refs/swarm/{self.run}/base..{self.shadow}").split()

    def push(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return push(self.project, *arguments, cwd=cwd)

    @property
    def repository(self) -> Repository:
        return open_repository(self.project.root, self.project.env)

    def worktree(self) -> Path:
        """The worktree of the run, made by the product."""
        path = self.upstream.parent / "repo.swarm" / self.run
        repository = self.repository
        return add_shadow(repository, f"refs/heads/{self.shadow}", path, Locks(repository.common_dir)).path

    def init(self) -> Initialised:
        """What `git swarm init` does, without a process of its own."""
        return initialise(self.repository, InitOptions())

    def undo(self) -> Uninstalled | None:
        """What `git swarm init --undo` does."""
        return undo_init(self.repository)

    def land(self, strategy: str, message: str = "") -> str:
        """Lands the step `polish` on main as the decision record says; the new commit."""
        approved = self.steps()[2]
        before = self.git("rev-parse", "main")
        self.git("read-tree", approved)
        self.git("rm", "-q", "-r", "-f", "--cached", "--ignore-unmatch", ".swarm/runs")
        if strategy == "evidence":
            folder = f".swarm/runs/{self.run}"
            self.git("read-tree", f"--prefix={folder}/", f"{approved}:{folder}")
        tree = self.git("write-tree")
        parents = ["-p", before, *(["-p", approved] if strategy == "merge" else [])]
        text = (
            message or f"Say hello\n\nIt was wanted.\n\nSwarm-Run: {self.run}\nSwarm-Landed: {self.run} {approved}\n"
        )
        landed = self.git("commit-tree", tree, *parents, stdin=text)
        self.git("update-ref", "refs/heads/main", landed)
        self.git("reset", "-q", "--hard")
        return landed


def push(project: Project, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "push", "--quiet", *arguments],
        cwd=cwd or project.root,
        env=dict(project.env),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(home: Path, path: str) -> dict[str, str]:
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    return {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PATH": path,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }


def make_world(folder: Path, env: Mapping[str, str]) -> World:
    root = folder / "repo"
    root.mkdir()
    project = Project(root, env)
    project.git("init", "-q")
    project.commit({"README.md": "# hello\n", "src/app.py": "print('hello')\n"}, "first")
    project.commit({".swarm/flows/visit.yaml": FLOW, ".swarm/flows/stations/visitor.yaml": STATION}, "a flow")
    for name in ("origin", "hub"):
        project.git("init", "-q", "--bare", f"../{name}.git")
        project.git("remote", "add", name, f"../{name}.git")
    project.git("push", "-q", "origin", "main")
    run = project.start(SCRIPT, flow="visit")
    # What a copy of this folder must not know: where the run's worktree lies here.
    shutil.rmtree(root / ".git" / "worktrees")
    return World(project, run)


def copy_of(world: World, folder: Path, env: Mapping[str, str]) -> World:
    for name in ("repo", "origin.git", "hub.git"):
        shutil.copytree(world.project.root.parent / name, folder / name, symlinks=True)
    return World(Project(folder / "repo", env), world.run)


def guard_pushes(world: World) -> None:
    """The guard as pre-push, as it ships."""
    shutil.copy(bundled("hooks") / "pre-push", world.project.root / ".git" / "hooks" / "pre-push")


def guard_upstream(world: World) -> None:
    """The guard as pre-receive of the upstream, as it ships."""
    shutil.copy(bundled("hooks") / "pre-receive", world.upstream / "hooks" / "pre-receive")
