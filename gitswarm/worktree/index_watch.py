"""The worktree's index as we left it. An agent may have broken it, or hidden files from `git add` in it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gitswarm.git.running import RunningGit
from gitswarm.worktree import snapshot
from gitswarm.worktree.shadow import Shadow

_Print = tuple[int, int, int]


class IndexWatch(Struct):
    """Looks into the index only when somebody else wrote it since `leave`; that costs two git processes."""

    shadow: Shadow
    _left: _Print | None = None
    _aligning: RunningGit | None = None

    def begin_aligning(self, tree: str, files: Mapping[str, str | None] | None) -> None:
        """Starts to make the index equal to `tree`, which differs in `files`; `leave` waits for it."""
        self.leave()
        self._aligning = snapshot.begin_aligning(self.shadow, tree, files)

    def leave(self) -> None:
        """From here on every change of the index is somebody else's."""
        if self._aligning is not None:
            self._aligning.wait()
            self._aligning = None
        self._left = self._print()

    def mend(self, tree: str) -> None:
        """Makes an index that git cannot read anew from `tree`, and shows files that were hidden in it."""
        now = self._print()
        if now is not None and now == self._left:
            return
        snapshot.mend_index(self.shadow, tree)

    def _print(self) -> _Print | None:
        try:
            found = (self.shadow.git_dir / "index").stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_ctime_ns, found.st_size
