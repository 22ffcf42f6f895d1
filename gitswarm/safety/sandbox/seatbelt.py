"""macOS: a profile for sandbox-exec. Made and tested as text; it was never run on a Mac."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from gitswarm.containment import EVERY_HOST
from gitswarm.safety.sandbox.machine import Mount, shown, writable

_ALWAYS_WRITTEN = ("/private/tmp", "/private/var/folders", "/dev")
_HEAD = """(version 1)
(allow default)
(deny file-write*)
"""


class Seatbelt(Struct, frozen=True):
    """Writes only where mounts say so, reads nothing of `home` but what they show. It replaces no file: where
    bubblewrap would put something else in a file's place, this one denies it."""

    home: Path | None
    mounts: tuple[Mount, ...] = ()
    name: str = "sandbox-exec"
    depth: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[str] = EVERY_HOST
    refused: Sequence[str] = ()

    def showing(self, *mounts: Mount) -> Seatbelt:
        return replace(self, mounts=(*self.mounts, *mounts))

    def opened(self, *, read: Sequence[Path] = (), write: Sequence[Path] = ()) -> Seatbelt:
        """See `Containment`."""
        return self.showing(*map(shown, read), *map(writable, write))

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """See `Containment`."""
        return ["/usr/bin/sandbox-exec", "-p", profile(self.home, self.mounts), *argv]

    def served(self) -> AbstractContextManager[None]:
        """See `Containment`."""
        return nullcontext()


def profile(home: Path | None, mounts: Sequence[Mount]) -> str:
    """Rules in order; the last one that fits a path decides."""
    rules = [_HEAD]
    if home is not None:
        rules.append(f"(deny file-read* {_below(home)})\n(allow file-read-metadata {_below(home)})\n")
    rules += [f"(allow file-write* {_below(Path(path))})\n" for path in _ALWAYS_WRITTEN]
    for mount in sorted(mounts, key=lambda each: each.target.parts):
        rules.append(_rule(mount))
    return "".join(rules)


def _rule(mount: Mount) -> str:
    place = _below(mount.target)
    if not mount.is_itself:
        return f"(deny file-read* file-write* {place})\n"
    if mount.kind == "write":
        return f"(allow file-read* file-write* {place})\n"
    return f"(allow file-read* {place})\n(deny file-write* {place})\n"


def _below(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{text}")'
