"""Where the repository is that a folder belongs to, which linked worktrees it has, and what cannot be worked in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import NotARepositoryError, UnsupportedRepositoryError
from gitswarm.git.process import Git, scrubbed

MADE_FOR = "swarm-branch"
SPARSE_PATHS = "swarm-paths"
"""File in the folder that git keeps for a worktree: the full name of the branch, or the ref, that it was made for."""

SETUP_FAILED = "swarm-setup-failed"
"""File there: why the worktree could not be set up."""


class LinkedWorktree(Struct, frozen=True):
    """A linked worktree as the repository records it; `path` may be gone."""

    path: Path
    git_dir: Path
    branch: str | None

    @property
    def made_for(self) -> str | None:
        """Whose worktree it is, whatever somebody checks out in it."""
        try:
            text = (self.git_dir / MADE_FOR).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return self.branch
        return text if text.startswith("refs/") else self.branch


def linked_worktrees(common_dir: Path) -> Iterator[LinkedWorktree]:
    for git_dir in sorted((common_dir / "worktrees").glob("*")):
        try:
            pointer = os.fsdecode((git_dir / "gitdir").read_bytes().removesuffix(b"\n"))
            branch = branch_of(git_dir)
        except OSError:
            continue  # half removed by somebody else right now
        path = Path(pointer)
        path = path if path.is_absolute() else git_dir / path
        yield LinkedWorktree(path.parent, git_dir, branch)


def branch_of(git_dir: Path) -> str | None:
    """Full name of the branch that is checked out; None when HEAD is detached."""
    content = (git_dir / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    return content.removeprefix("ref: ") if content.startswith("ref: ") else None


def pointer(folder: Path) -> Path | None:
    """What the `.git` file in a worktree names."""
    try:
        text = (folder / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return Path(text.removeprefix("gitdir: ").rstrip("\n")) if text.startswith("gitdir: ") else None


def belongs_to_another(linked: LinkedWorktree) -> bool:
    """Whether the folder is a worktree of another repository, of which ours is a copy made with `cp -r`."""
    target = pointer(linked.path)
    if target is None or target == linked.git_dir or not target.is_dir():
        return False
    try:
        back = Path((target / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").strip())
        return (
            target.name == linked.git_dir.name
            and not target.samefile(linked.git_dir)
            and back.samefile(linked.path / ".git")
        )
    except OSError:
        return False


MINIMUM_GIT = (2, 38)
_NEW_ENOUGH: set[str | None] = set()
"""Programs that this process asked for their version."""


class RepositoryPaths(Struct, frozen=True):
    """The folders of a repository, as discovery found them."""

    common_dir: Path
    git_dir: Path
    checkout: Path | None


def discover(env: Mapping[str, str], folder: Path) -> RepositoryPaths:
    """The repository around a folder.

    :param env: the user's environment.
    :raises NotARepositoryError: there is none, or `GIT_DIR` names another one.
    :raises UnsupportedRepositoryError: git-swarm cannot work on it; the message says why.
    """
    git = Git(scrubbed(env))
    options = ("--is-inside-work-tree", "--show-object-format", "--git-dir", "--git-common-dir", "--show-toplevel")
    done = git.run("rev-parse", "--path-format=absolute", *options, cwd=folder)
    inside, object_format, *paths = [*done.stdout.split(b"\n")[:-1], b"", b""]
    # Where there is no work tree git ends with an error, behind the other answers.
    if not inside or (done.returncode != 0 and inside != b"false"):
        refuse_old_git(git)
        _refuse_aimed(env, folder)
        raise _not_usable(folder, done.stderr.decode(errors="replace"))
    _refuse_object_format(git, object_format.decode())
    if len(paths) - 2 == (3 if inside == b"true" else 2):
        git_dir, common_dir, checkout = (Path(os.fsdecode(path)) for path in paths[:3])
    else:  # a line end in a path
        git_dir, common_dir = _path(git, folder, "--git-dir"), _path(git, folder, "--git-common-dir")
        checkout = _path(git, folder, "--show-toplevel") if inside == b"true" else git_dir
    _refuse_ref_storage(git, common_dir)
    _refuse_aimed(env, folder, git_dir, common_dir)
    return RepositoryPaths(common_dir, git_dir, checkout if inside == b"true" else None)


def _refuse_aimed(env: Mapping[str, str], folder: Path, *found: Path) -> None:
    """`git --git-dir=… swarm` would be about another repository than the one that we look at; hooks name their own.

    :param found: the folders of that repository.
    :raises NotARepositoryError: `GIT_DIR` is none of them.
    """
    if aimed := env.get("GIT_DIR"):
        path = (folder / aimed).resolve()
        if path not in found and path not in {each.resolve() for each in found}:
            import shlex  # noqa: PLC0415 - only for a mistake

            where = path.parent if path.name == ".git" else path
            raise NotARepositoryError(
                f"GIT_DIR is {aimed}, and {folder} is not in that repository",
                hint=f"cd {shlex.quote(str(where))}   (or: unset GIT_DIR GIT_WORK_TREE)",
            )


def refuse_old_git(git: Git) -> None:
    """
    :raises UnsupportedRepositoryError: this git lacks what runs need.
    """
    from shutil import which  # noqa: PLC0415 - only before the first change: it brings three compressions along

    program = which("git", path=git.env.get("PATH", os.defpath))
    if program in _NEW_ENOUGH:
        return
    version = git.output("--version").decode()
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < MINIMUM_GIT:
        needed = ".".join(str(part) for part in MINIMUM_GIT)
        raise UnsupportedRepositoryError(
            f"{version.strip()} is too old: git-swarm needs {needed}", hint="install a newer git"
        )
    _NEW_ENOUGH.add(program)


def _path(git: Git, folder: Path, question: str) -> Path:
    output = git.output("rev-parse", "--path-format=absolute", question, cwd=folder)
    return Path(os.fsdecode(output.removesuffix(b"\n")))


def _refuse_object_format(git: Git, object_format: str) -> None:
    if object_format != "sha1":
        refuse_old_git(git)  # one that does not know the question repeats it
        raise UnsupportedRepositoryError(
            f"this repository stores {object_format} objects, which libgit2 cannot read",
            hint="use a SHA-1 repository: git clone it into one made by git init --object-format=sha1",
        )


def _refuse_ref_storage(git: Git, common_dir: Path) -> None:
    """A git that knows no other storage than files refuses such a repository itself."""
    try:
        if b"refstorage" not in (common_dir / "config").read_bytes().lower():
            return
    except OSError:
        return
    storage = git.run("config", "--get", "extensions.refstorage", cwd=common_dir).stdout.decode().strip()
    if storage not in ("", "files"):
        raise UnsupportedRepositoryError(
            f"this repository keeps its refs as {storage}, which libgit2 cannot read",
            hint="git refs migrate --ref-format=files",
        )


_OWNED = re.compile(r"dubious ownership in repository at '(.+)'$", re.MULTILINE)


def _not_usable(folder: Path, message: str) -> NotARepositoryError | UnsupportedRepositoryError:
    if "dubious ownership" in message:
        import shlex  # noqa: PLC0415 - only for a mistake

        owned = _OWNED.search(message)  # not a folder in it
        place = shlex.quote(owned[1] if owned else str(folder))
        return UnsupportedRepositoryError(
            f"{folder}: this repository belongs to another user, and git refuses to use it",
            hint=f"if you trust it: git config --global --add safe.directory {place}",
        )
    if "refstorage" in message.lower() or "objectformat" in message.lower() or "repository extension" in message:
        return UnsupportedRepositoryError(
            f"{folder}: this git cannot read the repository: {message.strip().removeprefix('fatal: ')}",
            hint="git-swarm needs plain SHA-1 objects and file refs",
        )
    gone = next((target for above in (folder, *folder.parents) if (target := pointer(above)) is not None), None)
    if gone is not None and gone.parent.name == "worktrees" and not gone.exists():
        return NotARepositoryError(
            f"{folder} is a worktree of a repository that no longer exists: {gone}",
            hint="cd to where the repository is now, then: git swarm resume",
        )
    return NotARepositoryError(
        f"{folder} is not in a git repository",
        hint="cd into one, or: git init && git commit --allow-empty -m start",
    )
