"""Refs as git keeps them: a file for each, and `packed-refs` for the others."""

from __future__ import annotations

import os
import re
import shlex
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path

from gitswarm.errors import CorruptError

_ID = re.compile(r"[0-9a-f]{40}")
_DEEPEST = 5  # as git follows symbolic refs
ARCHIVE_REF = "refs/swarm/archive"
"""Without it git does not know any more what archived runs were made of."""


class RefReader(ABC):
    @abstractmethod
    def read(self, name: str) -> str | None:
        """Id that a ref holds, or None.

        :raises CorruptError: its file holds something else.
        """

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """Names of the refs that start with `prefix`, sorted."""

    def values(self, prefix: str) -> dict[str, str]:
        """Ids of these by name; "": it is damaged."""
        found = ((name, self._value(name)) for name in self.list(prefix))
        return {name: value for name, value in found if value is not None}

    def _value(self, name: str) -> str | None:
        """What `values` has; None: the ref was deleted just now, or leads to none."""
        try:
            return self.read(name)
        except CorruptError:
            return ""


class RefFiles(RefReader):
    """The refs that all worktrees of a repository share."""

    def __init__(self, common_dir: Path) -> None:
        self._common_dir = common_dir
        self._packed: tuple[tuple[int, int, int], dict[str, str], list[str]] | None = None

    def read(self, name: str) -> str | None:
        for _depth in range(_DEEPEST):
            try:
                content = (self._common_dir / name).read_text(encoding="ascii", errors="replace").strip()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return self._packed_refs().get(name)
            if is_id(content):
                return content
            if not content.startswith("ref: "):
                break
            name = content.removeprefix("ref: ").strip()
        raise damaged_ref(name, self._common_dir, f"corrupted loose reference file: {name}")

    def list(self, prefix: str) -> list[str]:
        loose = [*self._loose_names(prefix)]  # first: git packs a ref before it deletes its file
        return sorted({*loose, *self._packed_names(prefix)})

    def values(self, prefix: str) -> dict[str, str]:
        loose = [*self._loose_names(prefix)]
        packed = self._packed_refs()
        found = {name: packed.get(name) for name in self._packed_names(prefix)}
        found |= {name: self._value(name) for name in loose}
        return {name: value for name, value in sorted(found.items()) if value is not None}

    def _packed_names(self, prefix: str) -> Iterator[str]:
        self._packed_refs()
        names = self._packed[2] if self._packed is not None else []
        start = bisect_left(names, prefix)
        return takewhile(lambda name: name.startswith(prefix), islice(names, start, None))

    def _loose_names(self, prefix: str) -> Iterator[str]:
        top = os.fspath(self._common_dir)
        for folder, _folders, names in os.walk(self._common_dir / prefix.rpartition("/")[0]):
            inside = os.path.relpath(folder, top)
            for name in names:
                if not name.endswith(".lock") and f"{inside}/{name}".startswith(prefix):
                    yield f"{inside}/{name}"

    def _packed_refs(self) -> dict[str, str]:
        """Read again when the file is another one."""
        path = self._common_dir / "packed-refs"
        try:
            found = path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._packed is None or self._packed[0] != seen:
                lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
                pairs = (line.split(" ", 1) for line in lines if line[:1] not in ("", "#", "^"))
                refs = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
                self._packed = (seen, refs, sorted(refs))
        except FileNotFoundError:
            self._packed = None
            return {}
        return self._packed[1]


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def damaged_ref(name: str, common_dir: Path, why: str) -> CorruptError:
    # git itself does not delete such a ref.
    path = shlex.quote(str(common_dir / name))
    if name == ARCHIVE_REF:
        hint = f"git fsck --lost-found   (then, with its newest 'git-swarm archive': git update-ref {name} COMMIT)"
        return CorruptError(f"{name} is damaged: {why}; what is archived is found by no other ref", hint=hint)
    return CorruptError(f"{name} is damaged: {why}", hint=f"rm {path}   (then: git swarm list)")
