"""Which failures are the same: their names and messages without what changes from run to run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct

_FAILURES = 500
_MESSAGE_CHARS = 500
_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,20}(?:Z|[+-][0-9:]{4,5})?"), "<time>"),
    (
        re.compile(r"(?:(?:file://)?(?:\b[A-Za-z]:)?[\w.@~+$-]{0,100}[/\\])+(?=[\w.@~+-])"),
        "",
    ),  # folders, not the file
    (re.compile(r"(?<=[\w)]):[0-9]+(?::[0-9]+)?(?=\D|$)"), ":<line>"),
    (re.compile(r"\bline [0-9]+"), "line <line>"),
    (re.compile(r"\b[0-9]+(?:\.[0-9]+)? ?(?:ns|µs|us|ms|s|sec|secs|seconds?|minutes?)\b"), "<duration>"),
    (re.compile(r"(?<=thread ')([^']{0,200}') \([0-9]+\)"), r"\1 (<id>)"),
    (re.compile(r"\b(pid|port|tid)([ =:]+)[0-9]+", re.IGNORECASE), r"\1\2<id>"),
    (re.compile(r"\s+"), " "),
)


class Failure(Struct, frozen=True):
    """A test that failed, or a suite that could not be loaded, and the first lines of why."""

    name: str
    message: str = ""


def signature(failures: Iterable[Failure], failed: int) -> str | None:
    """A hash that does not depend on order, place, time or speed; None when nothing failed.

    Of more than 500 failures those first in order of name count. When no failure has a name, their number does.
    """
    if failed == 0:
        return None
    first = sorted(failures, key=lambda failure: (failure.name, failure.message))[:_FAILURES]
    content = (
        "\0".join(sorted({f"{masked(each.name)}\n{masked(each.message)}" for each in first})) or f"{failed} failed"
    )
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]


def masked(text: str) -> str:
    text = text[:_MESSAGE_CHARS]
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()
