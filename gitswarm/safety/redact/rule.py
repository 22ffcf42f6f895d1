"""One kind of secret: a pattern, and the literal words without which it cannot match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import re2
from msgspec import Struct

from gitswarm.safety.redact.plausible import entropy, is_name, is_words

_AHEAD = 2_000
"""A pattern is searched this far behind its keyword at first; a match that reaches the end is matched again whole."""

_FOLDER = Path(__file__).parent / "rules"
_BEGIN = r"(?:^|[^A-Za-z0-9]|\\[nrt])"
"""A letter behind a backslash is an escape of JSON, no letter."""

_SHORT = 50_000
"""Below, the rules whose keywords were seen are tried one by one; all at once is worth its 80 ms above."""


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


@cache
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
    """`keywords`: one of them begins every match, or stands at most `back` letters behind its start; of any case when
    `folds`. Without any the pattern is tried on every text.

    The named group `value` is the secret, else the whole match. `accept` looks at a match again; `accept_in_code`
    does so in code, too.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    back: int = 0
    folds: bool = False
    accept: Accept | None = None
    accept_in_code: Accept | None = None

    @cached_property
    def _keyword(self) -> re2._Regexp:
        return linear(any_of(self.keywords, folds=self.folds))

    @cached_property
    def _ahead(self) -> int:
        """A keyword may be the whole of a long secret."""
        return max(_AHEAD, *map(len, self.keywords))

    def spans(self, text: str, raw: bytes, *, is_code: bool) -> Iterator[Span]:
        """
        :param raw: `text` in ASCII, letter by letter.
        """
        for match in self._matches(text, raw):
            accepted = self.accept is None or self.accept(match)
            if accepted and not (is_code and self.accept_in_code is not None and not self.accept_in_code(match)):
                group = "value" if "value" in self.pattern.groupindex else 0
                yield Span(match.start(group), match.end(group), self.kind)

    def _matches(self, text: str, raw: bytes) -> Iterator[re.Match[str]]:
        if not self.keywords:
            yield from self.pattern.finditer(text)
        elif self.back:
            yield from self._near(text, [found.start() for found in self._keyword.finditer(raw)])
        else:
            yield from self._at(text, raw)

    def _at(self, text: str, raw: bytes) -> Iterator[re.Match[str]]:
        """Where keywords begin; one may begin within another."""
        found = self._keyword.search(raw)
        while found is not None:
            begin = found.start()
            match = self._whole(self.pattern.match(text, begin, begin + self._ahead), begin + self._ahead)
            if match is not None:
                yield match
            found = self._keyword.search(raw, match.end() if match is not None else begin + 1)

    def _near(self, text: str, positions: Sequence[int]) -> Iterator[re.Match[str]]:
        """In windows around the positions of keywords."""
        done = 0
        for begin, end in _windows(positions, self.back, len(text)) if positions else ():
            for found in self.pattern.finditer(text, max(begin, done), end):
                match = self._whole(found, end)
                if match is not None:
                    done = max(done, match.end())
                    yield match

    def _whole(self, match: re.Match[str] | None, end: int) -> re.Match[str] | None:
        """One that was cut off at `end` is matched again without that."""
        if match is not None and match.end() == end:
            return self.pattern.match(match.string, match.start())
        return match


def _windows(positions: Sequence[int], back: int, length: int) -> Iterator[tuple[int, int]]:
    """Where a pattern has to be looked for, in order and without overlaps."""
    begin, end = max(0, positions[0] - back), positions[0] + _AHEAD
    for position in positions:
        if position - back > end:
            yield begin, min(end, length)
            begin = position - back
        end = position + _AHEAD
    yield begin, min(end, length)


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
        position, word = next(((folded.index(word), word) for word in self.keywords if word in folded), (0, ""))
        body = max(value[:position], value[position + len(word) :], key=len)
        is_named = is_words(body) or (is_name(body) and not any(map(str.isdigit, body)))
        return not is_named and (not self.least or entropy(value) > self.least)


class Shapes:
    """All rules for secrets of a known shape, in order."""

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
    """Rules for secrets of a known shape, ours first: of two that find the same, the first names it."""
    ours, theirs = ((_FOLDER / f"{name}.rules").read_text("utf-8").splitlines() for name in ("own", "betterleaks"))
    rules = [_own(*line.split(None, 2)) for line in ours if not line.startswith("#")]
    rules += [_theirs(*line.split(None, 3)) for line in theirs if not line.startswith("#")]
    return Shapes(rules)


def _own(kind: str, keywords: str, pattern: str, least: str = "0") -> Shape:
    return Shape(kind, tuple(keywords.split(",")), pattern, float(least))


def _theirs(kind: str, keywords: str, least: str, pattern: str) -> Shape:
    return _own(kind, keywords, pattern, least)
