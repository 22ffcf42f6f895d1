"""What `init` changes outside of git-swarm's own folders, as values; where the push guard goes among a repository's
own hooks; and how each change is undone.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct, field

from gitswarm.errors import SwarmError
from gitswarm.git.as_user import UsersGit
from gitswarm.git.object_reader import EMPTY_TREE
from gitswarm.git.repository import Repository
from gitswarm.records.record import Record
from gitswarm.resources import bundled

EXECUTABLE = 0o755
PLAIN = 0o644
_LINK = 0o120000


class FileState(Record):
    """Bytes (base64) and permissions of a file, or the target of a symbolic link."""

    content: str
    mode: int

    @classmethod
    def of(cls, content: bytes, mode: int = PLAIN) -> FileState:
        return cls(content=base64.b64encode(content).decode(), mode=mode)

    @classmethod
    def link(cls, target: str) -> FileState:
        return cls.of(os.fsencode(target), _LINK)

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.content)


class Entry(Record):
    """One line of a git configuration file."""

    key: str
    value: str


class Change(Record):
    """The change of one file; None: there is none. `added` and `removed`: which entries, in a configuration file.

    `place`: the absolute path, percent-encoded, as it need not be text.
    """

    place: str
    before: FileState | None
    after: FileState | None
    added: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(unquote_to_bytes(self.place)))

    @property
    def is_configuration(self) -> bool:
        return bool(self.added or self.removed)


class InstallManifest(Record):
    """`<common dir>/swarm/init.json`: everything that `init` changed, oldest first."""

    changes: tuple[Change, ...] = ()


def change(path: Path, after: FileState | None) -> Change:
    """The change that makes `path` what `after` says."""
    return Change(place=quote(os.fsencode(path)), before=state_of(path), after=after)


def effective(changes: Iterable[Change]) -> list[Change]:
    """The changes that change anything."""
    return [one for one in changes if one.before != one.after]


def state_of(path: Path) -> FileState | None:
    """What lies there; None: nothing, or a folder."""
    if path.is_symlink():
        return FileState.link(str(path.readlink()))
    if not path.is_file():
        return None
    return FileState.of(path.read_bytes(), path.stat().st_mode & 0o7777)


def put(path: Path, state: FileState | None) -> None:
    """Makes `path` so, at once, under the lock that git itself takes for a file.

    :raises SwarmError: somebody else is writing to it.
    """
    if state is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f"{path.name}.lock")
    try:
        if state.is_link:
            staged.symlink_to(os.fsdecode(state.bytes))
        else:
            with staged.open("xb") as file:
                file.write(state.bytes)
            staged.chmod(state.mode)
    except FileExistsError as error:
        raise SwarmError(
            f"{staged} exists: another process writes to {path.name}, or one was killed doing so",
            hint=f"rm {staged}   (when no git runs), and the same command again",
        ) from error
    staged.replace(path)


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

TakeOut = Callable[[FileState, Change], FileState]
"""A configuration file without the entries that a change added, and again with those that it removed."""

_MAYBE_OURS = (CHAINED, ".swarm")
"""Folders that were made for our files, if nothing else is in them."""


def may_hold_runs(users: UsersGit, name: str, url: str) -> bool:
    """Whether the guard would let a run go to this remote; asked of the guard itself, installed or not."""
    lease = f"lease {EMPTY_TREE} refs/swarm/run/lease {'0' * len(EMPTY_TREE)}\n"
    guard = ["sh", str(bundled("hooks") / HOOK), name, url]
    done = subprocess.run(
        guard, cwd=users.folder, env=users.own_env, input=lease.encode(), capture_output=True, check=False
    )
    return done.returncode == 0


def dispatch_folder(repository: Repository) -> Path:
    return repository.swarm_dir / "hooks"


def hooks_path(repository: Repository, git_dir: Path) -> Path | None:
    """The `core.hooksPath` that a worktree would have without us, as configured; None: there is none."""
    listed = repository.git_in(git_dir, None).run(
        "config", "--show-scope", "-z", "--type=path", "--get-all", "core.hooksPath"
    )
    words = [os.fsdecode(word) for word in listed.stdout.split(b"\0")]
    ours = str(dispatch_folder(repository))
    pairs = zip(words[::2], words[1::2], strict=False)
    found = [value for scope, value in pairs if scope != "command" and value != ours]
    return Path(found[-1]) if found else None


def needs_dispatch(repository: Repository) -> bool:
    """Whether the hooks lie where we may not put ours: in a folder that a tool, the project or the user owns."""
    git_dirs = [repository.common_dir, *(linked.git_dir for linked in repository.linked_worktrees())]
    configured = any(hooks_path(repository, git_dir) is not None for git_dir in git_dirs)
    return configured or (repository.common_dir / "hooks").is_symlink()


def plan_guard(repository: Repository) -> list[Change]:
    """The files that put the guard in place, in the order in which they are written."""
    if needs_dispatch(repository):
        return list(_dispatched(repository))
    return list(_in_hooks(repository.common_dir / "hooks"))


def is_ours_in(path: Path) -> bool:
    """Whether the file is one of those that we put into our own folder of hooks."""
    state = state_of(path)
    return is_guard(state) or _says(state, _DISPATCH_ID)


def is_guard(state: FileState | None) -> bool:
    return _says(state, _GUARD_ID)


def _says(state: FileState | None, marker: bytes) -> bool:
    return state is not None and not state.is_link and marker in state.bytes[:200]


def is_installed_hook(content: bytes) -> bool:
    """Whether `init` puts exactly this file among the hooks of a repository."""
    return any(content == (bundled("hooks") / name).read_bytes() for name in (HOOK, "dispatch"))


def _guard() -> FileState:
    return FileState.of((bundled("hooks") / HOOK).read_bytes(), EXECUTABLE)


def _in_hooks(folder: Path) -> Iterator[Change]:
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


class Uninstalled(Struct):
    """`restored`: files that are again what they were; `ours_removed`: files that somebody changed since, and that
    lost only our lines; `left`: files that stay, each with the reason; `theirs`: files of the project by now.
    """

    restored: list[Path] = field(default_factory=list)
    ours_removed: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)
    theirs: list[Path] = field(default_factory=list)


def undo_changes(changes: Sequence[Change], take_out: TakeOut) -> Uninstalled:
    """Undoes changes, the newest first. Repeating it changes nothing more."""
    done = Uninstalled()
    known = {one.path for one in changes}
    for one in reversed(changes):
        _undo(one, take_out, done, known)
    done.restored = list(dict.fromkeys(done.restored))
    return done


def remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _undo(one: Change, take_out: TakeOut, done: Uninstalled, known: Collection[Path]) -> None:
    now = state_of(one.path)
    if now == one.before:
        return
    if now == one.after:
        if _is_needed(one, done):
            done.left.append((one.path, "the hook that was there before: the one in its place is not ours"))
            return
        put(one.path, one.before)
        if one.path.parent.name in _MAYBE_OURS:
            remove_if_empty(one.path.parent)
        if one.path.parent.name != CHAINED:
            done.restored.append(one.path)
    elif one.is_configuration or one.after is None:
        _take_out(one, now, take_out, done)
    elif one.path.name == HOOK and _restore_renamed(one, known):
        done.ours_removed.append(one.path)
    elif now is not None:
        done.left.append((one.path, "somebody changed it since"))


def _take_out(one: Change, now: FileState | None, take_out: TakeOut, done: Uninstalled) -> None:
    if now is None:
        return
    rest = take_out(now, one)
    put(one.path, rest if rest.bytes or one.before else None)
    if rest != now:
        done.ours_removed.append(one.path)


def _is_needed(one: Change, done: Uninstalled) -> bool:
    """Whether this is the user's former hook, and could not be put back."""
    return one.path.parent.name == CHAINED and any(
        path == one.path.parent.parent / one.path.name for path, _reason in done.left
    )


def _restore_renamed(one: Change, known: Collection[Path]) -> bool:
    """A tool renamed our hook and calls it under that name: then that is where the user's belongs.

    :param known: files that have a change of their own.
    """
    others = (path for path in one.path.parent.glob(f"{HOOK}.*") if path not in known)
    renamed = [path for path in others if is_guard(state_of(path))]
    for path in renamed:
        put(path, one.before)
    return bool(renamed)
