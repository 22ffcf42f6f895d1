"""Whether a removed test went with what it tested: a file or a definition that it names left the tree too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from gitswarm.evidence.path_roles import role_of
from gitswarm.evidence.test_changes import FollowedTest
from gitswarm.evidence.test_count import TextChange

_DEFINITION = re.compile(
    r"^[ \t]{0,80}(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\(\w{1,20}\))?) )"
    r"{0,5}"
    r"(?:def|class|func(?: \([^)\n]{0,200}\))?|fn|function|struct|enum|trait|interface|type|const|module|record)"
    r"\*? (?P<name>[A-Za-z_$][\w$]{2,200})",
    re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z_$][\w$]{2,}")
_TEXT_CHARS = 2_000_000
_COMMON = frozenset(
    {"main", "run", "get", "set", "init", "new", "setup", "start", "stop", "test", "index", "__init__"}
)


def removed_subjects(changes: Iterable[TextChange]) -> frozenset[str]:
    """Names of product files and definitions that stand nowhere in the changed files any more."""
    defined_before: set[str] = set()
    defined_after: set[str] = set()
    for change in changes:
        if role_of(change.old_path or change.path) not in {"product", "mixed"}:
            continue
        defined_before |= _defined(change.old_path or change.path, change.before)
        defined_after |= _defined(change.path, change.after)
    return frozenset(defined_before - defined_after - _COMMON)


def subject_of(test: FollowedTest, text: str, following: Sequence[int], subjects: frozenset[str]) -> str | None:
    """The first removed name that a test's own lines contain.

    :param text: of its file before the change.
    :param following: first lines of the tests of that file.
    """
    lines = text.splitlines()
    end = min((line - 1 for line in following if line > test.before.line), default=len(lines))
    own = "\n".join(lines[test.before.line - 1 : end])
    return next((word for word in _WORD.findall(own) if word in subjects), None)


def _defined(path: str, text: str | None) -> set[str]:
    if text is None:
        return set()
    stem = PurePosixPath(path).stem
    return {match["name"] for match in _DEFINITION.finditer(text[:_TEXT_CHARS])} | (
        {stem} if len(stem) > 2 else set()
    )
