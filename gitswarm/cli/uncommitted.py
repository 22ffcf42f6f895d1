"""What is in the checkout and not in the commit that a run starts from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from gitswarm.errors import NotFoundError
from gitswarm.git.repository import Repository
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.text import listed
from gitswarm.runner.run_context import Observer
from gitswarm.settings import CONFIG_FILE


def refuse_uncommitted_flow(repository: Repository, tree: str, flow: str) -> None:
    """A flow that lies in the checkout but not in the base commit would be silently ignored."""
    if repository.checkout is None:
        return
    for suffix in (".yaml", ".yml", ".json"):
        name = f".swarm/flows/{flow}{suffix}"
        if (repository.checkout / name).is_file() and repository.objects.file(tree, name) is None:
            is_ignored = repository.checkout_git.run("check-ignore", "-q", "--", name).returncode == 0
            add = f"git add {'-f ' * is_ignored}{_from_here(repository.checkout / name)}"
            raise NotFoundError(
                f"{name} is not committed: a run reads its flow from the base commit",
                hint=f"{add} && git commit -m {shlex.quote(f'flow {flow}')}",
            )


def mention_uncommitted(repository: Repository, spec: RunSpec, observer: Observer) -> None:
    if repository.checkout is None:
        return
    git = repository.checkout_git
    dirty = git.run("--no-optional-locks", "status", "--porcelain", "-z", "-uno").stdout
    if dirty:
        observer.notice(f"note: the run starts from {spec.base[:8]}; uncommitted changes here are not part of it")
    missing = list(_not_in_base(repository, repository.checkout, repository.objects.commit(spec.base).tree))
    if missing:
        names = " ".join(_from_here(repository.checkout / name) for name in missing[:3])
        observer.notice(f"note: not committed, so the run does not use it: {listed(missing)} (git add -f {names})")


def _from_here(path: Path) -> str:
    """The path as it is typed in the folder that we stand in."""
    return shlex.quote(os.path.relpath(path))


def _not_in_base(repository: Repository, checkout: Path, tree: str) -> Iterator[str]:
    """Files that say how runs are executed, but only in the checkout. A project may have git ignore them."""
    below = (path for folder in ("flows", "sidequests") for path in (checkout / ".swarm" / folder).rglob("*"))
    for path in (checkout / CONFIG_FILE, *sorted(below)):
        name = path.relative_to(checkout).as_posix()
        if path.suffix in _READ and path.is_file() and repository.objects.file(tree, name) is None:
            yield name


_READ = {".yaml", ".yml", ".json", ".md"}
