"""A worktree, a home beside it, and the scope of a step in there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gitswarm.records.safety import PolicyRules
from gitswarm.safety.policy.paths import Scope

RUN_BASE = ".swarm/runs/run-1"
ALIASES = {
    "deploy": "push origin HEAD",
    "ship": '!f() { git push "$@"; }; f',
    "up": "!sh -c 'git push'",
    "st": "status --short",
    "lg": "log --graph --oneline",
    "again": "st",
    "loop": "loop",
    "root": "!pwd",
}


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    """A step that may write code; `out` is a link that leads out of the worktree."""
    home = tmp_path_factory.mktemp("home").resolve() / "dev"
    worktree = home / "project.swarm" / "run-1"
    (worktree / "src").mkdir(parents=True)
    (worktree / RUN_BASE / "build").mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: /home/dev/project/.git/worktrees/run-1\n")
    (worktree / "out").symlink_to(home)
    return Scope(
        worktree=worktree,
        run_base=RUN_BASE,
        artifacts=frozenset({f"{RUN_BASE}/build/notes.md", f"{RUN_BASE}/build/review/a.md"}),
        writes_code=True,
        tools=(),
        rules=PolicyRules(deny=("npm audit fix", "terraform [ip]*"), protected_paths=("infra/**", "Makefile")),
        aliases=ALIASES,
        home=home,
        temp=(Path("/tmp"),),
        resolve=Path.resolve,
    )


@pytest.fixture(scope="session")
def reader(writer: Scope) -> Scope:
    """A step that reads code and writes its artifacts."""
    return replace(writer, writes_code=False)
