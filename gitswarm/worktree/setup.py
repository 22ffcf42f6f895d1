"""Makes a fresh worktree usable: copies `.env` and the like, runs the project's own setup command."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import SetupFailedError
from gitswarm.git.process import Git
from gitswarm.processes import CommandLimits, Ending, project_environment, run_shell


class Copied(Struct, frozen=True):
    """What was copied, and what was left out with the reason; paths relative to the checkout."""

    files: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def copy_untracked(
    source: Git, target: Path, patterns: Sequence[str], is_tracked: Callable[[str], bool] = lambda _name: True
) -> Copied:
    """Copies untracked files that match `patterns` (globs from the top) out of the user's checkout.

    git lists them, so nothing tracked is copied and no repository border is crossed.

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
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name)
        files.append(name)
    return Copied(tuple(files), tuple(left_out))


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
