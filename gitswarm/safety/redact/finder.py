"""Where the secrets in a text are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import re2

from gitswarm.safety.redact.entropy import random_tokens
from gitswarm.safety.redact.rule import Rule, Span, any_of, in_ascii, options
from gitswarm.safety.redact.shapes import Shape, Shapes
from gitswarm.safety.redact.views import GAP, views


@lru_cache(maxsize=4)
def _keyword_set(keywords: tuple[tuple[str, ...], ...]) -> re2.Set:
    """Compiled once per process: most runs have the same."""
    found = re2.Set.SearchSet(options())
    for words in keywords:
        found.Add(any_of(words, folds=True))
    found.Compile()
    return found


class Finder:
    """Applies rules to a text and to every other reading of it. Linear in the length of the text."""

    def __init__(self, rules: Sequence[Rule], shapes: Shapes) -> None:
        self._always = [rule for rule in rules if not rule.keywords]
        self._shapes = shapes
        self._seen: list[Rule | Shape] = [*(rule for rule in rules if rule.keywords), *shapes.rules]
        self._keywords = _keyword_set(tuple(rule.keywords for rule in self._seen))

    def in_text(self, text: str) -> list[Span]:
        """In order and without overlaps; what random letters look like counts too."""
        known = _merged(list(self._spans(text, is_code=False)))
        # A token that looks random because of a secret in it, as the path of a file, is looked at again without it.
        return _merged([*known, *_apart_from(known, random_tokens(text))])

    def in_code(self, text: str) -> list[Span]:
        """As `in_text`, but only what is no accident in code."""
        return _merged(list(self._spans(text, is_code=True)))

    def _spans(self, text: str, *, is_code: bool) -> Iterator[Span]:
        yield from self._direct(text, is_code=is_code)
        for view in views(text):
            for span in self._direct(view.text, is_code=is_code):
                # What lies on both sides of a gap does not belong together.
                gap = view.text.find(GAP, span.start, span.end)
                start, end = view.start(span.start), view.end(span.end if gap < 0 else gap)
                if start < end:
                    yield Span(start, end, span.kind)

    def _direct(self, text: str, *, is_code: bool) -> Iterator[Span]:
        raw = in_ascii(text)
        # Most rules are out because none of their words occurs: all of them are looked for at once.
        seen = [self._seen[number] for number in sorted(self._keywords.Match(raw) or ())]
        for rule in (*self._always, *(rule for rule in seen if isinstance(rule, Rule))):
            yield from rule.spans(text, raw, is_code=is_code)
        yield from self._shapes.spans(text, raw, [rule for rule in seen if isinstance(rule, Shape)])


def _apart_from(known: Sequence[Span], spans: Iterable[Span]) -> Iterator[Span]:
    """Those that overlap none of the known ones, which are in order."""
    ends = [span.end for span in known]
    for span in spans:
        index = bisect_right(ends, span.start)
        if index == len(known) or known[index].start >= span.end:
            yield span


def _merged(spans: list[Span]) -> list[Span]:
    """Overlapping ones become one; it has the kind of the longest."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
            continue
        longest = max(last, span, key=lambda one: one.end - one.start)
        merged[-1] = Span(last.start, max(last.end, span.end), longest.kind)
    return merged
