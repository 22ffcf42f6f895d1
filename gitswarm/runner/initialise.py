"""`init` and its opposite: guard, push block and settings put in place, and taken away without a trace."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import CorruptError
from gitswarm.git.locks import Locks
from gitswarm.git.repository import Repository
from gitswarm.safety.guard import (
    CHAINED,
    HOOK,
    Change,
    Entry,
    FileState,
    InstallManifest,
    Uninstalled,
    change,
    dispatch_folder,
    effective,
    is_guard,
    is_ours_in,
    needs_dispatch,
    plan_guard,
    put,
    remove_if_empty,
    state_of,
    undo_changes,
)
from gitswarm.worktree.push_block import INIT_RECORD, block_pushes, unblock_pushes
from gitswarm.worktree.shadow import is_ours

_EXTENSION = Entry(key="extensions.worktreeConfig", value="true")
_HOOKS_PATH = "core.hooksPath"


class InitOptions(Struct, frozen=True):
    """What `init` was asked for: the remote that may hold runs, and the file to write when there is none."""

    hub: str | None = None
    config: tuple[Path, str] | None = None


class Initialised(Struct, frozen=True):
    """What `init` did. `changes`: to files that are not ours; `dispatching`: hooks that are now handed on; `blocked`:
    worktrees of runs that were closed; `open`: addresses that cannot be.
    """

    changes: Sequence[Change]
    dispatching: Sequence[Change] = ()
    blocked: Sequence[Path] = ()
    open: Sequence[str] = ()


def initialise(repository: Repository, options: InitOptions) -> Initialised:
    """Puts everything in place that is not there yet; what was there before is recorded first.

    :raises SwarmError: somebody else is writing to one of the files.
    """
    with Locks(repository.common_dir).repository():
        record = read_manifest(repository)
        planned = effective(_plan(repository, options))
        own = [one for one in planned if one.path.is_relative_to(repository.swarm_dir)]
        changes = [one for one in planned if one not in own]
        if changes or not _record_path(repository).exists():
            earlier = (*_put_aside(record.changes, changes), *_still_ours(record.changes, changes))
            whole = InstallManifest(changes=(*earlier, *changes))
            put(_record_path(repository), FileState.of(whole.to_json()))
        # The hooks first: from the moment on that they are pointed to, they have to be there.
        for one in (*own, *changes):
            put(one.path, one.after)
        blocked, still_open = _close_worktrees(repository)
        return Initialised(changes, own, blocked, still_open)


def _still_ours(earlier: Sequence[Change], now: Sequence[Change]) -> list[Change]:
    """Earlier changes, without those of files that somebody else replaced before we changed them again."""
    replaced = {one.path: one.before for one in now if not one.is_configuration}
    last = {one.path: one.after for one in earlier}
    return [one for one in earlier if replaced.get(one.path, last[one.path]) == last[one.path]]


def _put_aside(earlier: Sequence[Change], now: Sequence[Change]) -> Iterator[Change]:
    """The guard under the name that a tool gave it before it took its place: what the tool would have put aside
    without us belongs there."""
    replaced, known = {one.path for one in now}, {one.path for one in earlier}
    for one in earlier:
        if one.path.name == HOOK and one.path in replaced and is_guard(one.after):
            for path in sorted(set(one.path.parent.glob(f"{HOOK}.*")) - known):
                if is_guard(state_of(path)):
                    yield replace(change(path, state_of(path)), before=one.before)


def missing_parts(repository: Repository) -> list[Path]:
    """Files that `init` would change if it were done once more; folders of ours where only those lack something."""
    ours = (dispatch_folder(repository), repository.common_dir / "hooks" / CHAINED)
    paths = [one.path for one in effective(_plan(repository, InitOptions()))]
    others = [path for path in paths if path.parent not in ours and not path.is_relative_to(ours[0])]
    return others or list(dict.fromkeys(path.parent for path in paths))


def read_manifest(repository: Repository) -> InstallManifest:
    """What `init` changed so far.

    :raises CorruptError: the record cannot be read.
    """
    path = _record_path(repository)
    try:
        return InstallManifest.from_json(path.read_bytes()) if path.exists() else InstallManifest()
    except ValueError as error:
        raise CorruptError(f"{path} is not what git-swarm wrote", hint=f"less {shlex.quote(str(path))}") from error


def _record_path(repository: Repository) -> Path:
    return repository.swarm_dir / INIT_RECORD


def _plan(repository: Repository, options: InitOptions) -> Iterator[Change]:
    yield from _plan_settings(repository, options.hub)
    yield from plan_guard(repository)
    if options.config is not None and state_of(options.config[0]) is None:
        path, text = options.config
        yield change(path, FileState.of(text.encode()))


def _plan_settings(repository: Repository, hub: str | None) -> Iterator[Change]:
    """Entries for the repository, and for each of its worktrees that runs hooks."""
    common = repository.common_dir / "config"
    git = repository.git
    added, moved = [], []
    if git.run("config", "--type=bool", "--get", _EXTENSION.key).stdout.strip() != b"true":
        added.append(_EXTENSION)
        # From now on they would hold in every worktree (git-config, extensions.worktreeConfig).
        moved = [entry for entry in _entries(repository, common) if _is_of_the_main_worktree(entry)]
    if hub is not None and git.run("config", "--get", "swarm.hub").returncode != 0:
        added.append(Entry(key="swarm.hub", value=hub))
    own = [Entry(key=_HOOKS_PATH, value=str(dispatch_folder(repository)))] if needs_dispatch(repository) else []
    # First to where it is going: a process that dies in between leaves it twice, not nowhere.
    yield _edited(repository, repository.common_dir / "config.worktree", [*moved, *own], [])
    yield _edited(repository, common, added, moved)
    for linked in repository.linked_worktrees():
        if linked.path.is_dir() and not is_ours(linked):
            yield _edited(repository, linked.git_dir / "config.worktree", own, [])


def _is_of_the_main_worktree(entry: Entry) -> bool:
    return entry.key == "core.worktree" or (entry.key == "core.bare" and entry.value == "true")


def _entries(repository: Repository, path: Path) -> list[Entry]:
    """The entries of one configuration file, in order."""
    if not path.exists():
        return []
    listed = repository.git.output("config", "--file", str(path), "--no-includes", "--list", "-z")
    pairs = (entry.decode(errors="surrogateescape").partition("\n") for entry in listed.split(b"\0") if entry)
    return [Entry(key=key, value=value) for key, _line_end, value in pairs]


def _edited(repository: Repository, path: Path, add: Sequence[Entry], remove: Sequence[Entry]) -> Change:
    """The file with entries added that it does not have, and others taken out; edited by git in a copy."""
    present = {(entry.key.lower(), entry.value) for entry in _entries(repository, path)}
    added = tuple(entry for entry in add if (entry.key.lower(), entry.value) not in present)
    before = state_of(path)
    after = before
    if added or remove:
        after = _by_git(repository, before or FileState.of(b""), added, remove)
    return replace(change(path, after), added=added, removed=tuple(remove))


def _by_git(repository: Repository, state: FileState, add: Sequence[Entry], remove: Sequence[Entry]) -> FileState:
    copy = repository.swarm_dir / "config.edited"
    copy.write_bytes(state.bytes)
    try:
        for entry in remove:
            _config(repository, copy, "--fixed-value", "--unset-all", entry.key, entry.value)
        for entry in add:
            _config(repository, copy, "--add", entry.key, entry.value)
        return FileState.of(copy.read_bytes(), state.mode)
    finally:
        copy.unlink()


def _config(repository: Repository, file: Path, *arguments: str) -> None:
    repository.git.run("config", "--file", str(file), *arguments)


def _close_worktrees(repository: Repository) -> tuple[list[Path], list[str]]:
    """Closes the worktrees of runs; which those are, and the addresses that stay open."""
    blocked: list[Path] = []
    still_open: list[str] = []
    for linked in repository.linked_worktrees():
        if is_ours(linked) and linked.path.is_dir():
            still_open += block_pushes(repository, linked.git_dir).open
            blocked.append(linked.path)
    return blocked, list(dict.fromkeys(still_open))


def undo_init(repository: Repository) -> Uninstalled | None:
    """Takes everything away again that `init` put in place; None: it was never done.

    Repeated after a crash it continues where it was.
    """
    if not _record_path(repository).exists():
        return None
    with Locks(repository.common_dir).repository():
        changes = read_manifest(repository).changes
        for linked in repository.linked_worktrees():
            unblock_pushes(repository, linked.git_dir)
        kept: list[tuple[Path, str]] = []
        if _others_need_extension(repository):
            kept.append(
                (repository.common_dir / "config", f"{_EXTENSION.key} stays: a worktree has settings of its own")
            )
            changes = tuple(_without_extension(one) for one in changes)
        theirs = [one for one in changes if _is_theirs(repository, one)]
        changes = tuple(one for one in changes if one not in theirs)
        undone = undo_changes(changes, lambda state, one: _by_git(repository, state, one.removed, one.added))
        _sweep_worktrees(repository)
        kept += _sweep_hooks(repository)
        _record_path(repository).unlink()
        undone.left += kept
        undone.theirs += (one.path for one in theirs)
        return undone


def _is_theirs(repository: Repository, one: Change) -> bool:
    """Whether a file of the checkout that was new, and has nothing to do with pushes, is tracked by now."""
    checkout = repository.checkout
    if checkout is None or one.before is not None or one.is_configuration or is_guard(one.after):
        return False
    if not one.path.is_relative_to(checkout) or one.path.is_relative_to(repository.common_dir):
        return False
    return repository.checkout_git.run("ls-files", "--error-unmatch", "--", str(one.path)).returncode == 0


def _others_need_extension(repository: Repository) -> bool:
    """Whether settings would be lost that stand in the configuration of a single worktree."""
    ours = str(dispatch_folder(repository))
    files = [linked.git_dir / "config.worktree" for linked in repository.linked_worktrees()]
    return any(entry.value != ours for file in files for entry in _entries(repository, file))


def _without_extension(one: Change) -> Change:
    """The same change, as if it had not been this that made configuration per worktree possible."""
    staying = [
        entry for entry in (*one.added, *one.removed) if entry == _EXTENSION or _is_of_the_main_worktree(entry)
    ]
    if not staying:
        return one
    added, removed = ([e for e in entries if e not in staying] for entries in (one.added, one.removed))
    return replace(one, after=None, added=tuple(added), removed=tuple(removed))


def _sweep_worktrees(repository: Repository) -> None:
    """`git worktree add` copies the configuration of the worktree it is called in."""
    ours = Entry(key=_HOOKS_PATH, value=str(dispatch_folder(repository)))
    for git_dir in (repository.common_dir, *(linked.git_dir for linked in repository.linked_worktrees())):
        path = git_dir / "config.worktree"
        state = state_of(path)
        rest = _by_git(repository, state, [], [ours]) if state else None
        if rest != state:
            put(path, rest if rest and rest.bytes else None)


def _sweep_hooks(repository: Repository) -> list[tuple[Path, str]]:
    """Removes our own folder of hooks, but for what somebody else wrote there; that."""
    folder = dispatch_folder(repository)
    left = []
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            remove_if_empty(path)
        elif is_ours_in(path):
            path.unlink()
        else:
            left.append((path, "somebody else wrote it"))
    remove_if_empty(folder)
    remove_if_empty(repository.common_dir / "hooks" / CHAINED)
    return left
