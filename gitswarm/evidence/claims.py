"""What an agent claims: the fields of its handoff, what its summary says in so many words, and the files
that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.evidence.test_count import is_test_file
from gitswarm.records.envelope import Confidence, FileChange
from gitswarm.records.outcome import Status
from gitswarm.records.text import words

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S+", re.IGNORECASE)
_WORD = re.compile(r"[^\s`'\"“”‘’<>|,;:()\[\]{}*?!=]+")
_EXTENSION = re.compile(
    r"c|cc|cfg|cjs|clj|cpp|cs|css|csv|cts|dart|env|erl|exs?|feature|go|gradle|graphql|hp?p?|hs|html|ini|ipynb|java|jl|"
    r"jsonl?|jsx?|kt|lock|lua|md|mjs|mts?|ml|php|p[lm]|proto|ps1|py[ix]?|r|rb|rs|rst|sass|scala|scss|sh|sql|svelte|svg|"
    r"swift|tcl|tf|toml|tsx?|txt|vue|xml|ya?ml|zig",
    re.IGNORECASE,
)
_WHOLE_NAMES = frozenset({"Makefile", "Dockerfile", "Justfile", "Rakefile", "Gemfile", "Procfile", "CMakeLists.txt"})
_PRODUCTS = frozenset({"node.js", "next.js", "vue.js", "nuxt.js", "react.js", "express.js", "three.js", "d3.js"})
_FILES = 200

# Of "added tests for a.py", "like b.py" and "the parser reads c.py from d.py" none says that the file was changed.
_NOT_CHANGED_AFTER = words("""
    for of against from like using with covering per on by via than after see through reads calls imports under
""")
_ABOUT = re.compile(r"\b(?:tests?|cases?|docs?|documentation|coverage) (?:for|of)\b", re.IGNORECASE)
_TAKES_AWAY = re.compile(r"\b(?:removed|deleted|extracted|moved)\b", re.IGNORECASE)


def named_files(text: str) -> tuple[str, ...]:
    """Names with a known extension, and well-known names without one, in order of appearance; at most 200.

    Not products (Node.js), addresses, calls (`log.md()`) and patterns (`src/**`).
    """
    return tuple(dict.fromkeys(name for name, _ in islice(_mentions(text), _FILES)))


def objects_of_change(clause: str) -> tuple[str, ...]:
    """The files that a clause says were changed, not those that it mentions for another reason."""
    found, is_skipped = [], False
    about, takes_away = _ABOUT.search(clause), _TAKES_AWAY.search(clause)
    for name, before in islice(_mentions(clause), _FILES):
        if before not in {"and", "or", ""}:
            is_skipped = before in _NOT_CHANGED_AFTER and not (before == "from" and takes_away)
        if not is_skipped and (about is None or is_test_file(name)):
            found.append(name)
    return tuple(dict.fromkeys(found))


def is_list_of_files(clause: str) -> bool:
    words = [word for word in clause.split() if word.lower() not in {"and", "plus", "also", "in"}]
    return bool(words) and len(words) == sum(1 for _ in _mentions(clause))


def means(name: str, path: str) -> bool:
    """Whether what somebody calls `name` may be `path`, which is relative to the top of the tree.

    A name may leave out leading folders, start with `./`, be an absolute path of the worktree, or name an artifact by
    its place in the commit.
    """
    stated, real = _parts(name), _parts(path)
    if not stated or not real:
        return False
    if len(stated) <= len(real):
        return real[-len(stated) :] == stated
    return name.startswith(("/", "$", "~", ".swarm/", "./.swarm/")) and stated[-len(real) :] == real


def any_means(name: str, paths: Iterable[str]) -> bool:
    """As `means`, and a name that is a folder stands for what lies in it."""
    folder = _parts(name)
    return any(means(name, path) or (bool(folder) and _parts(path)[: len(folder)] == folder) for path in paths)


def _mentions(text: str) -> Iterator[tuple[str, str]]:
    """File names with the word before each, in small letters."""
    before = ""
    for match in _WORD.finditer(_URL.sub(" ", text)):
        word, following = match[0].rstrip(".…"), match.string[match.end() : match.end() + 1]
        if _is_file(word) and following not in {"*", "(", "[", "{"}:
            yield word, before
        before = word.lower()


def _is_file(name: str) -> bool:
    last = name.rpartition("/")[2]
    stem, dot, extension = last.rpartition(".")
    if name in _WHOLE_NAMES or last in _WHOLE_NAMES:
        return True
    if not dot or not _EXTENSION.fullmatch(extension) or last.lower() in _PRODUCTS:
        return False
    return bool(stem) and not stem.replace(".", "").isdigit()


def _parts(name: str) -> list[str]:
    return [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in {".", "/"}]


class PassClaim(Struct, frozen=True):
    """Tests are said to pass. `passed` is the number if there is one; `all_green`: none is said to fail."""

    text: str
    passed: int | None
    all_green: bool


class ProgressClaim(Struct, frozen=True):
    """Something is said to be done; `files` are those that it is said to be done to."""

    text: str
    files: tuple[str, ...]


class CoverageClaim(Struct, frozen=True):
    text: str
    percent: float


class Claims(Struct, frozen=True):
    """Of a handoff. Mentioning a file claims nothing about it."""

    status: Status
    confidence: Confidence | None
    artifacts: tuple[str, ...] = ()
    file_changes: tuple[FileChange, ...] = ()
    passes: tuple[PassClaim, ...] = ()
    progress: tuple[ProgressClaim, ...] = ()
    coverage: tuple[CoverageClaim, ...] = ()

    @property
    def says_something(self) -> bool:
        """Whether there is anything but a status to compare with facts."""
        return bool(self.file_changes or self.passes or self.progress or self.coverage)
