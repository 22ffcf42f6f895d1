"""Finds the repository we stand in, refuses what cannot work, and holds what is needed to use it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gitswarm.errors import NotFoundError, UnsupportedRepositoryError
from gitswarm.git.discovery import SPARSE_PATHS, RepositoryPaths, discover, refuse_old_git
from gitswarm.git.libgit2 import pygit2
from gitswarm.git.notes import Notes
from gitswarm.git.objects import Objects
from gitswarm.git.packing import NewObjects, Packing
from gitswarm.git.process import Git, scrubbed
from gitswarm.git.reader import RepositoryReader
from gitswarm.git.refs import Refs
from gitswarm.git.sealed import SealedObjects
from gitswarm.git.tree_changes import Diffs

_CACHED_TREE_BYTES = 1 << 20
_CACHED_BYTES = 2 << 20
_FIRST = 1_000
"""Before the backends for files, which would look at the disk first."""

_GROUP, _ALL = 0o660, 0o664
_SHARED = {
    **dict.fromkeys(("group", "true", "yes", "on", "1"), _GROUP),
    **dict.fromkeys(("all", "world", "everybody", "2"), _ALL),
}
"""What git adds to the permissions of a file."""

_HEADS = "refs/heads/"
SHADOW_BRANCH = f"{_HEADS}shadow"


class Repository(RepositoryReader):
    """A repository that is written to as well."""

    objects: Objects
    refs: Refs
    is_for_reading = False

    def __init__(self, paths: RepositoryPaths, env: Mapping[str, str]) -> None:
        # Old partial clones carry this extension; libgit2 can work with them, but wants to be told.
        pygit2.settings.set_extensions(["partialclone"])
        # Looks for every object that is named in a new tree, one file each. We name what we wrote or read just now.
        pygit2.settings.enable_strict_object_creation(value=False)
        # Trees above 4 KiB would be read from disk each time: a folder of 100 files is one.
        pygit2.settings.cache_object_limit(pygit2.enums.ObjectType.TREE, _CACHED_TREE_BYTES)
        # A step reads what the one before it wrote; what older ones wrote would stay in memory, 20 KB a step.
        pygit2.settings.cache_max_size(_CACHED_BYTES)
        try:
            self._pygit2 = pygit2.Repository(str(paths.common_dir))
        except pygit2.GitError as error:
            raise UnsupportedRepositoryError(
                f"{paths.common_dir}: libgit2 cannot open this repository: {error}",
                hint="git-swarm needs plain SHA-1 objects and file refs: git config --list --show-origin",
            ) from error
        clean = scrubbed(env)
        git = Git(clean, paths.common_dir)
        self._packing = Packing(Path(self._pygit2.path, "objects"), self._look_anew)
        self._look_anew()
        objects, refs = Objects(self._pygit2, self._packing, git), Refs(self._pygit2, self._packing, git)
        super().__init__(paths, clean, objects, refs)
        self.diffs = Diffs(self._pygit2)

    def _look_anew(self) -> None:
        odb = pygit2.Odb(str(Path(self._pygit2.path, "objects")))
        odb.add_backend(NewObjects(self._packing), _FIRST)
        self._pygit2.set_odb(odb)

    def git_in(self, git_dir: Path, work_tree: Path | None) -> Git:
        """
        :param git_dir: of a worktree; one with a file `swarm-paths` is sparse.
        """
        sparse = (git_dir / SPARSE_PATHS).exists()
        return Git(self.env, git_dir, work_tree, self._durable, self._packing.flush, sparse)

    @contextmanager
    def packed(self) -> Iterator[None]:
        """What is written meanwhile ends up in one pack; without it, and after a kill, in a few dozen at most."""
        try:
            yield
        finally:
            self._packing.join()

    def refuse_old_git(self) -> None:
        """
        :raises UnsupportedRepositoryError: this git lacks what runs need.
        """
        refuse_old_git(self.git)

    def mark_processes(self, name: str, value: str) -> None:
        """From now on every git process that is started here has this variable in its environment."""
        self.env[name] = value

    def survive_power_loss(self) -> None:
        """From now on objects and refs are flushed to disk (`swarm.durability = full`), for the whole process."""
        pygit2.settings.enable_fsync_gitdir(value=True)
        self._packing.durable = True
        self._durable = True

    def share(self) -> None:
        """From now on new files have the permissions that `core.sharedRepository` gives them (git-config(1)); libgit2
        leaves that to the caller."""
        config = self._pygit2.config
        shared = (config["core.sharedrepository"] or "").lower() if "core.sharedrepository" in config else ""
        is_mode = re.fullmatch("0[0-7]{3}", shared)
        mode = int(shared, 8) if is_mode else _SHARED.get(shared, 0)
        allowed = mode | (mode & 0o444) >> 2  # folders are entered by those who may read
        os.umask((0o777 if is_mode else os.umask(0o077)) & ~allowed)

    def sealed_objects(self) -> SealedObjects:
        """The objects, read and hashed anew: not what libgit2 remembers of them."""
        return SealedObjects(pygit2.Repository(self._pygit2.path), self.git)

    def notes(self, ref: str) -> Notes:
        return Notes(self.objects, self.refs, ref)


def open_repository(folder: Path, env: Mapping[str, str]) -> Repository:
    """The repository around `folder`: a subfolder, a linked worktree, a worktree of a bare clone.

    :raises NotARepositoryError: there is none.
    :raises UnsupportedRepositoryError: git-swarm cannot work on it; the message says why.
    """
    return Repository(discover(env, folder), env)


def refuse_unready(repository: Repository, base: str = "HEAD") -> None:
    """What stands in the way of a new run in a repository that can be read.

    :param base: what the run is to branch off, as somebody named it.
    :raises UnsupportedRepositoryError: no commit yet, or a branch where ours have to go.
    """
    repository.refuse_old_git()
    if base == "HEAD" and not _has_commit(repository):
        branches = repository.refs.list(_HEADS)
        if branches:
            raise UnsupportedRepositoryError(
                "the branch that is checked out has no commit yet: a run branches off one",
                hint=f"git swarm start … --base {branches[0].removeprefix(_HEADS)}",
            )
        commit = "git commit --allow-empty -m 'first commit'"
        main = shlex.quote(str(repository.main_folder))
        bare = f"git clone {main} first && cd first && {commit} && git push origin HEAD"
        raise UnsupportedRepositoryError(
            "this repository has no commit yet: a run branches off one",
            hint=commit if repository.checkout is not None else bare,
        )
    if repository.refs.read(SHADOW_BRANCH) is not None:
        raise UnsupportedRepositoryError(
            "a branch named 'shadow' is in the way: git cannot keep shadow/<run> beside it",
            hint="git branch -m shadow shadow-old",
        )


def _has_commit(repository: Repository) -> bool:
    """Whether HEAD, of the checkout that we stand in, leads to a commit."""
    try:
        return bool(repository.resolve("HEAD"))
    except NotFoundError:
        return False
