"""Whether a removed test went with what it tested: a file or a definition that it names left the tree too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitswarm.evidence.test_changes import FollowedTest

_WORD = re.compile(r"[A-Za-z_$][\w$]{2,}")


def subject_of(test: FollowedTest, text: str, following: Sequence[int], subjects: frozenset[str]) -> str | None:
    """The first removed name that a test's own lines contain.

    :param text: of its file before the change.
    :param following: first lines of the tests of that file.
    """
    lines = text.splitlines()
    end = min((line - 1 for line in following if line > test.before.line), default=len(lines))
    own = "\n".join(lines[test.before.line - 1 : end])
    return next((word for word in _WORD.findall(own) if word in subjects), None)
