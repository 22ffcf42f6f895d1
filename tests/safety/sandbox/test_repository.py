"""What git sees of the repository from inside, while others work on it outside."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.processes import CommandLimits, run_shell
from gitswarm.safety.sandbox.backends import Bubblewrap
from gitswarm.safety.sandbox.mounts import RepositoryView
from tests.conftest import Project
from tests.safety.sandbox.conftest import FOUND, needs_bwrap

pytestmark = needs_bwrap


class Inside:
    """A linked worktree with a branch of its own, `shadow/w`, and a shell in it."""

    def __init__(self, project: Project, own: Path) -> None:
        self.project, self.own = project, own
        self.worktree = project.root.parent / "w"
        self.common = project.root / ".git"
        project.git("worktree", "add", "-q", "-b", "shadow/w", str(self.worktree))

    @property
    def admin(self) -> Path:
        return self.common / "worktrees/w"

    def shell(self, lines: str) -> str:
        view = RepositoryView(self.worktree, self.common, self.admin, self.own)
        assert isinstance(FOUND.backend, Bubblewrap)
        backend = FOUND.backend.showing(*view.mounts(open_repository(self.project.root, self.project.env).git))
        limits = CommandLimits(60, containment=backend)
        return run_shell(lines, cwd=self.worktree, env=self.project.env, limits=limits).output

    def waiting(self, before: str, after: str) -> tuple[Path, Path, str]:
        """Lines with a pause; the file that is there during it, and the one that ends it."""
        pause = "touch began; while [ ! -e go ]; do sleep 0.02; done"
        return self.worktree / "began", self.worktree / "go", f"{before}\n{pause}\n{after}"


@pytest.fixture
def inside(confined: Project, tmp_path: Path) -> Inside:
    return Inside(confined, tmp_path / "own")


def meanwhile(inside: Inside, lines: str, *commands: tuple[str, ...]) -> str:
    """What `lines` print when the user types `commands` while they wait."""
    began, go, whole = inside.waiting("true", lines)
    outputs: list[str] = []
    thread = threading.Thread(target=lambda: outputs.append(inside.shell(whole)))
    thread.start()
    while thread.is_alive() and not began.exists():
        thread.join(0.02)
    for command in commands:
        inside.project.git(*command)
    go.touch()
    thread.join()
    return outputs[0]


def test_git_works_as_it_does_outside(inside: Inside) -> None:
    inside.project.git("pack-refs", "--all")
    inside.project.git("tag", "-a", "-m", "x", "one")
    for line in (
        "git status --short --branch",
        "git log --all --decorate=short",
        "git branch --list",
        "git for-each-ref",
        "git describe",
        "git rev-parse HEAD main shadow/w one",
        "git diff --stat main",
        "git fsck --no-reflogs",
    ):
        there = inside.project.git(*line.split()[1:], cwd=inside.worktree)
        assert inside.shell(line).strip() == there, line
    output = inside.shell("echo x > new.txt && git add new.txt && git diff --cached --name-only; touch .git/x")
    assert output.startswith("new.txt\n")
    assert "Read-only" in inside.shell('touch "$(git rev-parse --git-common-dir)/x"')


def test_a_configuration_that_is_written_meanwhile_is_not_seen(inside: Inside) -> None:
    address = "https://user:PLANTED@example.org/x.git"
    output = meanwhile(inside, f"cat {inside.common}/config", ("remote", "add", "more", address))
    assert "[core]" in output
    assert "more" not in output


def test_refs_that_are_packed_meanwhile_are_still_there(inside: Inside) -> None:
    lines = "git rev-parse HEAD main; git status --branch --short"
    head = inside.project.git("rev-parse", "HEAD")
    output = meanwhile(inside, lines, ("pack-refs", "--all", "--prune"))
    assert not (inside.common / "refs/heads/shadow/w").exists()
    assert output.splitlines()[:3] == [head, head, "## shadow/w"]


def test_a_submodule_works_and_shows_no_token(inside: Inside, tmp_path: Path) -> None:
    project, library = inside.project, tmp_path / "lib"
    project.git("clone", "-q", str(project.root), str(library))
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    project.git(*add, cwd=inside.worktree)
    module = inside.admin / "modules/lib"
    project.git("config", "remote.origin.url", "https://user:PLANTED@example.org/x.git", cwd=inside.worktree / "lib")
    for name in ("credentials", "config.bak", "logs/more"):
        (module / name).write_text("PLANTED", encoding="utf-8")
    own = '[remote "x"]\n\turl = https://a:PLANTED@b.c/d\n'
    (inside.admin / "config.worktree").write_text(own, encoding="utf-8")
    look = "git -C lib log --format=%s && git -C lib config remote.origin.url"
    output = inside.shell(f'{look}; grep -r PLANTED "$(git rev-parse --git-dir)"')
    assert output == "first\nhttps://example.org/x.git\n"


def test_a_worktree_that_lets_no_push_out_does_not_inside(inside: Inside) -> None:
    block = '[url "swarm-blocked://"]\n\tpushInsteadOf = ""\n'
    (inside.admin / "config.worktree").write_text(block, encoding="utf-8")
    inside.project.git("config", "extensions.worktreeConfig", "true")
    assert "swarm-blocked" in inside.shell(f"git push {inside.common} HEAD:refs/heads/x")
