"""Chooses the place of a run's linked worktree; adds, finds and moves it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import SetupFailedError
from gitswarm.git.discovery import MADE_FOR, SETUP_FAILED, LinkedWorktree, pointer
from gitswarm.git.locks import Locks
from gitswarm.git.objects import Objects
from gitswarm.git.process import Git
from gitswarm.git.repository import Repository
from gitswarm.untrusted import remove_tree
from gitswarm.worktree.push_block import block_pushes, is_initialised
from gitswarm.worktree.sparse import hide_missing, narrow
from gitswarm.worktree.target_checkouts import main_checkout

_SET_UP = "swarm-set-up"
_OURS = "refs/swarm/"


class Shadow(Struct, frozen=True):
    """The worktree of a run. `branch` is the full name of the shadow branch, or the commit that a detached HEAD
    stands on.

    Only one that is worked in knows the commit that the run branched off, and the paths of the submodules there.
    """

    path: Path
    git_dir: Path
    branch: str
    git: Git
    objects: Objects
    base: str = ""
    submodules: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """Content of its HEAD."""
        return f"{self.branch}\n" if self.is_detached else f"ref: {self.branch}\n"

    @property
    def is_detached(self) -> bool:
        return not self.branch.startswith("refs/")

    @property
    def is_set_up(self) -> bool:
        """Checkout, copies and setup command were completed once."""
        return (self.git_dir / _SET_UP).exists()

    @property
    def set_up_ns(self) -> int | None:
        """When that was, in nanoseconds since 1970."""
        try:
            return (self.git_dir / _SET_UP).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    @property
    def copied(self) -> tuple[str, ...]:
        """Files that were copied into the worktree when it was set up, relative to it."""
        try:
            content = (self.git_dir / _SET_UP).read_bytes()
        except FileNotFoundError:
            return ()
        names = (os.fsdecode(name) for name in content.split(b"\0") if name)
        # The file may be corrupt: a name that leads out of the worktree was never one of ours.
        return tuple(name for name in names if not name.startswith("/") and ".." not in name.split("/"))

    def remember_set_up(self, copied: Sequence[str]) -> None:
        staged = self.git_dir / f"{_SET_UP}.tmp"
        staged.write_bytes(b"\0".join(os.fsencode(name) for name in copied))
        staged.replace(self.git_dir / _SET_UP)
        (self.git_dir / SETUP_FAILED).unlink(missing_ok=True)

    def remember_failed_setup(self, why: str) -> None:
        (self.git_dir / SETUP_FAILED).write_text(why, encoding="utf-8")


class Placement(Struct, frozen=True):
    """Where worktrees go: `override` is the user's own folder, `state_home` the XDG fallback."""

    override: Path | None
    state_home: Path


class PutAway(Struct, frozen=True):
    """The files of a worktree, where they were, and which of them were copied there when it was set up. `paths`: the
    folders that it holds; (): all."""

    folder: Path
    path: Path
    copied: Sequence[str]
    paths: Sequence[str]


def choose_path(repository: Repository, run_id: str, placement: Placement) -> Path:
    """`../<repo>.swarm/<run>`: next to the repository, so that no tool in it walks up into the user's files."""
    main = repository.main_folder
    if placement.override is not None:
        return Path(os.path.normpath(main / placement.override)) / run_id
    sibling = main.parent / f"{main.name.removesuffix('.git')}.swarm"
    if os.access(sibling if sibling.exists() else main.parent, os.W_OK | os.X_OK):
        return sibling / run_id
    repository_id = hashlib.sha256(str(repository.common_dir).encode()).hexdigest()[:12]
    return placement.state_home / "git-swarm" / repository_id / run_id


def find_shadow(repository: Repository, branch: str) -> Shadow | None:
    """The worktree that was made for `branch` and still exists, whatever is checked out in it by now."""
    found = repository.worktree_made_for(branch)
    return None if found is None else _shadow(repository, found.path, found.git_dir, branch)


def recorded_path(repository: Repository, branch: str) -> Path | None:
    """Where git believes the worktree of `branch` to be, there or not."""
    return next((linked.path for linked in repository.linked_worktrees() if linked.made_for == branch), None)


def checked_out_elsewhere(repository: Repository, branch: str) -> Path | None:
    """A checkout of somebody else that stands on `branch`: commits would go away under its files."""
    for linked in repository.linked_worktrees():
        if linked.branch == branch and _is_somebody_elses(linked, branch) and linked.path.is_dir():
            return linked.path
    return main_checkout(repository) or repository.common_dir if repository.main_branch() == branch else None


def _is_somebody_elses(linked: LinkedWorktree, branch: str) -> bool:
    made_for = linked.made_for
    return made_for != branch and not (made_for or "").startswith(_OURS)


def follow_moved(repository: Repository, branch: str, expected: Path) -> Shadow | None:
    """Takes note of a worktree that was moved together with its repository; None: it does not lie at `expected`."""
    for linked in repository.linked_worktrees():
        if linked.made_for == branch and not linked.path.is_dir() and _points_to(expected, linked.git_dir.name):
            return _shadow(repository, expected, linked.git_dir, branch)
    return None


def lost_worktrees(repository: Repository, known: Collection[str]) -> Iterator[Path]:
    """What git keeps about worktrees that are gone, of runs that are not among the `known` ids."""
    for linked in repository.linked_worktrees():
        made_for = linked.made_for or ""
        marked = (linked.git_dir / MADE_FOR).is_file() and not made_for.startswith(_OURS)
        run = made_for.rpartition("/")[2]
        if marked and run not in known and not linked.path.is_dir():
            yield linked.git_dir


