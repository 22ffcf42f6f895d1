"""The code that a run changed, as git's plumbing counts it: without libgit2, drivers and hooks."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.git.reader import RepositoryReader
from gitswarm.records.execution import RUNS_FOLDER

_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type changed"}
_COMMAND = ("diff-tree", "-r", "-z", "-M", "--no-ext-diff", "--no-textconv", "--raw", "--numstat")


class CountedFile(Struct, frozen=True):
    """Line counts are None for binary files."""

    path: str
    change: str
    insertions: int | None
    deletions: int | None


def changed_files(repository: RepositoryReader, old: str, new: str) -> list[CountedFile]:
    """What turns one commit into the other, in path order, `.swarm/runs` left out."""
    said = repository.git.output(*_COMMAND, old, new, "--", f":(top,exclude){RUNS_FOLDER}")
    words = iter(said.decode(errors="replace").split("\0"))
    changes: dict[str, str] = {}
    found: list[CountedFile] = []
    for word in words:
        if word.startswith(":"):
            letter = word.rpartition(" ")[2][:1]
            path = next(words)
            changes[next(words) if letter == "R" else path] = _WORDS.get(letter, "modified")
        elif word:
            added, deleted, path = word.split("\t", 2)
            if not path:  # a rename: both names follow
                next(words)
                path = next(words)
            found.append(CountedFile(path, changes.get(path, "modified"), _count(added), _count(deleted)))
    return sorted(found, key=lambda file: file.path)


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
