"""Everything of a user that no run may touch (guarantee 2), as a value that can be compared."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OURS = (
    "swarm",
    "refs/heads/shadow",
    "refs/notes/swarm",
    "refs/swarm",
    "logs/refs/heads/shadow",
    "logs/refs/notes/swarm",
    "logs/refs/swarm",
)
"""What a run may write below a common git directory, besides new objects and the entries of its worktrees."""


@dataclass(frozen=True)
class Fingerprint:
    """A folder as it is, without what belongs to runs.

    `entries`: path → kind, mode, time of change and content: checkouts with untracked and ignored files, index,
    HEAD and its friends, refs, reflogs, stash, config, hooks, info/exclude, states of a merge or rebase, and the
    user's home. `objects`: files of the object stores, to which a run may add.
    """

    entries: Mapping[str, str]
    objects: frozenset[str]


def fingerprint(world: Path) -> Fingerprint:
    """
    :param world: the folder in which everything of the user lies; beside a repository a run may make `*.swarm`.
    """
    entries: dict[str, str] = {}
    objects: set[str] = set()
    for path, git_dir in _walk(world, None):
        name = str(path.relative_to(world))
        inside = path.relative_to(git_dir).as_posix() if git_dir else ""
        if inside.startswith("objects/"):
            if not path.is_dir():
                objects.add(name)
        elif path.is_symlink() or not path.is_dir():
            entries[name] = _describe(path)
        elif not git_dir:
            entries[name] = _describe_folder(path)
    return Fingerprint(entries, frozenset(objects))


def _walk(folder: Path, git_dir: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Every path below a folder, and the git directory that it lies in."""
    for path in sorted(folder.iterdir()):
        if git_dir is None and path.name.endswith(".swarm"):
            continue
        if git_dir is not None and _is_ours(path.relative_to(git_dir)):
            continue
        around = git_dir or (path if _is_git_dir(path) else None)
        yield path, around
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, around)


def _is_git_dir(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir()


def _is_ours(inside: Path) -> bool:
    name = inside.as_posix()
    return name in OURS or name.startswith("worktrees/run-")


def _describe(path: Path) -> str:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"link to {str(path.readlink())!r} of {found.st_mtime_ns}"
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else b""
    # git touches a shared index whenever it only reads the index that points there (freshen_shared_index).
    when = "any time" if path.name.startswith("sharedindex.") else found.st_mtime_ns
    return f"{found.st_mode:o} of {when}: {len(content)} bytes {hashlib.sha256(content).hexdigest()}"


def _describe_folder(path: Path) -> str:
    found = path.lstat()
    return f"{found.st_mode:o} of {found.st_mtime_ns}"
