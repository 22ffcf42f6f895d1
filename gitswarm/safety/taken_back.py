"""The opposite of a list of changes, whatever people and tools did to the files since."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec import Struct, field

from gitswarm.safety.footprint import Change, FileState, put, state_of
from gitswarm.safety.guard import CHAINED, HOOK, is_guard

TakeOut = Callable[[FileState, Change], FileState]
"""A configuration file without the entries that a change added, and again with those that it removed."""

_MAYBE_OURS = (CHAINED, ".swarm")
"""Folders that were made for our files, if nothing else is in them."""


class Undone(Struct, frozen=True):
    """`restored`: files that are again what they were; `ours_removed`: files that somebody changed since, and that
    lost only our lines; `left`: files that stay, each with the reason.
    """

    restored: Sequence[Path] = ()
    ours_removed: Sequence[Path] = ()
    left: Sequence[tuple[Path, str]] = ()


class _Progress(Struct):
    restored: list[Path] = field(default_factory=list)
    ours_removed: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)


def undo_changes(changes: Sequence[Change], take_out: TakeOut) -> Undone:
    """Takes changes back, the newest first. Repeating it changes nothing more."""
    progress = _Progress()
    known = {one.path for one in changes}
    for one in reversed(changes):
        _undo(one, take_out, progress, known)
    return Undone(tuple(dict.fromkeys(progress.restored)), progress.ours_removed, progress.left)


def remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _undo(one: Change, take_out: TakeOut, progress: _Progress, known: Collection[Path]) -> None:
    now = state_of(one.path)
    if now == one.before:
        return
    if now == one.after:
        if _is_needed(one, progress):
            progress.left.append((one.path, "the hook that was there before: the one in its place is not ours"))
            return
        put(one.path, one.before)
        if one.path.parent.name in _MAYBE_OURS:
            remove_if_empty(one.path.parent)
        if one.path.parent.name != CHAINED:
            progress.restored.append(one.path)
    elif one.is_configuration or one.after is None:
        _take_out(one, now, take_out, progress)
    elif one.path.name == HOOK and _take_back_renamed(one, known):
        progress.ours_removed.append(one.path)
    elif now is not None:
        progress.left.append((one.path, "somebody changed it since"))


def _take_out(one: Change, now: FileState | None, take_out: TakeOut, progress: _Progress) -> None:
    if now is None:
        return
    rest = take_out(now, one)
    put(one.path, rest if rest.bytes or one.before else None)
    if rest != now:
        progress.ours_removed.append(one.path)


def _is_needed(one: Change, progress: _Progress) -> bool:
    """Whether this is the user's former hook, and could not be put back."""
    return one.path.parent.name == CHAINED and any(
        path == one.path.parent.parent / one.path.name for path, _reason in progress.left
    )


def _take_back_renamed(one: Change, known: Collection[Path]) -> bool:
    """A tool put our hook aside under another name and calls it from there: then that is where the user's belongs.

    :param known: files that have a change of their own.
    """
    beside = (path for path in one.path.parent.glob(f"{HOOK}.*") if path not in known)
    renamed = [path for path in beside if is_guard(state_of(path))]
    for path in renamed:
        put(path, one.before)
    return bool(renamed)
