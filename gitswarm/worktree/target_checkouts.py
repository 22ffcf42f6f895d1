"""The checkouts that stand on a target branch, and the user's hooks that a commit there runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gitswarm.errors import SwarmError
from gitswarm.git.objects import Objects
from gitswarm.git.repository import Repository
from gitswarm.records.globs import is_named
from gitswarm.records.text import words

OF_A_COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
_FOLDERS = words(".husky .githooks .git-hooks .git_hooks .hooks .lefthook .lefthook-local .overcommit")
_FILES = words("""
    .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml prek.toml lefthook*.y*ml .lefthook*.y*ml
    lefthook*.toml lefthook*.json .lefthook*.json .lefthook*.toml .huskyrc* husky.config.* .lintstagedrc*
    lint-staged.config.* .simple-git-hooks.* simple-git-hooks.* .overcommit.yml captainhook.json commitlint.config.*
    .commitlintrc* grumphp.yml
""")
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


_BUSY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
}


class Checkout(Struct, frozen=True):
    """A checkout of the branch. `busy`: what is going on there, like a merge that was not finished."""

    path: Path
    git_dir: Path
    busy: str | None


def checkouts_of(repository: Repository, branch: str) -> list[Checkout]:
    """The checkouts that stand on a branch, or would come back to it after a rebase or a bisect.

    :param branch: its full name.
    :raises SwarmError: one of them is nobody knows where.
    """
    found = []
    for path, git_dir in _places(repository):
        busy = next((what for name, what in _BUSY.items() if (git_dir / name).exists()), None)
        if branch in (_read(git_dir / "HEAD").removeprefix("ref: "), *_left_from(git_dir)):
            if path is None:
                raise SwarmError(
                    f"{branch.removeprefix('refs/heads/')} is checked out in a folder that {git_dir} does not name",
                    hint="cd to that folder, then the same command again",
                )
            found.append(Checkout(path, git_dir, busy))
    return found


def _places(repository: Repository) -> Iterator[tuple[Path | None, Path]]:
    common = repository.common_dir
    if repository.git.run("config", "--type=bool", "--get", "core.bare").stdout.strip() != b"true":
        yield main_checkout(repository), common
    for linked in repository.linked_worktrees():
        if linked.path.is_dir():
            yield linked.path, linked.git_dir


def main_checkout(repository: Repository) -> Path | None:
    """Of a repository that is not bare. None: its git directory lies elsewhere (`--separate-git-dir`), where
    nothing names it, and we do not stand in it."""
    common = repository.common_dir
    if repository.checkout is not None and repository.checkout_git_dir == common:
        return repository.checkout
    named = repository.git.run("config", "--type=path", "--get", "core.worktree").stdout.removesuffix(b"\n")
    if named:  # of a submodule
        return Path(os.path.normpath(common / os.fsdecode(named)))
    return common.parent if common.name == ".git" else None


def _left_from(git_dir: Path) -> Iterator[str]:
    """The branches that a rebase or a bisect left, to come back to."""
    yield _read(git_dir / "rebase-merge" / "head-name")
    yield _read(git_dir / "rebase-apply" / "head-name")
    yield f"refs/heads/{_read(git_dir / 'BISECT_START')}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


class InTheWay(Struct, frozen=True):
    """Work in a checkout that a landing would touch. `paths`: where, of those that it changes; `untracked`: files and
    folders that git does not track, ignored ones too, which no stash brings back; `is_edited`: others are there."""

    paths: tuple[str, ...]
    untracked: tuple[str, ...]
    is_edited: bool


def in_the_way(repository: Repository, checkout: Checkout, paths: Sequence[str]) -> InTheWay:
    """
    :param paths: those that a landing changes.
    """
    git = repository.git_in(checkout.git_dir, checkout.path)
    listed = git.output(
        "--no-optional-locks",
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignored=matching",
        "--ignore-submodules=none",
    )
    entries = [(entry[:2] in (b"??", b"!!"), os.fsdecode(entry[3:])) for entry in listed.split(b"\0") if entry]
    near = _Near([name for _is_untracked, name in entries])
    found = [(path, *entries[number]) for path in paths for number in near.to(path, checkout.path)]
    return InTheWay(
        paths=tuple(dict.fromkeys(path for path, _is_untracked, _name in found)),
        untracked=tuple(
            dict.fromkeys(
                name if path.startswith(f"{name}/") else path for path, is_untracked, name in found if is_untracked
            )
        ),
        is_edited=any(not is_untracked for _path, is_untracked, _name in found),
    )


class _Near:
    """Names that git lists as not committed, found by a path that a landing writes; a folder of untracked files ends
    with a slash."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._at: dict[str, list[int]] = {}
        self._below: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            self._at.setdefault(name.rstrip("/"), []).append(number)
            for folder in _folders(name.rstrip("/")):
                self._below.setdefault(folder, []).append(number)

    def to(self, path: str, root: Path) -> Iterator[int]:
        """Numbers of those that writing `path` would touch."""
        above = [number for folder in _folders(path) for number in self._at.get(folder, ())]
        for number in sorted({*above, *self._at.get(path, ()), *self._below.get(path, ())}):
            is_inside = self._names[number].endswith("/") and path.startswith(self._names[number])
            if not is_inside or os.path.lexists(root / path):
                yield number


def _folders(path: str) -> Iterator[str]:
    """Every folder on the way to a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def fast_forward(repository: Repository, checkout: Checkout, commit: str) -> str | None:
    """Moves the branch of a checkout and its files; None, or why git did not do it: nothing has changed then.

    Hooks are off: those of a commit have had their say.
    """
    git = repository.git_in(checkout.git_dir, checkout.path)
    quiet = ("--quiet", "--no-stat", "--no-autostash", "--no-verify-signatures", "--no-overwrite-ignore")
    done = git.run("merge", "--ff-only", *quiet, commit)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip()
