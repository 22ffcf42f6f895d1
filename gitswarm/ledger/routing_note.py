"""The routing note: one readable line and its JSON per decision, append-only, at most 76 columns wide."""

from __future__ import annotations

import json

from gitswarm.ledger.stored_json import folded
from gitswarm.records.routing import Decision, Superseded
from gitswarm.records.text import shorten

_WIDTH = 76  # git log indents notes by four
_INDENT = "  "


Entry = Decision | Superseded


def render(entry: Entry) -> bytes:
    """One entry. The JSON is folded at spaces: joining its lines by one space gives it back exactly."""
    fields = entry.to_plain() if isinstance(entry, Decision) else entry.model_dump(mode="json")
    packed = json.dumps(fields, ensure_ascii=False)
    folded = "".join(f"{_INDENT}{line}\n" for line in _fold(packed, _WIDTH - len(_INDENT)))
    first = headline(entry) if isinstance(entry, Decision) else shorten(f"{entry.seq}. {entry.reason}", _WIDTH)
    return f"{first}\n{folded}".encode()


def headline(decision: Decision) -> str:
    start = decision.from_step or "start"
    end = decision.to_step or "end"
    way = f"{decision.seq}. {start} -> {end}: {decision.decision} ({decision.routing_source}): {decision.reason}"
    return shorten(way, _WIDTH)


def parse(note: bytes) -> list[Entry]:
    """The entries of a note, oldest first; what people or accidents put beside them is passed over."""
    return [entry for entry in map(_entry, folded(note)) if entry is not None]


def is_ours(note: bytes) -> bool:
    """Whether the note is entries and nothing else, byte for byte but for its last line end."""
    return b"".join(map(render, parse(note))).rstrip(b"\n") == note.rstrip(b"\n")


def is_garbled(note: bytes) -> bool:
    """Whether something in it looks like an entry and is none."""
    return any(_entry(packed) is None for packed in folded(note))


def _entry(packed: str) -> Entry | None:
    try:
        fields = json.loads(packed)
        taken_back = isinstance(fields, dict) and "superseded_by" in fields
        return (Superseded if taken_back else Decision).model_validate(fields)
    except (ValueError, RecursionError):
        return None


def standing(entries: list[Entry]) -> Decision | None:
    """The decision that holds: the last one, unless it was taken back."""
    last = entries[-1] if entries else None
    return last if isinstance(last, Decision) else None


def _fold(text: str, width: int) -> list[str]:
    lines: list[str] = []
    line: list[str] = []
    length = 0
    for word in text.split(" "):
        if line and length + 1 + len(word) > width:
            lines.append(" ".join(line))
            line, length = [], 0
        length += len(word) + (1 if line else 0)
        line.append(word)
    lines.append(" ".join(line))
    return lines
