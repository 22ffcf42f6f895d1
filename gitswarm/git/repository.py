"""Finds the repository we stand in, refuses what cannot work, and holds what is needed to use it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2

from gitswarm.errors import NotARepositoryError, NotFoundError, UnsupportedRepositoryError
from gitswarm.git.diff import Diffs
from gitswarm.git.notes import Notes
from gitswarm.git.objects import Objects, Person
from gitswarm.git.process import Git, scrubbed
from gitswarm.git.refs import Refs
from gitswarm.git.sealed import SealedObjects

MINIMUM_GIT = (2, 38)
_CACHED_TREE_BYTES = 1 << 20
SHADOW_BRANCH = "refs/heads/shadow"
STAND_IN = Person("git-swarm", "git-swarm@git-swarm.invalid")


@dataclass(frozen=True, slots=True)
class LinkedWorktree:
    """A linked worktree as the repository records it; `path` may be gone."""

    path: Path
    git_dir: Path
    branch: str | None


class Repository:
    """One repository, opened from some checkout of it.

    `common_dir` is shared by all its worktrees; `checkout` is the working tree we stand in (None: bare);
    `checkout_git_dir` belongs to that checkout.
    """

    def __init__(self, place: Place, env: Mapping[str, str]) -> None:
        self.common_dir = place.common_dir
        self.checkout = place.checkout
        self.checkout_git_dir = place.git_dir
        self.env = scrubbed(env)
        # Old partial clones carry this extension; libgit2 can work with them, but wants to be told.
        pygit2.settings.set_extensions(["partialclone"])
        # Looks for every object that is named in a new tree, one file each. We name what we wrote or read just now.
        pygit2.settings.enable_strict_object_creation(value=False)
        # Trees above 4 KiB would be read from disk each time: a folder of 100 files is one.
        pygit2.settings.cache_object_limit(pygit2.enums.ObjectType.TREE, _CACHED_TREE_BYTES)
        try:
            self._pygit2 = pygit2.Repository(str(place.common_dir))
        except pygit2.GitError as error:
            raise UnsupportedRepositoryError(
                f"{place.common_dir}: libgit2 cannot open this repository: {error}",
                hint="git-swarm needs plain SHA-1 objects and file refs: git config --list --show-origin",
            ) from error
        self._durable = False
        self.objects = Objects(self._pygit2, self.git)
        self.refs = Refs(self._pygit2)
        self.diffs = Diffs(self._pygit2)

    @property
    def git(self) -> Git:
        """Git on the repository itself, without a working tree."""
        return self.git_in(self.common_dir, None)

    def git_in(self, git_dir: Path, work_tree: Path | None) -> Git:
        """Git on one of the worktrees."""
        return Git(self.env, git_dir, work_tree, self._durable)

    def survive_power_loss(self) -> None:
        """From now on objects and refs are flushed to disk (`swarm.durability = full`), for the whole process."""
        pygit2.settings.enable_fsync_gitdir(value=True)
        self._durable = True

    @property
    def checkout_git(self) -> Git:
        """Git on the checkout that we stand in: for reading only, it is not ours."""
        return self.git_in(self.checkout_git_dir, self.checkout)

    def sealed_objects(self) -> SealedObjects:
        """The objects once more, read and hashed anew: not what libgit2 remembers of them."""
        return SealedObjects(pygit2.Repository(self._pygit2.path))

    @property
    def main_folder(self) -> Path:
        """Folder that people call "the repository": the main checkout, or the bare repository itself."""
        return self.common_dir.parent if self.common_dir.name == ".git" else self.common_dir

    @property
    def swarm_dir(self) -> Path:
        """Local files of ours; nothing in it is needed on another machine."""
        return self.common_dir / "swarm"

    def notes(self, ref: str) -> Notes:
        return Notes(self.objects, self.refs, ref)

    def head_branch(self) -> str | None:
        """Full name of the branch that is checked out here; None when HEAD is detached."""
        return _branch_of(self.checkout_git_dir)

    def main_branch(self) -> str | None:
        """Full name of the branch that the main checkout stands on; None: a bare repository, a detached HEAD."""
        return _branch_of(self.common_dir) if self.common_dir.name == ".git" else None

    def resolve(self, revision: str) -> str:
        """Id of the commit that a person means.

        :raises NotFoundError: there is none.
        """
        git = Git(self.env, git_dir=self.checkout_git_dir)
        # In two steps: `:/text` takes everything behind it as its text.
        found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
        peeled = git.run("rev-parse", "--verify", "--quiet", f"{found.stdout.decode().strip()}^{{commit}}")
        if found.returncode != 0 or peeled.returncode != 0:
            raise NotFoundError(f"'{revision}' is not a commit", hint="git log --oneline --all | head")
        return peeled.stdout.decode().strip()

    def committer(self) -> Person:
        """The user's identity from git's configuration, or a stand-in; never a prompt."""
        name, email = self._text("user.name"), self._text("user.email")
        return Person(name, email) if name and email else STAND_IN

    def _text(self, key: str) -> str | None:
        """A configured value as text, whatever its bytes; None when it is not set."""
        done = self.git.run("config", "--get", key)
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    def config(self, prefix: str) -> dict[str, str]:
        """Configuration entries whose lower-cased name starts with `prefix`; the last value wins."""
        return {
            entry.name: entry.value or "true"
            for entry in self._pygit2.config
            if entry.name.lower().startswith(prefix)
        }

    def linked_worktrees(self) -> Iterator[LinkedWorktree]:
        for git_dir in sorted((self.common_dir / "worktrees").glob("*")):
            try:
                pointer = os.fsdecode((git_dir / "gitdir").read_bytes().removesuffix(b"\n"))
                branch = _branch_of(git_dir)
            except OSError:
                continue  # half removed by somebody else right now
            path = Path(pointer)
            path = path if path.is_absolute() else git_dir / path
            yield LinkedWorktree(path.parent, git_dir, branch)


def _branch_of(git_dir: Path) -> str | None:
    content = (git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    return content.removeprefix("ref: ") if content.startswith("ref: ") else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where discovery ended up."""

    common_dir: Path
    git_dir: Path
    checkout: Path | None


