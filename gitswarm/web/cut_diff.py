"""A difference file by file, each cut where a browser would get slow, however much git has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from msgspec import Struct

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.reader import RepositoryReader
from gitswarm.records.execution import RUNS_FOLDER

MOST_LINES = 2_000
"""Of one file; 5,000 make 1.6 MB of HTML."""

MAX_CHARS = 500_000
"""Of one file, for what has few lines, and long ones."""

MAX_PAGE = 3_000_000
"""Of all files on a page together."""

MAX_WHOLE = 20_000_000
"""Of a file that is shown by itself."""

MOST_FILES = 100

_FILE = b"diff --git "
_HEAD = 12
"""Lines in which the name of a file is found."""
_PIECE = 65_536


class Kept(Struct, frozen=True):
    """How much of a file is kept."""

    lines: int
    chars: int


_NOTHING = Kept(0, 0)


class FileDiff(Struct, frozen=True):
    """`text`: git's own words, as far as there is room; `left_out`: lines beyond, those that are cut among them."""

    number: int
    name: str
    text: str
    left_out: int


class CutDiff(Struct, frozen=True):
    files: list[FileDiff]
    more_files: int


def git_diff(old: str, new: str) -> tuple[str, ...]:
    """What to type behind `git` for the same."""
    return ("diff", old, new, "--", f":(top,exclude){RUNS_FOLDER}")


def file_diffs(repository: RepositoryReader, old: str, new: str) -> CutDiff:
    """Between two commits; the evidence of runs is left out."""
    files: list[FileDiff] = []
    more = 0

    def room(number: int) -> Kept:
        left = MAX_PAGE - sum(len(each.text) for each in files)
        return Kept(MOST_LINES, min(MAX_CHARS, left)) if number < MOST_FILES and left > 0 else _NOTHING

    for file in _each_file(repository, old, new, room):
        if file.number < MOST_FILES:
            files.append(file)
        else:
            more += 1
    return CutDiff(files, more)


def whole_file(repository: RepositoryReader, old: str, new: str, number: int) -> FileDiff:
    """
    :raises NotFoundError: the difference has no such file.
    """

    def room(file: int) -> Kept:
        return Kept(MAX_WHOLE, MAX_WHOLE) if file == number else _NOTHING

    for file in _each_file(repository, old, new, room):
        if file.number == number:
            return file
    raise NotFoundError(f"the difference has no file {number}", hint=f"git diff --stat {old[:12]} {new[:12]}")


def _each_file(repository: RepositoryReader, old: str, new: str, room: Callable[[int], Kept]) -> Iterator[FileDiff]:
    """While git finds them: what is not kept is not held."""
    # No program of a repository's configuration: an agent may have put it there.
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
    with repository.git.open_pipe("-c", "core.quotePath=false", "diff", *options, *git_diff(old, new)[1:]) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        process.stdin.close()
        try:
            first = process.stdout.readline(_PIECE)
            number = 0
            while first.startswith(_FILE):
                file, first = _cut(number, first, process.stdout, room(number))
                yield file
                number += 1
            if process.wait() != 0:
                raise SwarmError(f"git diff ended with {process.returncode}", hint=f"git diff {old[:12]} {new[:12]}")
        finally:
            process.kill()  # nobody wants the rest


def _cut(number: int, first: bytes, rest: IO[bytes], room: Kept) -> tuple[FileDiff, bytes]:
    """A file, and the first line of the next one."""
    head: list[str] = []
    kept: list[bytes] = []
    size = whole = total = 0
    piece, begins = first, True
    while piece and not (begins and total and piece.startswith(_FILE)):
        if begins and len(head) < _HEAD:
            head.append(piece.decode(errors="replace").rstrip("\n"))
        ends = piece.endswith(b"\n")
        total += ends
        if whole < room.lines and size < room.chars:
            kept.append(piece)
            size += len(piece)
            whole += ends and size <= room.chars
        begins = ends
        piece = rest.readline(_PIECE)
    text = b"".join(kept).decode(errors="replace")[: room.chars]
    return FileDiff(number, _name(head), text, total - whole), piece


def _name(lines: list[str]) -> str:
    """The new one. The first line has both, and " b/" may be in either; without a rename both are as long."""
    renamed = next((line for line in lines if line.startswith(("rename to ", "copy to ", "@@"))), "")
    if renamed.startswith(("rename", "copy")):
        return renamed.partition(" to ")[2].strip('"')
    both = lines[0].removeprefix("diff --git ")
    return both[len(both) // 2 + 1 :].strip('"').removeprefix("b/")
