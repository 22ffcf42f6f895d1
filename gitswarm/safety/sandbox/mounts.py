"""What a sandbox shows, as a list of mounts in the order in which they are made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct

Kind = Literal["read", "write", "empty"]


class Mount(Struct, frozen=True):
    """`source` None: an empty folder in memory, of at most `size` bytes, stands at `target`."""

    target: Path
    source: Path | None
    kind: Kind
    size: int = 0

    @property
    def is_itself(self) -> bool:
        return self.source == self.target


def shown(path: Path) -> Mount:
    """To be read, where it is."""
    return Mount(path, path, "read")


def writable(path: Path) -> Mount:
    return Mount(path, path, "write")


def covered(path: Path, by: Path) -> Mount:
    """Something else, to be read, in its place."""
    return Mount(path, by, "read")


def replaced(path: Path, by: Path) -> Mount:
    """Something else, to be written, in its place."""
    return Mount(path, by, "write")


def emptied(path: Path, size: int) -> Mount:
    return Mount(path, None, "empty", size)


def ordered(mounts: Iterable[Mount]) -> list[Mount]:
    """Outer folders first; of one target the last; without those that a mount around them shows anyway."""
    wanted = {mount.target: mount for mount in mounts}
    kept: dict[Path, Mount] = {}
    for target in sorted(wanted, key=lambda path: path.parts):
        mount = wanted[target]
        around = next((kept[parent] for parent in target.parents if parent in kept), None)
        is_there = around is not None and around.is_itself and mount.is_itself
        if not (is_there and around is not None and around.kind == mount.kind):
            kept[target] = mount
    return list(kept.values())
