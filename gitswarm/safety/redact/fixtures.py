"""What tests and documentation show: made-up passwords and keys, unless these are those of this machine's user."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from gitswarm.safety.redact.assignments import ASSIGNMENTS
from gitswarm.safety.redact.keys import letters_of_key

EXAMPLES = frozenset(
    {"private-key", "putty-key", "jwt", *(rule.kind for rule in ASSIGNMENTS)},
)
"""Kinds of which tests make their own: keys, and what only its name makes a secret. What a provider issued, or the
environment holds, opens something wherever it stands."""

_PATH = re.compile(
    r"(?:^|/)(?:[\w.-]*[_.-])?(?:t|unit|tests?|testing|testdata|test[_-]?data|fixtures?|specs?|__tests__|mocks?|docs?|demos?"
    r"|docs?_src|tutorials?|examples?|samples?|vectors|benchmarks?)(?:[_.-][\w.-]*)?/"
    r"|(?:^|/)(?:tests?|tests?_[^/]*|conftest|[^/]*[_.-](?:tests?|spec))\.\w+$|(?:^|/)(?:readme|changelog|changes|history|news)[^/]*$",
    re.IGNORECASE,
)
_BIGGEST = 100_000


def is_example_path(path: str) -> bool:
    """Whether tests or documentation lie there, by the names that they commonly have."""
    return _PATH.search(path) is not None


class OwnKeys:
    """Private keys in `~/.ssh` of whoever started git-swarm, read when a key in tests is to be compared with them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._home = env.get("HOME")

    def has(self, block: str) -> bool:
        letters = letters_of_key(block)
        return any(own in letters or letters in own for own in self._letters if letters)

    @cached_property
    def _letters(self) -> tuple[str, ...]:
        return tuple(found for found in map(letters_of_key, self._contents()) if len(found) >= 64)

    def _contents(self) -> Iterator[str]:
        folder = Path(self._home, ".ssh") if self._home else None
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()) if folder is not None else ():
                if path.is_file() and path.stat().st_size < _BIGGEST:
                    text = path.read_text("utf-8", errors="replace")
                    yield from (text,) if "PRIVATE" in text else ()
