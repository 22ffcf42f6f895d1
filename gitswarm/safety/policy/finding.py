"""What `find` may find."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitswarm.safety.policy.values import UNKNOWN, Word

_LINKS = re.compile(r"-[HLPDEXdfsx]+|-O\d?|--")
"""Options that stand in front of the places: how links are followed, and the like."""
_ALTERNATIVES = frozenset({"-o", "-or", "!", "-not", ","})


def starting_points(words: Sequence[Word]) -> Sequence[Word]:
    """
    :param words: the arguments of find.
    """
    begin = 0
    while begin < len(words) and _LINKS.fullmatch(words[begin].shown):
        begin += 2 if words[begin].shown == "-D" else 1
    ends = (at for at in range(begin, len(words)) if words[at].shown.startswith(("-", "(", "!")))
    end = next(ends, len(words))
    return words[begin:end] or (Word("."),)


def found_by_name(words: Sequence[Word]) -> list[Word] | None:
    """Patterns of what is found, when there is one `-name` and nothing that widens it; None: it may be anything."""
    texts = [word.known for word in words]
    at = texts.index("-name") + 1 if texts.count("-name") == 1 else len(texts)
    name = texts[at] if at < len(texts) and not _ALTERNATIVES & set(texts) else None
    starts = starting_points(words)
    if not name or "/" in name or any(start.text is None for start in starts):
        return None
    return [Word(f"{start.text}/{name}", pattern=True) for start in starts]


def found_path(words: Sequence[Word]) -> Word:
    """What `{}` stands for."""
    starts = starting_points(words)
    if len(starts) > 1 or starts[0].text is None:
        return UNKNOWN
    named = found_by_name(words)
    return named[0] if named else Word(f"{starts[0].text}/*", pattern=True)
