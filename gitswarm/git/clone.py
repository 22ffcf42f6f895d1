"""Bare repositories that are made for runs: a worker's clone of a hub, and a hub beside the user's repository."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitswarm.errors import GitFailedError
from gitswarm.git.as_user import UsersGit, output_of
from gitswarm.git.remote import own_hub
from gitswarm.git.repository import Repository, open_repository


def clone_of_hub(folder: Path, url: str, env: Mapping[str, str]) -> Repository:
    """The repository below `folder` in which a worker executes the runs of a hub, made when it is not there. It has
    nothing of the hub yet: of a run only its own refs are fetched.

    :raises GitFailedError: it cannot be made.
    """
    name = Path(url.rstrip("/")).name.removesuffix(".git") or "hub"
    path = folder.absolute() / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}.git"
    if not path.exists():
        _make(path, ["init"], env, [["config", "--", "swarm.hub", url]])
    return open_repository(path, env)


def make_own_hub(repository: Repository, env: Mapping[str, str]) -> Path:
    """A hub for this repository alone, inside of it. Its first objects are links to those that are here: they take no
    room, and stay when they are removed here.

    :raises GitFailedError: it cannot be made.
    """
    path = own_hub(repository)
    if not path.exists():
        clone = ["clone", "--no-tags", "--single-branch", str(repository.common_dir)]
        _make(path, clone, env, [["remote", "remove", "origin"]])
    return path


def _make(path: Path, command: Sequence[str], env: Mapping[str, str], then: Sequence[Sequence[str]]) -> None:
    """Under another name first: others may make it at the same time, and whoever is first is right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        git = UsersGit(env, made, lambda: None)
        verb, *words = command
        for line in ([verb, "--quiet", "--bare", "--template=", *words, str(made)], *then):
            done = git.run(*line)
            if done.returncode != 0:
                raise GitFailedError(
                    f"git {line[0]} failed in {made}: {output_of(done)}",
                    hint=f"ls -ld {shlex.quote(str(path.parent))}",
                )
        try:
            made.rename(path)
        except OSError:
            if not path.exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
