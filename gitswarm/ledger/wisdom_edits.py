"""What the edits of a proposal make of files, or why they do not fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from gitswarm.records.text import listed, shorten
from gitswarm.records.wisdom import Edit

_QUOTED = 40


class EditedFile(Struct, frozen=True):
    """`old` None: the file is new."""

    path: str
    old: bytes | None
    new: bytes


class Misfit(Struct, frozen=True):
    """An edit that does not fit, and what was found in its place."""

    path: str
    found: str


def edited_files(edits: Iterable[Edit], read: Callable[[str], bytes | None]) -> list[EditedFile] | Misfit:
    """Every file as all edits leave it, each edit on what the ones before it made; or the first that does not fit.

    :param read: content of a file by its path; None: there is none.
    """
    files: dict[str, EditedFile] = {}
    for edit in edits:
        known = files.get(edit.path)
        before = read(edit.path) if known is None else known.new
        misfit = _misfit(edit, before)
        if misfit is not None:
            return Misfit(edit.path, misfit)
        after = edit.new.encode() if before is None else before.replace(edit.old.encode(), edit.new.encode())
        files[edit.path] = EditedFile(edit.path, before if known is None else known.old, after)
    return list(files.values())


def _misfit(edit: Edit, before: bytes | None) -> str | None:
    """Why an edit does not fit; None: it does."""
    if not edit.old:
        return None if before is None else "should be a new file, and is there already"
    if before is None:
        return "there is no such file"
    lines = list(_lines_of(before, edit.old.encode()))
    if len(lines) == 1:
        return None
    quoted = f"'{shorten(edit.old, _QUOTED)}'"
    if lines:
        return f"{quoted} occurs {len(lines)} times: lines {listed([str(line) for line in lines])}"
    applied = edit.new and before.count(edit.new.encode()) == 1
    return f"{quoted} is not in the file" + ("; what it should become does" if applied else "")


def _lines_of(content: bytes, text: bytes) -> Iterator[int]:
    """The lines where a text begins, overlapping ones too."""
    at = content.find(text)
    while at >= 0:
        yield content.count(b"\n", 0, at) + 1
        at = content.find(text, at + 1)
