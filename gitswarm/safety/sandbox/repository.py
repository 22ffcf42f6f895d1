"""How a repository looks from inside: to be read, but for what `git add` writes, which goes to copies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from gitswarm.git.process import Git
from gitswarm.safety.sandbox.git_config import entries_of, shown_config
from gitswarm.safety.sandbox.mounts import Mount, covered, emptied, replaced, shown, writable

_REAL_OBJECTS = Path("/run/git-swarm/objects")
_OURS_BYTES = 1 << 20
_SHOWN: dict[bytes, str] = {}
"""Configuration file → as agents see it. It rarely changes between steps, and git takes 3 ms to read it."""


class Ground(Struct, frozen=True):
    """`common`: the repository; `admin`: what it keeps about the worktree; `own`: an empty folder for the copies, on
    the same disk. Nobody outside ever reads those."""

    worktree: Path
    common: Path
    admin: Path
    own: Path

    def lay_out(self, git: Git) -> tuple[Mount, ...]:
        """Makes the copies anew, and tells what is shown where.

        :param git: on the repository.
        """
        shutil.rmtree(self.own, ignore_errors=True)
        admin, objects = self.own / "admin", self.own / "objects"
        (objects / "info").mkdir(parents=True)
        shutil.copytree(self.admin, admin, symlinks=True)
        real = self.common / "objects"
        others = list(_alternates(real))
        lines = [_REAL_OBJECTS, *others]
        (objects / "info" / "alternates").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        covers = [self._configured(git, name) for name in ("config", "config.worktree")]
        return (
            shown(self.common),
            *(cover for cover in covers if cover is not None),
            emptied(self.common / "swarm", _OURS_BYTES),
            covered(_REAL_OBJECTS, real),
            *map(shown, others),
            replaced(real, objects),
            replaced(self.admin, admin),
            writable(self.worktree),
            shown(self.worktree / ".git"),
        )

    def _configured(self, git: Git, name: str) -> Mount | None:
        path = self.common / name
        if not path.is_file():
            return None
        content = path.read_bytes()
        if content not in _SHOWN:
            listed = git.output("config", "--file", "-", "--no-includes", "--list", "-z", stdin=content)
            _SHOWN[content] = shown_config(entries_of(listed))
        (self.own / name).write_text(_SHOWN[content], encoding="utf-8", errors="surrogateescape")
        return covered(path, self.own / name)


def _alternates(objects: Path) -> Iterator[Path]:
    """Object folders that these borrow from, theirs too."""
    try:
        lines = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        if line and not line.startswith("#"):
            other = (objects / line).resolve()
            yield other
            yield from _alternates(other)