def open_repository(folder: Path, env: Mapping[str, str]) -> Repository:
    """The repository around `folder`: a subfolder, a linked worktree, a worktree of a bare clone.

    :raises NotARepositoryError: there is none.
    :raises UnsupportedRepositoryError: git-swarm cannot work on it; the message says why.
    """
    git = Git(scrubbed(env))
    _refuse_old_git(git)
    return Repository(_discover(git, folder), env)


def refuse_unready(repository: Repository) -> None:
    """What stands in the way of a new run in a repository that can be read.

    :raises UnsupportedRepositoryError: no commit yet, or a branch where ours have to go.
    """
    git = Git(repository.env, git_dir=repository.checkout_git_dir)
    if git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode != 0:
        raise UnsupportedRepositoryError(
            "this repository has no commit yet: a run branches off one",
            hint="git commit --allow-empty -m 'first commit'",
        )
    if repository.refs.read(SHADOW_BRANCH) is not None:
        raise UnsupportedRepositoryError(
            "a branch named 'shadow' is in the way: git cannot keep shadow/<run> beside it",
            hint="git branch -m shadow shadow-old",
        )


def _refuse_old_git(git: Git) -> None:
    said = git.output("--version").decode()
    found = re.search(r"(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < MINIMUM_GIT:
        needed = ".".join(str(part) for part in MINIMUM_GIT)
        raise UnsupportedRepositoryError(
            f"{said.strip()} is too old: git-swarm needs {needed}", hint="install a newer git"
        )


def _discover(git: Git, folder: Path) -> Place:
    done = git.run("rev-parse", "--is-inside-work-tree", "--show-object-format", cwd=folder)
    if done.returncode != 0:
        raise _not_usable(folder, done.stderr.decode(errors="replace"))
    inside, object_format = done.stdout.decode().split()
    _refuse_formats(git, folder, object_format)
    checkout = _path(git, folder, "--show-toplevel") if inside == "true" else None
    return Place(_path(git, folder, "--git-common-dir"), _path(git, folder, "--git-dir"), checkout)


def _path(git: Git, folder: Path, question: str) -> Path:
    """One answer per call: a path may hold any byte but NUL, line ends too."""
    said = git.output("rev-parse", "--path-format=absolute", question, cwd=folder)
    return Path(os.fsdecode(said.removesuffix(b"\n")))


def _refuse_formats(git: Git, folder: Path, object_format: str) -> None:
    if object_format != "sha1":
        raise UnsupportedRepositoryError(
            f"this repository stores {object_format} objects, which libgit2 cannot read",
            hint="use a SHA-1 repository: git clone it into one made by git init --object-format=sha1",
        )
    storage = git.run("config", "--get", "extensions.refstorage", cwd=folder).stdout.decode().strip()
    if storage not in ("", "files"):
        raise UnsupportedRepositoryError(
            f"this repository keeps its refs as {storage}, which libgit2 cannot read",
            hint="git refs migrate --ref-format=files",
        )


def _not_usable(folder: Path, said: str) -> NotARepositoryError | UnsupportedRepositoryError:
    if "dubious ownership" in said:
        return UnsupportedRepositoryError(
            f"{folder}: this repository belongs to another user, and git refuses to use it",
            hint=f"if you trust it: git config --global --add safe.directory {folder}",
        )
    if "refstorage" in said.lower() or "objectformat" in said.lower() or "repository extension" in said:
        return UnsupportedRepositoryError(
            f"{folder}: this git cannot read the repository: {said.strip().removeprefix('fatal: ')}",
            hint="git-swarm needs plain SHA-1 objects and file refs",
        )
    gone = re.search(r"not a git repository: (.+/worktrees/[^/\n]+)", said)
    if gone:
        return NotARepositoryError(
            f"{folder} is a worktree of a repository that is not there any more: {gone[1]}",
            hint="cd to where the repository is now, then: git swarm resume",
        )
    return NotARepositoryError(
        f"{folder} is not in a git repository",
        hint="cd into one, or: git init && git commit --allow-empty -m start",
    )
