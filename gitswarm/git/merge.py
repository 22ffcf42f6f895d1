"""Merges trees without a worktree, and finds where histories parted; a conflict is a value."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from msgspec import Struct

from gitswarm.errors import GitFailedError
from gitswarm.git.commits import NewCommit
from gitswarm.git.reader import STAND_IN
from gitswarm.git.repository import Repository

_CONFLICTED = 1
_UNRELATED = 1
_EPOCH = datetime.fromtimestamp(0, UTC)


class Merged(Struct, frozen=True):
    """`tree` holds conflict markers where there are `conflicts`."""

    tree: str
    conflicts: tuple[str, ...]


def merge_trees(repository: Repository, base: str, ours: str, theirs: str) -> Merged:
    """What two changes of the tree `base` are together.

    :raises GitFailedError: git could not say.
    """
    # `git merge-tree` takes commits and looks for their base by itself (--merge-base came with git 2.40).
    root = _commit(repository, base)
    sides = [_commit(repository, tree, root) for tree in (ours, theirs)]
    done = repository.git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *sides)
    if done.returncode not in (0, _CONFLICTED):
        raise GitFailedError(
            f"git merge-tree failed: {done.stderr.decode(errors='replace').strip()}", hint="git fsck --full"
        )
    tree, *names = done.stdout.rstrip(b"\0").split(b"\0")
    return Merged(tree.decode().strip(), tuple(sorted({os.fsdecode(name) for name in names if name})))


def merge_bases(repository: Repository, one: str, other: str) -> tuple[str, ...]:
    """The best common ancestors of two commits: none for unrelated histories, several after criss-cross merges.

    :raises GitFailedError: git could not say.
    """
    done = repository.git.run("merge-base", "--all", one, other)
    if done.returncode not in (0, _UNRELATED):
        raise GitFailedError(
            f"git merge-base failed: {done.stderr.decode(errors='replace').strip()}", hint="git fsck --full"
        )
    return tuple(sorted(done.stdout.decode().split()))


def _commit(repository: Repository, tree: str, *parents: str) -> str:
    """The same trees make the same commit, whenever and by whomever it is made."""
    return repository.objects.write_commit(NewCommit(tree, parents, "merge\n", STAND_IN, STAND_IN, _EPOCH))
