"""Names that a change takes out of the product or brings into it: of files and of definitions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.path_roles import role_of
from gitswarm.records.lazy_re import lazy_re

_DEFINITION = lazy_re(
    r"^[ \t]{0,80}(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\(\w{1,20}\))?) )"
    r"{0,5}"
    r"(?:def|class|func(?: \([^)\n]{0,200}\))?|fn|function|struct|enum|trait|interface|type|const|module|record)"
    r"\*? (?P<name>[A-Za-z_$][\w$]{2,200})",
    re.MULTILINE,
)
_WORD = lazy_re(r"\w+")
_TEXT_CHARS = 2_000_000
_BLOCK_CHARS = 2_000
_ALIKE = 0.6
_COMMON = frozenset(
    {"main", "run", "get", "set", "init", "new", "setup", "start", "stop", "test", "index", "__init__"}
)


class Definitions(Struct, frozen=True):
    """`removed`: names that stand nowhere in the changed files any more; `added`: that stood nowhere in them;
    `replaced`: removed ones in whose file an added definition looks like them."""

    removed: frozenset[str]
    added: frozenset[str]
    replaced: frozenset[str]


def changed_definitions(changes: Iterable[TextChange]) -> Definitions:
    before: set[str] = set()
    after: set[str] = set()
    product = [each for each in changes if role_of(each.old_path or each.path) in {"product", "mixed"}]
    for change in product:
        before |= _defined(change.old_path or change.path, change.before)
        after |= _defined(change.path, change.after)
    removed, added = frozenset(before - after - _COMMON), frozenset(after - before)
    replaced = (name for change in product for name in _replaced(change, removed, added))
    return Definitions(removed, added, frozenset(replaced))


def _replaced(change: TextChange, removed: frozenset[str], added: frozenset[str]) -> Iterator[str]:
    old, new = (_blocks(text or "") for text in (change.before, change.after))
    if change.path != (change.old_path or change.path):
        yield PurePosixPath(change.old_path or "").stem
    for name in removed & old.keys():
        if any(_look_alike(old[name], new[other]) for other in added & new.keys()):
            yield name


def _look_alike(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """By their parameters, if they have any to speak of, or most of their lines. Both without their names."""
    head = old[0] == new[0] and len(_WORD.findall(old[0])) > 1
    return head or difflib.SequenceMatcher(None, old[1], new[1]).ratio() >= _ALIKE


def _blocks(text: str) -> dict[str, tuple[str, str]]:
    """Definitions by name: their first line and their first lines, without the name."""
    found = {}
    for match in _DEFINITION.finditer(text[:_TEXT_CHARS]):
        name = match["name"]
        lines = text[match.start() : match.start() + _BLOCK_CHARS].replace(name, "_").splitlines()
        found[name] = (lines[0].strip(), "\n".join(_block(lines)))
    return found


def _block(lines: Sequence[str]) -> Iterator[str]:
    """Up to the next line that is indented no deeper than the first."""
    depth = len(lines[0]) - len(lines[0].lstrip())
    yield lines[0]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            return
        yield line


def _defined(path: str, text: str | None) -> set[str]:
    if text is None:
        return set()
    stem = PurePosixPath(path).stem
    return {match["name"] for match in _DEFINITION.finditer(text[:_TEXT_CHARS])} | (
        {stem} if len(stem) > 2 else set()
    )
