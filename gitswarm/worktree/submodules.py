"""Repositories inside a worktree: submodules that were checked out, and repositories that an agent made.

For a submodule `git add` starts `git status` in it, which obeys the configuration that lies there: filters,
monitors.
An agent can write that file, so only HEAD is read and the index written by ourselves; repositories that an
agent made
are taken apart before any git call of ours could run their configuration.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from gitswarm.git.process import Git
from gitswarm.worktree.shadow import Shadow

# A folder whose change time is younger than this when we look may change again within the same clock tick.
_RACY_NS = 50_000_000
_NEVER = -1


class _Folder(Struct):
    changed_ns: int
    subfolders: tuple[str, ...]
    has_git: bool


class NestedFinder(Struct):
    """Walks one worktree again and again; folders whose change time stayed are not listed again.

    The change time (ctime) cannot be set back by a program, unlike the modification time.
    """

    root: Path
    _known: dict[str, _Folder] = field(default_factory=dict)

    def find(self, now_ns: int) -> list[str]:
        """Relative paths of folders below the root that hold a `.git` of any kind, sorted."""
        return sorted(self._walk(now_ns))

    def _walk(self, now_ns: int) -> Iterator[str]:
        pending = [""]
        alive: dict[str, _Folder] = {}
        while pending:
            name = pending.pop()
            folder = self._look(name, now_ns)
            if folder is None:
                continue
            alive[name] = folder
            if folder.has_git and name:
                yield name
            pending.extend(f"{name}/{sub}" if name else sub for sub in folder.subfolders)
        self._known = alive

    def _look(self, name: str, now_ns: int) -> _Folder | None:
        path = os.path.join(self.root, name) if name else str(self.root)  # noqa: PTH118 - 10,000s of these per walk
        try:
            changed_ns = os.stat(path, follow_symlinks=False).st_ctime_ns  # noqa: PTH116
            known = self._known.get(name)
            if known is not None and known.changed_ns == changed_ns:
                return known
            subfolders = []
            has_git = False
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        has_git = True
                    elif entry.is_dir(follow_symlinks=False):
                        subfolders.append(entry.name)
        except OSError:
            return None  # gone or unreadable: git will say what it thinks of it
        racy = now_ns - changed_ns < _RACY_NS
        return _Folder(_NEVER if racy else changed_ns, tuple(subfolders), has_git)


def quarantine(worktree: Path, folder: str, store: Path) -> Path:
    """Moves the `.git` of a nested repository out of the worktree; its files become ordinary files."""
    store.mkdir(parents=True, exist_ok=True)
    number = len(list(store.iterdir())) + 1
    target = store / f"{number}-{folder.replace('/', '_')[:80]}"
    shutil.move(str(worktree / folder / ".git"), str(target))
    return target


# A submodule may be a partial clone: what it lacks would be fetched, by a program that its configuration names.
_NOTHING_FETCHED = {"GIT_ALLOW_PROTOCOL": "none"}
_GITLINK = "160000"


def is_own(shadow: Shadow, name: str) -> bool:
    """Whether this is a submodule that is checked out, with a `.git` of its own: one that leads elsewhere could be
    anybody's."""
    place = shadow.path / name
    pointer = place / ".git"
    in_place = place.resolve() == shadow.path.resolve() / name
    if name not in shadow.submodules or not in_place or pointer.is_symlink():
        return False
    if not pointer.is_file():
        return pointer.is_dir()
    target = pointer.read_bytes().removeprefix(b"gitdir:").strip().decode(errors="surrogateescape")
    return (place / target).resolve().is_relative_to(shadow.git_dir.resolve() / "modules")


def heads(shadow: Shadow) -> dict[str, str]:
    """Submodules that are checked out, with the commit that each of them stands on."""
    found = {}
    for name in shadow.submodules:
        if is_own(shadow, name):
            head = _git(shadow, name).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
            if head:
                found[name] = head
    return found


def enter(shadow: Shadow, commits: Mapping[str, str], extra_env: Mapping[str, str] | None) -> None:
    """Records the commits of submodules in an index, as `git add` would."""
    if commits:
        lines = b"".join(f"{_GITLINK} {commit}\t{name}".encode() + b"\0" for name, commit in commits.items())
        shadow.git.output("update-index", "-z", "--index-info", stdin=lines, extra_env=extra_env)


def restore(shadow: Shadow, tree: str) -> None:
    """Moves submodules that are checked out to the commits that `tree` names for them.

    Uncommitted changes in one of them are in no commit of ours: where they are in the way it stays as it is.
    """
    for name, head in heads(shadow).items():
        wanted = shadow.git.run("rev-parse", "--verify", "--quiet", f"{tree}:{name}").stdout.decode().strip()
        if wanted and wanted != head:
            git = _git(shadow, name)
            quiet = _no_filters(git)
            git.run(*quiet, "update-index", "-q", "--refresh")
            if git.run(*quiet, "read-tree", "-m", "-u", head, wanted).returncode == 0:
                git.output("update-ref", "--no-deref", "-m", "git-swarm: restored", "HEAD", wanted)


def _git(shadow: Shadow, name: str) -> Git:
    place: Path = shadow.path / name
    return Git({**shadow.git.env, **_NOTHING_FETCHED}, place / ".git", place)


def _no_filters(git: Git) -> list[str]:
    """Options that switch off every filter that the submodule itself configures."""
    names = git.run("config", "--local", "--name-only", "-z", "--get-regexp", r"^filter\..*").stdout
    drivers = {match[1] for match in re.finditer(r"filter\.([^\0]*)\.[^.\0]*\0", names.decode(errors="replace"))}
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return [
        word for name in sorted(drivers) for key, to in off.items() for word in ("-c", f"filter.{name}.{key}={to}")
    ]
