"""What speaks against the work of a run and is not settled: findings by git-swarm, and a person's word on them."""

from __future__ import annotations

import re

from gitswarm.records.base import Record

_NO_WORD = re.compile(r"[^\w:.-]+")
_LONGEST = 80


class Concern(Record):
    """A fact that contradicts a claim or a promise.

    `id`: `<flag>@<flow>/<step>`; `#2` behind it when a person accepted the first and there is more of the same.
    `names`: the tests or paths that it is about. A run does not succeed while a blocking one is open.
    """

    id: str
    flag: str
    blocking: bool
    fact: str
    names: tuple[str, ...] = ()


class AcceptedConcern(Record):
    """A person's word that a concern may stay. It holds for these names only."""

    id: str
    why: str
    names: tuple[str, ...] = ()


def concern_id(flag: str, flow: str, step: str) -> str:
    """One word: a flag may hold a name that an agent made up, and ids stand beside each other in a trailer."""
    return f"{_NO_WORD.sub('_', flag)[:_LONGEST]}@{flow}/{step}"
