"""What a fresh worktree is given: files of the user's checkout, the project's own setup; and what came later that git
ignores, so that no commit has it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from gitswarm.errors import SetupFailedError
from gitswarm.git.process import Git
from gitswarm.processes import CommandLimits, Ending, project_environment, run_shell
from gitswarm.untrusted import files_below
from gitswarm.worktree.shadow import Shadow

_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"}
    | {"node_modules", ".nyc_output", ".turbo", "venv", ".venv", "target", ".gradle", "coverage", "htmlcov"}
)
"""Folders of tools and of installed dependencies: a checkout without them makes them anew, by `worktree.setup`."""
_REPORTS = (".coverage", ".DS_Store", ".log", ".swp", "~")
_COPY_S = 300


class Copied(Struct, frozen=True):
    """What was copied, and what was left out with the reason; paths relative to the checkout."""

    files: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def copy_untracked(
    source: Git, target: Path, patterns: Sequence[str], is_tracked: Callable[[str], bool] = lambda _name: True
) -> Copied:
    """Copies untracked files that match `patterns` (globs from the top) out of the user's checkout.

    git lists them, so nothing tracked is copied and no repository border is crossed; no link in the target, which an
    agent may have made, leads a copy out of it.

    :param is_tracked: whether a file that lies in the target is one of the commit's; another one is a copy that a
        killed process left, and is made again.
    """
    root = source.work_tree
    if root is None or not patterns:
        return Copied((), ())
    specs = [f":(top,glob){pattern.rstrip('/')}" for pattern in patterns]
    listed = source.output("ls-files", "--others", "-z", "--", *specs).split(b"\0")
    files: list[str] = []
    left_out: list[tuple[str, str]] = []
    for raw in listed:
        name = raw.decode(errors="surrogateescape")
        if not name:
            continue
        reason = _why_not(root, root / name)
        if reason is None and _is_there(target / name) and is_tracked(name):
            reason = "exists in the commit"
        if reason:
            left_out.append((name, reason))
            continue
        try:
            _copy_below(root / name, target, name)
        except (NotADirectoryError, IsADirectoryError):
            left_out.append((name, "a link or a file is in the way of its folder"))
            continue
        files.append(name)
    return Copied(tuple(files), tuple(left_out))


def _copy_below(source: Path, target: Path, name: str) -> None:
    """
    :raises NotADirectoryError: a folder on the way is none, or a link.
    :raises IsADirectoryError: a folder has that name.
    """
    *folders, leaf = name.split("/")
    here = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, dir_fd=here)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        with suppress(FileNotFoundError):
            os.unlink(leaf, dir_fd=here)
        about = source.stat()
        copy = os.open(leaf, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=here)
        with source.open("rb") as original, os.fdopen(copy, "wb") as file:
            shutil.copyfileobj(original, file)
            os.fchmod(copy, stat.S_IMODE(about.st_mode))
            os.utime(copy, ns=(about.st_atime_ns, about.st_mtime_ns))
    finally:
        os.close(here)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _why_not(root: Path, source: Path) -> str | None:
    if not source.resolve().is_relative_to(root.resolve()):
        return "a link that leaves the repository"
    if source.is_dir():
        return "a repository of its own" if not source.is_symlink() else "a link to a folder"
    if not source.is_file():
        return "not a file"
    return None


def run_setup(command: str, worktree: Path, env: Mapping[str, str], limits: CommandLimits) -> None:
    """
    :raises SetupFailedError: the command failed; the message has the end of its output.
    """
    outcome = run_shell(command, cwd=worktree, env=project_environment(env), limits=limits)
    if outcome.ending is Ending.EXITED and outcome.exit_code == 0:
        return
    why = outcome.error or {
        Ending.TIMED_OUT: f"no end after {limits.timeout_s:g} s",
        Ending.EXITED: f"exit code {outcome.exit_code}",
    }.get(outcome.ending, "did not start")
    tail = "\n".join(outcome.output.rstrip().splitlines()[-15:])
    raise SetupFailedError(
        f"worktree.setup failed ({why}): {command}\n{tail}".rstrip(),
        hint=f"fix the command or what it needs, then: git swarm resume   (worktree: {worktree})",
    )


def ignored_entries(shadow: Shadow) -> tuple[str, ...]:
    """What git ignores in a worktree, by path, without caches and reports. A folder that is ignored as a whole is one
    entry: `lib/`."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = (os.fsdecode(raw) for raw in shadow.git.output(*words).split(b"\0") if raw)
    return tuple(name for name in names if _counts(PurePosixPath(name)))


def made_since_setup(shadow: Shadow, remade: Collection[str] = (), began_ns: int = 0) -> tuple[str, ...]:
    """The entries that hold something that was made or changed after the setup; () where there was none.

    :param remade: entries that a run of the tests makes by itself: what it has just written there does not count.
    :param began_ns: when the newest run of the tests did, in nanoseconds since 1970.
    """
    if (ready := shadow.set_up_ns) is None:
        return ()
    return tuple(
        name
        for name in ignored_entries(shadow)
        if any(ready < when and (name not in remade or when < began_ns) for when in _changes(shadow.path, name))
    )


def _changes(root: Path, name: str) -> Iterator[int]:
    """When the files of an entry were changed, in nanoseconds since 1970; nobody can set that back."""
    path = root / name
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            yield path.lstat().st_ctime_ns
        return
    for file, about in files_below(path):
        if _counts(file.relative_to(root)):
            yield about.st_ctime_ns


def _counts(path: PurePosixPath | Path) -> bool:
    return _CACHES.isdisjoint(path.parts) and not path.name.endswith(_REPORTS)


def copy_leftovers(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copies them from one worktree into another of the same commit, links as links.

    :raises OSError: that failed, or took longer than five minutes.
    """
    for name in names:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.parent.resolve().is_relative_to(target.resolve()):
            raise OSError(f"{name} would be copied out of the worktree")
        inner = "/." if name.endswith("/") else ""
        if inner:
            copy.mkdir(exist_ok=True)
        words = ("cp", "-a", "--", f"{source / name}{inner}", str(copy))
        try:
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=_COPY_S)
        except subprocess.SubprocessError as error:
            raise OSError(f"{name} could not be copied") from error
