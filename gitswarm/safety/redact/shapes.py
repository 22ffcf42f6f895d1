"""Secrets that are known by their shape: the rules of `rules/*.rules`, in one automaton of RE2, so in linear time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import re2

from gitswarm.safety.redact.plausible import entropy
from gitswarm.safety.redact.rule import Span, linear, options
from gitswarm.safety.redact.words import is_name, is_words

_FOLDER = Path(__file__).parent / "rules"
_BEGIN = r"(?:^|[^A-Za-z0-9]|\\[nrt])"
"""A letter behind a backslash is an escape of JSON, no letter."""

_SHORT = 50_000
"""Below, the rules whose keywords were seen are tried one by one; all at once is worth its 80 ms above."""


@dataclass(frozen=True, eq=False)
class Shape:
    """`least`: bits per letter (Shannon) that a value has."""

    kind: str
    keywords: tuple[str, ...]
    pattern: str
    least: float = 0.0

    @cached_property
    def _compiled(self) -> re2._Regexp:
        """The first group is the value."""
        has_group = linear(self.pattern).groups > 0
        return linear(f"{_BEGIN}(?:{self.pattern})" if has_group else f"{_BEGIN}({self.pattern})")

    def spans(self, text: str, raw: bytes) -> Iterator[Span]:
        """
        :param raw: `text` in ASCII, letter by letter.
        """
        for match in self._compiled.finditer(raw):
            start, end = match.span(1)
            if not text[end : end + 1].isalnum() and self._counts(text[start:end]):
                yield Span(start, end, self.kind)

    def _counts(self, value: str) -> bool:
        """Not a name that begins like a token: `tss_update_all_rows`."""
        folded = value.lower()
        begin = next((folded.index(word) + len(word) for word in self.keywords if word in folded), 0)
        body = value[begin:]
        is_named = is_words(body) or (is_name(body) and not any(map(str.isdigit, body)))
        return not is_named and (not self.least or entropy(value) > self.least)


class Shapes:
    """All of them, in order."""

    def __init__(self, rules: Sequence[Shape]) -> None:
        self.rules = rules

    @cached_property
    def _all(self) -> re2.Set:
        found = re2.Set.SearchSet(options())
        for rule in self.rules:
            found.Add(f"{_BEGIN}(?:{rule.pattern})")
        found.Compile()
        return found

    def spans(self, text: str, raw: bytes, seen: Sequence[Shape]) -> Iterator[Span]:
        """
        :param seen: the rules of which a keyword stands in the text.
        """
        for rule in seen if len(raw) < _SHORT else (self.rules[number] for number in self._all.Match(raw) or ()):
            yield from rule.spans(text, raw)


@cache
def shapes() -> Shapes:
    """Ours first: of two that find the same, the first names it."""
    ours, theirs = ((_FOLDER / f"{name}.rules").read_text("utf-8").splitlines() for name in ("own", "betterleaks"))
    rules = [_own(*line.split(None, 2)) for line in ours if not line.startswith("#")]
    rules += [_theirs(*line.split(None, 3)) for line in theirs if not line.startswith("#")]
    return Shapes(rules)


def _own(kind: str, keywords: str, pattern: str) -> Shape:
    return Shape(kind, tuple(keywords.split(",")), pattern)


def _theirs(kind: str, keywords: str, least: str, pattern: str) -> Shape:
    return Shape(kind, tuple(keywords.split(",")), pattern, float(least))
