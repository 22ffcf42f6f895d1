"""A difference file by file, each cut where a browser would get slow."""

from __future__ import annotations

import re

from msgspec import Struct

from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.reader import RepositoryReader
from gitswarm.records.execution import RUNS_FOLDER

MOST_LINES = 2_000
"""Of one file; 5,000 make 1.6 MB of HTML."""

MAX_CHARS = 500_000
"""Of one file, for what has few lines, and long ones."""

MOST_FILES = 100

_FILE = re.compile(rb"^(?=diff --git )", re.MULTILINE)


class FileDiff(Struct, frozen=True):
    """`text`: git's own words, up to `MOST_LINES`; `left_out`: lines beyond, those that are cut among them."""

    number: int
    name: str
    text: str
    left_out: int


def git_diff(old: str, new: str) -> tuple[str, ...]:
    """What to type behind `git` for the same."""
    return ("diff", old, new, "--", f":(top,exclude){RUNS_FOLDER}")


def file_diffs(repository: RepositoryReader, old: str, new: str, *, most: int = MOST_LINES) -> list[FileDiff]:
    """Between two commits; the evidence of runs is left out."""
    # No program of a repository's configuration: an agent may have put it there.
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
    said = repository.git.run("-c", "core.quotePath=false", "diff", *options, *git_diff(old, new)[1:])
    if said.returncode != 0:
        raise SwarmError(f"git diff ended with {said.returncode}", hint=f"git diff {old[:12]} {new[:12]}")
    files = [each for each in _FILE.split(said.stdout) if each]
    return [_cut(number, each, most) for number, each in enumerate(files)]


def whole_file(repository: RepositoryReader, old: str, new: str, number: int) -> FileDiff:
    """
    :raises NotFoundError: the difference has no such file.
    """
    files = file_diffs(repository, old, new, most=10**9)
    if not 0 <= number < len(files):
        raise NotFoundError(f"the difference has no file {number}", hint=f"git diff --stat {old[:12]} {new[:12]}")
    return files[number]


def _cut(number: int, content: bytes, most: int) -> FileDiff:
    lines = content.decode(errors="replace").split("\n")
    name = _name(lines)
    text = "\n".join(lines[:most])
    if most == MOST_LINES and len(text) > MAX_CHARS:
        text = text[:MAX_CHARS]
        most = text.count("\n")
    return FileDiff(number, name, text, max(len(lines) - 1 - most, 0))


def _name(lines: list[str]) -> str:
    """The new one. The first line has both, and " b/" may be in either; without a rename both are as long."""
    renamed = next((line for line in lines if line.startswith(("rename to ", "copy to ", "@@"))), "")
    if renamed.startswith(("rename", "copy")):
        return renamed.partition(" to ")[2].strip('"')
    both = lines[0].removeprefix("diff --git ")
    return both[len(both) // 2 + 1 :].strip('"').removeprefix("b/")
