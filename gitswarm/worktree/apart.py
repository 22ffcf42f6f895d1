"""Files that hold a secret, kept where neither a commit nor an agent takes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gitswarm.records.secrets import Scrub
from gitswarm.worktree.search import Flagged
from gitswarm.worktree.shadow import Shadow


def keep_copy(shadow: Shadow, item: Flagged, store: Path, scrub: Scrub) -> str:
    """Copies a file as it lies in the worktree into `store`, readable for its owner alone; its name there."""
    store.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = len(list(store.iterdir())) + 1
    name = scrub(item.path.replace("/", "_"))[:80]
    target = store / f"{number}-{name.encode(errors='replace').decode()}"
    source = shadow.path / item.path
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return target.name
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as given, os.fdopen(handle, "wb") as kept:
        shutil.copyfileobj(given, kept)
    return target.name


def put_former_back(shadow: Shadow, flagged: Sequence[Flagged]) -> None:
    """Makes these files in the worktree what the index says: their former version, or nothing."""
    for item in flagged:
        (shadow.path / item.path).unlink(missing_ok=True)
    names = [item.path for item in flagged if item.former.old_id is not None]
    if names:
        listed = b"".join(os.fsencode(name) + b"\0" for name in names)
        shadow.git.output("checkout-index", "-f", "-u", "-z", "--stdin", stdin=listed)
