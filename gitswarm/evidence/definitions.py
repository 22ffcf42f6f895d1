"""Names that a change takes out of the product or brings into it: of files and of definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.test_count import TextChange

_DEFINITION = re.compile(
    r"^[ \t]{0,80}(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\(\w{1,20}\))?) )"
    r"{0,5}"
    r"(?:def|class|func(?: \([^)\n]{0,200}\))?|fn|function|struct|enum|trait|interface|type|const|module|record)"
    r"\*? (?P<name>[A-Za-z_$][\w$]{2,200})",
    re.MULTILINE,
)
_TEXT_CHARS = 2_000_000
_COMMON = frozenset(
    {"main", "run", "get", "set", "init", "new", "setup", "start", "stop", "test", "index", "__init__"}
)


@dataclass(frozen=True, slots=True)
class Definitions:
    """`removed`: names that stand nowhere in the changed files any more; `added`: that stood nowhere in them."""

    removed: frozenset[str]
    added: frozenset[str]


def changed_definitions(changes: Iterable[TextChange]) -> Definitions:
    before: set[str] = set()
    after: set[str] = set()
    for change in changes:
        if role_of(change.old_path or change.path) in {"product", "mixed"}:
            before |= _defined(change.old_path or change.path, change.before)
            after |= _defined(change.path, change.after)
    return Definitions(frozenset(before - after - _COMMON), frozenset(after - before))


def _defined(path: str, text: str | None) -> set[str]:
    if text is None:
        return set()
    stem = PurePosixPath(path).stem
    return {match["name"] for match in _DEFINITION.finditer(text[:_TEXT_CHARS])} | (
        {stem} if len(stem) > 2 else set()
    )
