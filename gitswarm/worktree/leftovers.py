"""Files of a worktree that git ignores and its setup did not make: no commit has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gitswarm.untrusted import files_below
from gitswarm.worktree.shadow import Shadow

_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"}
    | {"node_modules", ".nyc_output", ".turbo", "venv", ".venv", "target", ".gradle", "coverage", "htmlcov"}
)
"""Folders of tools and of installed dependencies: a checkout without them makes them anew, by `worktree.setup`."""
_REPORTS = (".coverage", ".DS_Store", ".log", ".swp", "~")
_COPY_S = 300


def made_since_setup(shadow: Shadow) -> tuple[str, ...]:
    """What is there of them, caches and reports left out, by path in the worktree; a folder that git ignores as a
    whole counts once, as `lib/`. () where the worktree was never set up.
    """
    if (ready := shadow.set_up_ns) is None:
        return ()
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = (os.fsdecode(raw) for raw in shadow.git.output(*words).split(b"\0") if raw)
    return tuple(name for name in names if _is_newer(shadow.path, name, ready))


def _is_newer(root: Path, name: str, ready: int) -> bool:
    """Whether it, or a file in it, was made or changed since; nobody can set the time of that back."""
    path = root / name
    if not _counts(PurePosixPath(name)):
        return False
    if path.is_symlink() or not path.is_dir():
        try:
            return path.lstat().st_ctime_ns > ready
        except OSError:
            return False
    return any(about.st_ctime_ns > ready and _counts(file.relative_to(root)) for file, about in files_below(path))


def _counts(path: PurePosixPath | Path) -> bool:
    return _CACHES.isdisjoint(path.parts) and not path.name.endswith(_REPORTS)


def copy_leftovers(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copies them from one worktree into another of the same commit, links as links.

    :raises OSError: that failed, or took longer than five minutes.
    """
    for name in names:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.parent.resolve().is_relative_to(target.resolve()):
            raise OSError(f"{name} would be copied out of the worktree")
        inner = "/." if name.endswith("/") else ""
        if inner:
            copy.mkdir(exist_ok=True)
        words = ("cp", "-a", "--", f"{source / name}{inner}", str(copy))
        try:
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=_COPY_S)
        except subprocess.SubprocessError as error:
            raise OSError(f"{name} could not be copied") from error
