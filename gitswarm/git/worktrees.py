"""The linked worktrees of a repository, as git records them, and whom we made them for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

MADE_FOR = "swarm-branch"
"""File in the folder that git keeps for a worktree: the full name of the branch, or the ref, that it was made for."""


class LinkedWorktree(Struct, frozen=True):
    """A linked worktree as the repository records it; `path` may be gone."""

    path: Path
    git_dir: Path
    branch: str | None

    @property
    def made_for(self) -> str | None:
        """Whose worktree it is, whatever somebody checks out in it."""
        try:
            said = (self.git_dir / MADE_FOR).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return self.branch
        return said if said.startswith("refs/") else self.branch


def linked_worktrees(common_dir: Path) -> Iterator[LinkedWorktree]:
    for git_dir in sorted((common_dir / "worktrees").glob("*")):
        try:
            pointer = os.fsdecode((git_dir / "gitdir").read_bytes().removesuffix(b"\n"))
            branch = branch_of(git_dir)
        except OSError:
            continue  # half removed by somebody else right now
        path = Path(pointer)
        path = path if path.is_absolute() else git_dir / path
        yield LinkedWorktree(path.parent, git_dir, branch)


def branch_of(git_dir: Path) -> str | None:
    """Full name of the branch that is checked out; None when HEAD is detached."""
    content = (git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    return content.removeprefix("ref: ") if content.startswith("ref: ") else None


def pointer(folder: Path) -> Path | None:
    """What the `.git` file in a worktree names."""
    try:
        said = (folder / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return Path(said.removeprefix("gitdir: ").rstrip("\n")) if said.startswith("gitdir: ") else None


def belongs_to_another(linked: LinkedWorktree) -> bool:
    """Whether the folder is a worktree of another repository, of which ours is a copy made with `cp -r`."""
    target = pointer(linked.path)
    if target is None or target == linked.git_dir or not target.is_dir():
        return False
    try:
        back = Path((target / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").strip())
        return (
            target.name == linked.git_dir.name
            and not target.samefile(linked.git_dir)
            and back.samefile(linked.path / ".git")
        )
    except OSError:
        return False
