"""How much room a folder takes."""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = 512  # what `st_blocks` counts in, everywhere that Python knows


def disk_bytes(folder: Path) -> int:
    """Bytes that the files below a folder occupy; one with several names counts once. Links are not followed.

    Files that go while we look, or that cannot be seen, count nothing.
    """
    total = 0
    pending = [os.fspath(folder)]
    several: set[tuple[int, int]] = set()
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_nlink > 1:
                if (found.st_dev, found.st_ino) in several:
                    continue
                several.add((found.st_dev, found.st_ino))
            total += found.st_blocks * _BLOCK
    return total
