"""Finds what the project says to agents, in the base commit of a run: later edits have no effect in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import dirname, join, normpath

from msgspec import Struct, field

from gitswarm.git.object_reader import DIRECTORY, GITLINK, ObjectReader
from gitswarm.git.repository import Repository
from gitswarm.records.globs import gitignore
from gitswarm.records.instructions import Instruction, Instructions

_LINK = 0o120000
_DEPTH = 5
"""Of links and of imports: what Claude Code follows too."""

_IMPORT = re.compile(r"^[ \t]*(?:[-*][ \t]+)?@(?P<path>[^\s@]+)[ \t]*$", re.MULTILINE)
"""A line that is nothing but `@path`."""

_GLOB = re.compile(r"[*?\[]")


def read_instructions(repository: Repository, tree: str, patterns: Sequence[str]) -> Instructions:
    """
    :param patterns: paths and globs from the top (`docs/*.md`, `**/AGENTS.md`), the first one first.
    """
    found = _Collected(repository.objects, tree)
    for pattern in patterns:
        for path in _matching(repository, tree, pattern) if _GLOB.search(pattern) else (normpath(pattern),):
            found.add(path)
    return Instructions(files=tuple(found.by_blob.values()))


def _matching(repository: Repository, tree: str, pattern: str) -> list[str]:
    spec = gitignore(pattern if pattern.startswith("**/") else f"/{pattern.lstrip('/')}")
    return sorted(path for path, _blob in repository.objects.files(tree) if spec.match_file(path))


class _Collected(Struct):
    """In the order in which they were found; each content once."""

    objects: ObjectReader
    tree: str
    by_blob: dict[str, Instruction] = field(default_factory=dict)

    def add(self, path: str, depth: int = 0) -> None:
        """The file at `path`, then what it imports; nothing where there is no file."""
        followed = self._followed(path)
        if followed is None:
            return
        blob = followed[1]
        known = self.by_blob.get(blob)
        if known is not None:
            if path != known.path and path not in known.also:
                self.by_blob[blob] = known.model_copy(update={"also": (*known.also, path)})
            return
        content = self.objects.file(self.tree, followed[0])
        text = (content or b"").decode(errors="replace").replace("\0", "").strip()
        imported = list(_imports(followed[0], text)) if depth < _DEPTH else []
        if _IMPORT.sub("", text).strip():
            self.by_blob[blob] = Instruction(path=path, blob=blob, text=text)
        for name in imported:
            self.add(name, depth + 1)

    def _followed(self, path: str) -> tuple[str, str] | None:
        """Path and blob of the file that `path` names, links followed; None: there is none in the tree."""
        for _link in range(_DEPTH):
            entry = self._entry(path)
            if entry is None or entry[1] in (DIRECTORY, GITLINK):
                return None
            if entry[1] != _LINK:
                return path, entry[0]
            target = (self.objects.file(self.tree, path) or b"").decode(errors="replace")
            path = normpath(join(dirname(path), target))
        return None

    def _entry(self, path: str) -> tuple[str, int] | None:
        if path.startswith(("/", "../")) or path in (".", ".."):
            return None
        folder, _slash, name = path.rpartition("/")
        above = self.objects.entry(self.tree, folder) if folder else self.tree
        held = self._entry(folder) if folder else None
        if above is None or (held is not None and held[1] != DIRECTORY):
            return None
        return self.objects.entries(above).get(name)


def _imports(path: str, text: str) -> Iterator[str]:
    for found in _IMPORT.finditer(text):
        if not found["path"].startswith("~"):
            yield normpath(join(dirname(path), found["path"]))
