"""Text as wide as a terminal shows it; amounts of tokens, money and time, added up and written in one place."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from math import isfinite, nan

from msgspec import Struct

_LISTED = 3
END = r"$(?!\n)"
"""Of a pattern for a whole text: `$` alone would pass over a last line break."""


def shorten(text: str, limit: int) -> str:
    """The first line of `text`, at most `limit` columns of a terminal wide, cut with an ellipsis."""
    line = text.strip().splitlines()[0].strip() if text.strip() else ""
    if line.isascii() and len(line) <= limit:
        return line
    widths = list(accumulate(_columns(letter) for letter in line))
    if not widths or widths[-1] <= limit:
        return line
    fitting = sum(1 for width in widths if width < limit)
    return line[:fitting].rstrip() + "…"


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


_KNOWN = 12
"""Names that are shown of those that are known."""


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The one of `known` that was probably meant, if need be in another case."""
    import difflib  # noqa: PLC0415 - most words are right

    if found := difflib.get_close_matches(word, known, n=1):
        return found[0]
    folded = {each.casefold(): each for each in known}
    return next((folded[each] for each in difflib.get_close_matches(word.casefold(), folded, n=1)), None)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)` for the nearest of `known`, else the list itself."""
    near = nearest(word, known)
    if near is not None:
        return f" (did you mean '{near}'?)"
    more = f" and {len(known) - _KNOWN} more" if len(known) > _KNOWN else ""
    return f" (known: {', '.join(sorted(known)[:_KNOWN])}{more})" if known else ""


def words(text: str) -> tuple[str, ...]:
    """The names of a table that is written as text."""
    return tuple(text.split())


def columns(text: str) -> int:
    """How wide a terminal shows a text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


_DIGITS = 6
"""Of an amount of US dollars that is stored: what the `Swarm-Cost-USD` trailer holds."""

_UNKNOWN = "unknown"


def usd(*amounts: float | None) -> float | None:
    """The sum of amounts of US dollars, to six digits; None as soon as one is unknown, or the sum infinite."""
    known = [amount for amount in amounts if amount is not None]
    total = sum(known) if len(known) == len(amounts) else nan
    return round(total, _DIGITS) if isfinite(total) else None


def written(amount: float | None) -> str:
    """An amount of US dollars, as trailers of commits have it."""
    return _UNKNOWN if amount is None else f"{amount:.{_DIGITS}f}"


def read(trailer: str) -> float | None:
    """
    An amount of US dollars out of a trailer.

    :raises ValueError: it is no amount.
    """
    if trailer == _UNKNOWN:
        return None
    amount = float(trailer)
    if not isfinite(amount):
        raise ValueError(f"{trailer} is no amount of US dollars")
    return amount


class Spent(Struct, frozen=True):
    """`cost_usd` in US dollars, None: a part of it is unknown."""

    tokens: int = 0
    cost_usd: float | None = 0.0

    def plus(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, usd(self.cost_usd, other.cost_usd))
