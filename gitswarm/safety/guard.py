"""Where the push guard goes: beside the hooks of a repository, without changing one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gitswarm.git.repository import Repository
from gitswarm.resources import bundled
from gitswarm.safety.footprint import EXECUTABLE, Change, FileState, change, state_of

HOOK = "pre-push"
CHAINED = "swarm-chained"
_GUARD_ID = b"# git-swarm guard, format "
_DISPATCH_ID = b"# git-swarm dispatch, format "
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch"),
    *("pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-push"),
    *("pre-receive", "update", "post-receive", "post-update", "pre-auto-gc", "sendemail-validate"),
)
"""Hooks that may be there without changing what git does."""
ONLY_IF_PRESENT = ("reference-transaction", "post-index-change", "push-to-checkout", "proc-receive")
"""Hooks that cost time on every move of a ref, or replace what git would do: never there without need."""


def dispatch_folder(repository: Repository) -> Path:
    return repository.swarm_dir / "hooks"


def hooks_path(repository: Repository, git_dir: Path) -> Path | None:
    """The `core.hooksPath` that a worktree would have without us, as configured; None: there is none."""
    listed = repository.git_in(git_dir, None).run("config", "--show-scope", "-z", "--type=path", *_GET_HOOKS_PATH)
    words = [os.fsdecode(word) for word in listed.stdout.split(b"\0")]
    ours = str(dispatch_folder(repository))
    pairs = zip(words[::2], words[1::2], strict=False)
    found = [value for scope, value in pairs if scope != "command" and value != ours]
    return Path(found[-1]) if found else None


_GET_HOOKS_PATH = ("--get-all", "core.hooksPath")


def needs_dispatch(repository: Repository) -> bool:
    """Whether the hooks lie where we may not put ours: in a folder that a tool, the project or the user owns."""
    git_dirs = [repository.common_dir, *(linked.git_dir for linked in repository.linked_worktrees())]
    configured = any(hooks_path(repository, git_dir) is not None for git_dir in git_dirs)
    return configured or (repository.common_dir / "hooks").is_symlink()


def plan_guard(repository: Repository) -> list[Change]:
    """The files that put the guard in place, in the order in which they are written."""
    if needs_dispatch(repository):
        return list(_dispatched(repository))
    return list(_beside(repository.common_dir / "hooks"))


def is_guard(state: FileState | None) -> bool:
    return state is not None and not state.is_link and _GUARD_ID in state.bytes[:200]


def is_ours_in(path: Path) -> bool:
    """Whether the file is one of those that we put into our own folder of hooks."""
    state = state_of(path)
    return is_guard(state) or is_dispatch(state)


def is_dispatch(state: FileState | None) -> bool:
    return state is not None and not state.is_link and _DISPATCH_ID in state.bytes[:200]


def is_installed_hook(content: bytes) -> bool:
    """Whether `init` puts exactly this file among the hooks of a repository."""
    return any(content == (bundled("hooks") / name).read_bytes() for name in (HOOK, "dispatch"))


def _guard() -> FileState:
    return FileState.of((bundled("hooks") / HOOK).read_bytes(), EXECUTABLE)


def _beside(folder: Path) -> Iterator[Change]:
    """The guard as `pre-push`. What is there goes to a folder where it has its name and finds its siblings."""
    there = state_of(folder / HOOK)
    if there is not None and not is_guard(there):
        siblings = (path.name for path in sorted(folder.iterdir()) if not path.name.endswith(".sample"))
        for name in siblings:
            if name not in (HOOK, CHAINED):
                yield change(folder / CHAINED / name, FileState.link(f"../{name}"))
        yield change(folder / CHAINED / HOOK, _one_deeper(there))
    yield change(folder / HOOK, _guard())


def _one_deeper(state: FileState) -> FileState:
    """The same file in a subfolder: a relative link would lead elsewhere from there."""
    target = os.fsdecode(state.bytes) if state.is_link else "/"
    return state if target.startswith("/") else FileState.link(f"../{target}")


def _dispatched(repository: Repository) -> Iterator[Change]:
    folder = dispatch_folder(repository)
    dispatch = FileState.of((bundled("hooks") / "dispatch").read_bytes(), EXECUTABLE)
    for name in (*HOOKS, *_present(repository)):
        if name != HOOK:
            yield change(folder / name, dispatch)
    yield change(folder / CHAINED / HOOK, dispatch)
    yield change(folder / HOOK, _guard())


def _present(repository: Repository) -> Iterator[str]:
    configured = hooks_path(repository, repository.checkout_git_dir) or repository.common_dir / "hooks"
    folder = (repository.checkout or repository.common_dir) / configured
    return (name for name in ONLY_IF_PRESENT if (folder / name).exists())
