"""Changed files as they lie on disk, where git refuses to stage them: an encoding that it does not know, a required
filter that fails."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence

from gitswarm.git.incoming import Incoming
from gitswarm.worktree.shadow import Shadow

_AT_ONCE = 500
_DOTGIT = re.compile(rb"(?<![^/])(\.git|git~)[^/]*", re.IGNORECASE)
_GONE = f"0 {'0' * 40}"


def add_unconverted(shadow: Shadow, incoming: Incoming, paths: Sequence[str], left_out: Collection[str]) -> None:
    """Enters into the index of `incoming` what differs there from the worktree. No attribute has an effect.

    :param paths: pathspecs of what is looked at.
    :param left_out: files that are not.
    """
    changed = [name for name in _changed(shadow, incoming, paths) if os.fsdecode(name) not in left_out]
    lines: list[bytes] = []
    regular: list[tuple[bytes, str]] = []
    for name in changed:
        try:
            found = (shadow.path / os.fsdecode(name)).lstat()
        except (FileNotFoundError, NotADirectoryError):
            lines.append(_line(_GONE, name))
            continue
        if stat.S_ISLNK(found.st_mode):
            target = os.fsencode((shadow.path / os.fsdecode(name)).readlink())
            made = shadow.git.output("hash-object", "-w", "--stdin", stdin=target, extra_env=incoming.env)
            lines.append(_line(f"120000 {made.decode().strip()}", name))
        elif stat.S_ISREG(found.st_mode):
            regular.append((name, "100755" if found.st_mode & stat.S_IXUSR else "100644"))
    for start in range(0, len(regular), _AT_ONCE):
        some = regular[start : start + _AT_ONCE]
        names = [os.fsdecode(name) for name, _mode in some]
        made = shadow.git.output("hash-object", "-w", "--no-filters", "--", *names, extra_env=incoming.env)
        ids = made.decode().split()
        lines += [_line(f"{mode} {blob_id}", name) for (name, mode), blob_id in zip(some, ids, strict=True)]
    _enter(shadow, incoming, lines)


def _enter(shadow: Shadow, incoming: Incoming, lines: Sequence[bytes]) -> None:
    """Paths that no index can hold get a name beside theirs: what is in the files is not lost."""
    if not _ignores(shadow, incoming, b"".join(lines)):
        return
    for line in lines:
        if _ignores(shadow, incoming, line):
            about, tab, name = line.partition(b"\t")
            _ignores(shadow, incoming, about + tab + _DOTGIT.sub(rb"_\g<0>", name))


def _ignores(shadow: Shadow, incoming: Incoming, lines: bytes) -> bool:
    """Enters what it can; whether git said that it left a path out, which it does not by its exit code."""
    entered = shadow.git.succeed("update-index", "-z", "--index-info", stdin=lines, extra_env=incoming.env)
    return b"Ignoring path" in entered.stderr


def _changed(shadow: Shadow, incoming: Incoming, paths: Sequence[str]) -> Iterator[bytes]:
    """Tracked files that look changed, then untracked ones; repositories of their own are neither."""
    quiet = ("--raw", "-z", "--no-renames", "--ignore-submodules=all")
    listed = shadow.git.output("diff-files", *quiet, "--", *paths, extra_env=incoming.env).split(b"\0")
    yield from listed[1::2]
    others = ("ls-files", "--others", "--exclude-standard", "-z", "--", *paths)
    for name in shadow.git.output(*others, extra_env=incoming.env).split(b"\0"):
        if name and not name.endswith(b"/"):
            yield name


def _line(about: str, name: bytes) -> bytes:
    return f"{about}\t".encode() + name + b"\0"
