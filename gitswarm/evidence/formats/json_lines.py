"""JSON objects, one a line, between whatever else a command prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

DOCUMENT_CHARS = 8_000_000
_OBJECTS = 200_000


def objects(text: str, marker: str) -> Iterator[tuple[Mapping[str, object], int]]:
    """Each line with `marker` that is a JSON object, and where it ends; at most 200,000 lines are looked at."""
    begin = text.find(marker)
    for _ in range(_OBJECTS):
        if begin < 0:
            return
        start, end = text.rfind("\n", 0, begin) + 1, text.find("\n", begin)
        end = len(text) if end < 0 else end
        if (found := document(text[start:end])) is not None:
            yield found, end
        begin = text.find(marker, end)


def document(text: str) -> Mapping[str, object] | None:
    """The JSON object that `text` is; None if it is none, or has more than 8 million characters."""
    if len(text) > DOCUMENT_CHARS or text.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