def _points_to(folder: Path, name: str) -> bool:
    """Whether `folder` was the worktree of this name, of a repository that is not where it was."""
    target = pointer(folder)
    return target is not None and target.name == name and target.parent.name == "worktrees" and not target.exists()


def is_ours(linked: LinkedWorktree) -> bool:
    """Whether the worktree was made for a run, or for one of its steps."""
    return (linked.git_dir / MADE_FOR).exists()


def add_shadow(repository: Repository, branch: str, path: Path, locks: Locks, paths: Sequence[str] = ()) -> Shadow:
    """Registers the worktree at `path` under the repository lock, then fills it without the lock.

    :param paths: the folders that it holds; (): all.
    :raises SetupFailedError: the folder cannot be made.
    """
    with locks.repository():
        shadow = _register(repository, branch, path, paths)
    fill(shadow)
    return shadow


def _register(repository: Repository, branch: str, path: Path, paths: Sequence[str]) -> Shadow:
    refuse_place(repository, branch.rpartition("/")[2], path)
    _make_parent(path)
    # Only --force adds again what was registered once and then deleted by hand.
    name = branch.removeprefix("refs/heads/")
    repository.git.output("worktree", "add", "--force", "--no-checkout", "--quiet", str(path), name)
    shadow = find_shadow(repository, branch)
    if shadow is None:
        raise SetupFailedError(f"{path}: git made no worktree there", hint="git worktree list")
    mark_made_for(shadow.git_dir, branch)
    if is_initialised(repository):
        block_pushes(repository, shadow.git_dir)
    return narrowed(repository, shadow, paths)


def narrowed(repository: Repository, shadow: Shadow, paths: Sequence[str]) -> Shadow:
    """The same worktree, which holds only these folders when it is filled."""
    narrow(shadow.git_dir, paths)
    return replace(shadow, git=repository.git_in(shadow.git_dir, shadow.path))


def mark_made_for(git_dir: Path, name: str) -> None:
    """Remembers whose worktree it is, whatever somebody checks out in it."""
    (git_dir / MADE_FOR).write_text(name, encoding="utf-8")


def put_away(shadow: Shadow, folder: Path, locks: Locks) -> None:
    """Moves the files of a worktree to `folder`; git knows of them no more."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locks.repository():
        remove_tree(folder)
        shadow.path.rename(folder)
        (folder / ".git").unlink(missing_ok=True)
        shutil.rmtree(shadow.git_dir)


def bring_back(repository: Repository, branch: str, away: PutAway, locks: Locks) -> None:
    """The opposite of `put_away`. The files stay as they are; the index is that of the branch.

    Does nothing when the files are gone, or the worktree has files already.
    """
    found = find_shadow(repository, branch)
    if not away.folder.is_dir() or (found is not None and any(each.name != ".git" for each in found.path.iterdir())):
        return
    with locks.repository():
        if found is not None:  # who was to bring the files was killed
            (found.path / ".git").unlink(missing_ok=True)
            found.path.rmdir()
            shutil.rmtree(found.git_dir)
        shadow = _register(repository, branch, away.path, away.paths)
        (shadow.path / ".git").rename(away.folder / ".git")
        shadow.path.rmdir()
        away.folder.rename(shadow.path)
    shadow.git.output("read-tree", "--reset", shadow.branch)
    if away.paths:
        hide_missing(shadow.git, shadow.git_dir, shadow.path)
    shadow.remember_set_up(away.copied)
    os.utime(shadow.git_dir / _SET_UP, (0, 0))  # nothing says any more which files came later


def refuse_place(repository: Repository, run: str, path: Path) -> None:
    """
    :raises SetupFailedError: the worktree of a run cannot be made there.
    """
    quoted = shlex.quote(str(path))
    if path.is_symlink() or path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise SetupFailedError(
            f"{path} is in the way: the worktree of {run} has to be made there",
            hint=f"mv {quoted} {quoted}.old && git swarm resume {run}",
        )
    for linked in repository.linked_worktrees():
        if linked.path == path and (linked.git_dir / "locked").exists():
            raise SetupFailedError(
                f"{path} is gone, and somebody locked that worktree: is a disk not mounted?",
                hint=f"git worktree unlock {quoted} && git swarm resume {run}",
            )


def fill(shadow: Shadow) -> None:
    """Checks out the branch's tip; hooks off, filters on (LFS), sparse patterns honoured."""
    shadow.git.output("read-tree", "--reset", "-u", shadow.branch)


def reattach(shadow: Shadow) -> list[str]:
    """Puts HEAD and the pointers between the worktree and git back where they belong; what had to be put back."""
    wanted = {
        shadow.git_dir / "commondir": b"../..\n",
        shadow.git_dir / "gitdir": os.fsencode(shadow.path / ".git") + b"\n",
        shadow.git_dir / "HEAD": shadow.head.encode(),
        shadow.path / ".git": b"gitdir: " + os.fsencode(shadow.git_dir) + b"\n",
    }
    moved = []
    for path, content in wanted.items():
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
            _replace(path, content)
            moved.append(path.name)
    return moved


def _replace(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    staged = path.with_name(f"{path.name}.swarm")
    staged.write_bytes(content)
    staged.replace(path)


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupFailedError(
            f"{path.parent}: cannot make the folder for worktrees: {error.strerror}",
            hint="git config swarm.worktreeDir /a/folder/you/may/write",
        ) from error


def _shadow(repository: Repository, path: Path, git_dir: Path, branch: str) -> Shadow:
    return Shadow(path, git_dir, branch, repository.git_in(git_dir, path), repository.objects)
