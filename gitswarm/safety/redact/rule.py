"""One kind of secret: a pattern, and the literal words without which it cannot match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import re2
from msgspec import Struct

_AHEAD = 2_000
"""A pattern is searched this far behind its keyword at first; a match that reaches the end is matched again whole."""


def begins(prefix: str, before: str = r"[A-Za-z0-9_-]") -> str:
    """Pattern of a prefix with none of the letters `before` it: who starts in the middle of a run would scan the
    same run again and again. A letter behind a backslash is an escape of JSON, no letter.

    The prefix comes first, as `re` looks for literal text much faster than for a place.
    """
    return rf"{prefix}(?:(?<!{before}{prefix})|(?<=\\[nrt]{prefix}))"


class Span(Struct, frozen=True):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    kind: str


Accept = Callable[["re.Match[str]"], bool]


def options() -> re2.Options:
    """Bytes of ASCII; room for an automaton of all rules."""
    found = re2.Options()
    found.encoding = re2.Options.Encoding.LATIN1
    found.max_mem = 64 << 20
    return found


def linear(pattern: str) -> re2._Regexp:
    """Compiled for bytes, in an engine that takes no longer than a text is long."""
    return re2.compile(pattern.encode("ascii"), options())


def in_ascii(text: str) -> bytes:
    """Each letter at its place; `?` for those that no rule asks for."""
    return text.encode("ascii", "replace")


def any_of(words: Iterable[str], *, folds: bool) -> str:
    """Pattern of literal words."""
    found = "|".join(re2.escape(in_ascii(word).decode()) for word in words)
    return f"(?i:{found})" if folds else f"(?:{found})"


@dataclass(frozen=True, eq=False)
class Rule:
    """`keywords`: one of them is in every match, at most `back` letters behind its start; of any case when `folds`.
    Without any the patterns are tried on every text.

    `patterns` is called when a keyword was seen, and never before. The named group `value` is the secret, else the
    whole match. `accept` looks at a match again; `accept_in_code` does so in code, too.
    """

    kind: str
    keywords: tuple[str, ...]
    patterns: Callable[[], tuple[re.Pattern[str], ...]]
    back: int = 0
    folds: bool = False
    accept: Accept | None = None
    accept_in_code: Accept | None = None

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], ...]:
        return self.patterns()

    @cached_property
    def _keyword(self) -> re2._Regexp:
        return linear(any_of(self.keywords, folds=self.folds))

    def spans(self, text: str, raw: bytes, *, is_code: bool) -> Iterator[Span]:
        """
        :param raw: `text` in ASCII, letter by letter.
        """
        places = [found.start() for found in self._keyword.finditer(raw)] if self.keywords else []
        if places or not self.keywords:
            windows = list(_windows(places, self.back, len(text))) if places else [(0, len(text))]
            for pattern in self._compiled:
                yield from self._matches(pattern, text, windows, is_code=is_code)

    def _matches(
        self, pattern: re.Pattern[str], text: str, windows: Iterable[tuple[int, int]], *, is_code: bool
    ) -> Iterator[Span]:
        done = 0
        for begin, end in windows:
            for found in pattern.finditer(text, max(begin, done), end):
                match = pattern.match(text, found.start()) if found.end() == end else found
                if match is None:
                    continue
                done = max(done, match.end())
                if self._counts(match, is_code=is_code):
                    group = "value" if "value" in pattern.groupindex else 0
                    yield Span(match.start(group), match.end(group), self.kind)

    def _counts(self, match: re.Match[str], *, is_code: bool) -> bool:
        accepted = self.accept is None or self.accept(match)
        return accepted and not (is_code and self.accept_in_code is not None and not self.accept_in_code(match))


def _windows(places: Sequence[int], back: int, length: int) -> Iterator[tuple[int, int]]:
    """Where a pattern has to be looked for, in order and without overlaps."""
    begin, end = max(0, places[0] - back), places[0] + _AHEAD
    for place in places:
        if place - back > end:
            yield begin, min(end, length)
            begin = place - back
        end = place + _AHEAD
    yield begin, min(end, length)


def shaped(kind: str, keyword: str, pattern: str, *, back: int = 0, accept_in_code: Accept | None = None) -> Rule:
    """A rule of one pattern."""
    return Rule(kind, (keyword,), lambda: (re.compile(pattern),), back=back, accept_in_code=accept_in_code)
