"""Ids that may stand in a record only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def refuse_twice(ids: Iterable[str]) -> None:
    """
    :raises ValueError: an id stands there more than once.
    """
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ValueError(f"these ids are used more than once: {', '.join(twice)}")
