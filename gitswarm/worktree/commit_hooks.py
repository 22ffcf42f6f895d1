"""The hooks that `git commit` would run for the user, and the files that decide what those do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gitswarm.git.objects import Objects
from gitswarm.records.globs import is_named

OF_A_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_FOLDERS = (
    ".husky",
    ".githooks",
    ".git-hooks",
    ".git_hooks",
    ".hooks",
    ".lefthook",
    ".lefthook-local",
    ".overcommit",
)
_FILES = (
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".pre-commit-hooks.yaml",
    "prek.toml",
    "lefthook*.y*ml",
    ".lefthook*.y*ml",
    "lefthook*.toml",
    "lefthook*.json",
    ".lefthook*.json",
    ".lefthook*.toml",
    ".huskyrc*",
    "husky.config.*",
    ".lintstagedrc*",
    "lint-staged.config.*",
    ".simple-git-hooks.*",
    "simple-git-hooks.*",
    ".overcommit.yml",
    "captainhook.json",
    "commitlint.config.*",
    ".commitlintrc*",
    "grumphp.yml",
)
_PACKAGE_KEYS = ("husky", "lint-staged", "simple-git-hooks", "pre-commit", "gitHooks", "commitlint", "lefthook")


class HooksFolder(Struct, frozen=True):
    """Where the user's hooks lie. `inside`: its path from the top of the main checkout, when it is in there. With
    `is_relative` each worktree may have hooks of its own at that path; git knows none where it is missing."""

    path: Path
    inside: str | None = None
    is_relative: bool = False

    def missing_in(self, worktree: Path) -> bool:
        """Whether git would not find the user's hooks in a worktree, as where husky made them for a checkout only."""
        return self.is_relative and self.inside is not None and not (worktree / self.inside).is_dir()


def hooks_folder(configured: str | None, common_dir: Path, main_folder: Path) -> HooksFolder:
    """
    :param configured: `core.hooksPath` with `~` expanded; None: not set.
    """
    if not configured:
        return HooksFolder(common_dir / "hooks")
    path = Path(os.path.normpath(main_folder / configured))
    if not path.is_relative_to(main_folder) or path == main_folder or path.is_relative_to(common_dir):
        return HooksFolder(path)
    return HooksFolder(path, path.relative_to(main_folder).as_posix(), not Path(configured).is_absolute())


def commit_hooks(folder: HooksFolder, objects: Objects, tree: str) -> tuple[str, ...]:
    """Names of the hooks that a commit of this tree would run."""
    if folder.is_relative and folder.inside is not None and objects.is_folder(tree, folder.inside):
        names = objects.names(tree, folder.inside)
        return tuple(name for name in OF_A_COMMIT if name in names)
    return tuple(name for name in OF_A_COMMIT if os.access(folder.path / name, os.X_OK))


def changed_hooks(
    folder: HooksFolder, objects: Objects, changed: Iterable[str], trees: tuple[str, str]
) -> tuple[str, ...]:
    """Those of the `changed` paths that decide what the user's hooks do.

    :param trees: before and after the change.
    """
    folders = (*_FOLDERS, *((folder.inside,) if folder.inside else ()))
    return tuple(path for path in changed if _decides(path, folders) or _package(objects, path, trees))


def _decides(path: str, folders: tuple[str, ...]) -> bool:
    name = path.rpartition("/")[2]
    inside = any(f"/{path}".find(f"/{folder}/") >= 0 or path == folder for folder in folders)
    return inside or is_named(name, _FILES)


def _package(objects: Objects, path: str, trees: tuple[str, str]) -> bool:
    """Whether a `package.json` says something else about hooks than before."""
    if path.rpartition("/")[2] != "package.json":
        return False
    before, after = (_hook_keys(objects.file(tree, path)) for tree in trees)
    return before != after


def _hook_keys(content: bytes | None) -> dict[str, object]:
    try:
        loaded = json.loads(content or b"{}")
    except ValueError:
        return {"unreadable": content}
    found = loaded if isinstance(loaded, dict) else {}
    scripts = found.get("scripts")
    prepare = scripts.get("prepare") if isinstance(scripts, dict) else None
    return {**{key: found.get(key) for key in _PACKAGE_KEYS}, "prepare": prepare}
