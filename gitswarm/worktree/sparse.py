"""Sparse worktrees: what of a commit is written out, by the user's own patterns or by `worktree.paths`.

Patterns are a file of the worktree. Each call of ours has git heed them by an option: as configuration that would be
a line in the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from gitswarm.git.discovery import SPARSE_PATHS
from gitswarm.git.process import Git

_OURS = ".swarm"
_PATTERNS = Path("info", "sparse-checkout")


def narrow(git_dir: Path, paths: Sequence[str]) -> None:
    """Has a worktree hold only these folders, and the files above them, from when it is filled next.

    :param git_dir: of the worktree.
    :param paths: from its top; (): it holds everything.
    """
    if not paths:
        return
    (git_dir / _PATTERNS).parent.mkdir(exist_ok=True)
    (git_dir / _PATTERNS).write_text("".join(f"{line}\n" for line in cone_patterns(paths)), encoding="utf-8")
    (git_dir / SPARSE_PATHS).write_text("\n".join(path.rstrip("/") for path in paths), encoding="utf-8")


def narrowed_to(git_dir: Path) -> tuple[str, ...]:
    """What `narrow` was given for this worktree; () where it was not called."""
    try:
        return tuple((git_dir / SPARSE_PATHS).read_text(encoding="utf-8").split("\n"))
    except FileNotFoundError:
        return ()


def cone_patterns(paths: Sequence[str]) -> Iterator[str]:
    """As `git sparse-checkout set --cone` writes them."""
    given = {PurePosixPath(path) for path in (*paths, _OURS)}
    whole = {path for path in given if given.isdisjoint(path.parents)}
    above = {folder for path in whole for folder in path.parents} - {PurePosixPath()}
    yield from ("/*", "!/*/")
    for folder in sorted(above):
        yield from (f"/{_escaped(folder)}/", f"!/{_escaped(folder)}/*/")
    yield from (f"/{_escaped(path)}/" for path in sorted(whole))


def _escaped(path: PurePosixPath) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", path.as_posix())


def hide_missing(git: Git, git_dir: Path, folder: Path) -> None:
    """Marks entries of the index as left out whose files are not there and need not be.

    :param git: in the worktree `folder`.
    """
    whole = tuple(f"{path}/" for path in (*narrowed_to(git_dir), _OURS))
    listed = git.output("ls-files", "-z").split(b"\0")
    names = [name for name in listed if b"/" in name and not os.fsdecode(name).startswith(whole)]
    gone = [name for name in names if not os.path.lexists(folder / os.fsdecode(name))]
    if gone:
        git.output("update-index", "--skip-worktree", "-z", "--stdin", stdin=b"\0".join((*gone, b"")))
