"""Submodules that somebody checked out in the worktree. Their commits count; nothing of theirs is executed.

For a submodule `git add` starts `git status` in it, which obeys the configuration that lies there: filters, monitors.
An agent can write that file, so we only read HEAD, and tell the index ourselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gitswarm.git.process import Git
from gitswarm.worktree.shadow import Shadow

# A submodule may be a partial clone: what it lacks would be fetched, by a program that its configuration names.
_NOTHING_FETCHED = {"GIT_ALLOW_PROTOCOL": "none"}
_GITLINK = "160000"


def is_own(shadow: Shadow, name: str) -> bool:
    """Whether this is a submodule that is checked out, with a `.git` of its own: one that leads elsewhere could be
    anybody's."""
    place = shadow.path / name
    pointer = place / ".git"
    in_place = place.resolve() == shadow.path.resolve() / name
    if name not in shadow.submodules or not in_place or pointer.is_symlink():
        return False
    if not pointer.is_file():
        return pointer.is_dir()
    target = pointer.read_bytes().removeprefix(b"gitdir:").strip().decode(errors="surrogateescape")
    return (place / target).resolve().is_relative_to(shadow.git_dir.resolve() / "modules")


def heads(shadow: Shadow) -> dict[str, str]:
    """Submodules that are checked out, with the commit that each of them stands on."""
    found = {}
    for name in shadow.submodules:
        if is_own(shadow, name):
            head = _git(shadow, name).run("rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip()
            if head:
                found[name] = head
    return found


def enter(shadow: Shadow, commits: Mapping[str, str], extra_env: Mapping[str, str] | None) -> None:
    """Records the commits of submodules in an index, as `git add` would."""
    if commits:
        lines = b"".join(f"{_GITLINK} {commit}\t{name}".encode() + b"\0" for name, commit in commits.items())
        shadow.git.output("update-index", "-z", "--index-info", stdin=lines, extra_env=extra_env)


def restore(shadow: Shadow, tree: str) -> None:
    """Moves submodules that are checked out to the commits that `tree` names for them.

    Uncommitted changes in one of them are in no commit of ours: where they are in the way it stays as it is.
    """
    for name, head in heads(shadow).items():
        wanted = shadow.git.run("rev-parse", "--verify", "--quiet", f"{tree}:{name}").stdout.decode().strip()
        if wanted and wanted != head:
            git = _git(shadow, name)
            quiet = _no_filters(git)
            git.run(*quiet, "update-index", "-q", "--refresh")
            if git.run(*quiet, "read-tree", "-m", "-u", head, wanted).returncode == 0:
                git.output("update-ref", "--no-deref", "-m", "git-swarm: restored", "HEAD", wanted)


def _git(shadow: Shadow, name: str) -> Git:
    place: Path = shadow.path / name
    return Git({**shadow.git.env, **_NOTHING_FETCHED}, place / ".git", place)


def _no_filters(git: Git) -> list[str]:
    """Options that switch off every filter that the submodule itself configures."""
    said = git.run("config", "--local", "--name-only", "-z", "--get-regexp", r"^filter\..*").stdout
    drivers = {match[1] for match in re.finditer(r"filter\.([^\0]*)\.[^.\0]*\0", said.decode(errors="replace"))}
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return [
        word for name in sorted(drivers) for key, to in off.items() for word in ("-c", f"filter.{name}.{key}={to}")
    ]
