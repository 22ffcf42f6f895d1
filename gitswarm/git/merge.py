"""Merges trees without a worktree, finds where histories parted, and makes repositories to try something out in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import GitFailedError
from gitswarm.git.object_reader import NewCommit, Person
from gitswarm.git.process import Git, scrubbed
from gitswarm.git.reader import STAND_IN
from gitswarm.git.repository import Repository, open_repository
from gitswarm.records.record import readable


def create_repository(folder: Path, env: Mapping[str, str], author: Person, message: str) -> None:
    """`git init` in `folder`, and one commit by `author` of everything that lies there.

    Nothing of the user's git configuration takes part: no identity, template, hook, signature or ignore file,
    no object or ref format that libgit2 cannot read.

    :raises GitFailedError: git refused.
    """
    clean = scrubbed(env)
    formats = ("-c", "init.defaultRefFormat=files", "init", "--object-format=sha1")
    Git(clean).output(*formats, "--quiet", "--template=", "--initial-branch=main", "--", str(folder))
    git = Git(clean, git_dir=folder / ".git", work_tree=folder)
    git.output("add", "--all", "--force", "--", ".")
    who = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": author.name,
        "GIT_COMMITTER_EMAIL": author.email,
    }
    git.output("commit", "--quiet", "--no-gpg-sign", "--no-status", "-m", message, extra_env=who)


@contextmanager
def merging_repository(repository: Repository) -> Iterator[Repository]:
    """A bare repository without refs in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="git-swarm-") as folder:
        path = Path(folder)
        formats = ("-c", "init.defaultRefFormat=files", "init", "--object-format=sha1")
        Git(repository.env).output(*formats, "--quiet", "--bare", "--template=", "--", str(path), cwd=path)
        alternates = path / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_bytes(os.fsencode(repository.common_dir / "objects") + b"\n")
        shallow = repository.common_dir / "shallow"
        if shallow.exists():
            shutil.copy(shallow, path)
        yield open_repository(path, repository.env)


_CONFLICTED = 1
_UNRELATED = 1
_EPOCH = datetime.fromtimestamp(0, UTC)


class Merged(Struct, frozen=True):
    """`tree` holds conflict markers where there are `conflicts`."""

    tree: str
    conflicts: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The conflicts as text that can be stored."""
        return tuple(map(readable, self.conflicts))


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
    """Makes a commit that is the same for the same trees, whenever and by whomever it is made."""
    return repository.objects.write_commit(NewCommit(tree, parents, "merge\n", STAND_IN, STAND_IN, _EPOCH))
