"""Finds repositories that an agent made inside its worktree, before any git call of ours can run their config."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

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
