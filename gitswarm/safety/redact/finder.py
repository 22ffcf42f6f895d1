"""Where the secrets in a text are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from gitswarm.safety.redact.entropy import random_tokens
from gitswarm.safety.redact.rule import Rule, Span
from gitswarm.safety.redact.views import GAP, views


class Finder:
    """Applies rules to a text and to every other reading of it. Linear in the length of the text."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._always = [rule for rule in rules if not rule.keywords]
        self._exact = _by_keyword(rule for rule in rules if not rule.folds)
        self._folded = _by_keyword(rule for rule in rules if rule.folds)

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
        folded = _folded(text)
        # Most rules are out because none of their words occurs; that costs 40 ns each.
        seen = [self._exact[word] for word in self._exact if word in text]
        seen += [self._folded[word] for word in self._folded if word in folded]
        for rule in dict.fromkeys(rule for rules in (self._always, *seen) for rule in rules):
            yield from rule.spans(text, folded, is_code=is_code)


def _by_keyword(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        for keyword in rule.keywords:
            found.setdefault(keyword, []).append(rule)
    return found


def _folded(text: str) -> str:
    """In lower case, each letter at its place: a few letters outside of ASCII become two."""
    folded = text.lower()
    if len(folded) != len(text):
        folded = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    return folded


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
