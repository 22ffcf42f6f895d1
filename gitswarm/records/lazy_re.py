"""Regular expressions that are compiled when they are first used: each takes 0.1 to 5 ms, and a command needs few."""

from __future__ import annotations

import re
from typing import AnyStr, cast


class _LazyPattern:
    """What is asked of it once lies in the instance from then on: later uses cost what those of a pattern cost."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        found = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
        return found


def lazy_re(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern like that of `re.compile`, compiled when it is first used; what is wrong with it is raised then."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
