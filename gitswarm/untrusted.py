"""Files that an agent may have made: read without waiting, listed and removed however deep they are.

The standard library's own calls wait for ever at a FIFO, read `/dev/zero` until memory is gone, and end with a
RecursionError some thousand folders down.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

LIMIT_BYTES = 1 << 20
_DEEPEST = 64


_NAME_BYTES = 200
"""Of the 255 that a file system takes."""


def next_name(store: Path, path: str) -> Path:
    """Where a folder keeps what lies at a path: numbered, with so much of the path as a name can have."""
    name = path.replace("/", "_")[:80].encode(errors="replace")[:_NAME_BYTES].decode(errors="ignore")
    return store / f"{len(list(store.iterdir())) + 1}-{name}"


def read_file(path: Path, limit: int = LIMIT_BYTES) -> bytes:
    """Content of a regular file; a link is followed.

    :raises OSError: there is none, it is no regular file, or it has more bytes than `limit`.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
            raise OSError(f"{path} is no file of at most {limit} bytes")
        with os.fdopen(opened, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(opened)


def files_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files, at most 64 folders down, no link followed; what cannot be read is left out."""
    pending = [(folder, 0)]
    while pending:
        here, depth = pending.pop()
        try:
            with os.scandir(here) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode):
                yield here / entry.name, about
            elif stat.S_ISDIR(about.st_mode) and depth < _DEEPEST:
                pending.append((here / entry.name, depth + 1))


def remove_tree(folder: Path) -> None:
    """Removes a folder and what is in it, as far as this user may; a link is not followed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)
