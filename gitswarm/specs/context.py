"""What a fresh session gets of the run so far: handoffs and pointers to files, within a budget."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Literal

from msgspec import Struct

from gitswarm.records.guidance import Instructions, ScentTrail
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.receipt import ContextUse

CHARS_PER_TOKEN = 4
Profile = Literal["lean", "balanced", "heavy"]
_CHARS: Mapping[Profile, tuple[int, int, int]] = {
    "lean": (100_000, 30_000, 5_000),
    "balanced": (200_000, 60_000, 10_000),
    "heavy": (400_000, 120_000, 20_000),
}
_SHARES = (0.25, 0.075, 0.025)
"""Of the model's window, at most: everything, the newest step, every older step."""

_BREAKS = lazy_re(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What may end a line or turn the direction of text, and is not escaped by JSON itself."""

_SMALLEST = 500
"""Characters: less of a file than that says nothing."""

_WHOLE = 1_000_000_000

TRUNCATED = "[… cut: "


class Priority(IntEnum):
    """Who is left out last."""

    CRITICAL = 3
    HIGH = 2
    MEDIUM = 1
    LOW = 0


_BY_CATEGORY: Mapping[str, Priority] = {
    "critic": Priority.CRITICAL,
    "router": Priority.CRITICAL,
    "implementation": Priority.CRITICAL,
    "spec": Priority.HIGH,
    "design": Priority.HIGH,
    "verification": Priority.HIGH,
    "shaping": Priority.MEDIUM,
    "analytics": Priority.MEDIUM,
    "reporter": Priority.LOW,
    "infra": Priority.LOW,
}


def priority_of(category: str | None) -> Priority:
    """The priority of a station's category; a command's outcome, which has none, is evidence."""
    return Priority.HIGH if category is None else _BY_CATEGORY.get(category, Priority.MEDIUM)


class Budget(Struct, frozen=True):
    """Characters: `total` for all of the history, `recent` for the newest step in it, `older` for each other one."""

    total: int
    recent: int
    older: int

    @classmethod
    def of(cls, profile: Profile, window_tokens: int) -> Budget:
        """The profile's characters, or the shares of the window where that is smaller."""
        window = window_tokens * CHARS_PER_TOKEN
        total, recent, older = (
            min(chars, int(window * share)) for chars, share in zip(_CHARS[profile], _SHARES, strict=True)
        )
        return cls(total, recent, older)


class EarlierStep(Struct, frozen=True):
    """What an earlier step handed over; `notes` are its concerns, assumptions and the like, `files` pointers."""

    name: str
    agent: str
    status: str
    summary: str
    priority: Priority
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def text(self, limit: int) -> str:
        lines = [f"- {self.name} ({self.agent}): {self.status}: {self.summary.strip()}"]
        lines += [f"  - {note}" for note in self.notes]
        lines += [f"  - file: {name}" for name in self.files]
        return cut("\n".join(lines), limit)


class History(Struct, frozen=True):
    """The part of the prompt about earlier steps, and how much of the budget it took."""

    text: str
    use: ContextUse


def pack_history(earlier: Sequence[EarlierStep], budget: Budget, profile: Profile) -> History:
    """Takes steps by priority, then newest first, while they fit; lists them in the order of the run.

    :param earlier: in the order of the run, the newest last.
    """
    newest = len(earlier) - 1
    order = sorted(range(len(earlier)), key=lambda index: (-earlier[index].priority, -index))
    order.sort(key=lambda index: index != newest)
    taken: dict[int, str] = {}
    left = budget.total
    for index in order:
        text = earlier[index].text(budget.recent if index == newest else budget.older)
        if len(text) > left:
            continue
        taken[index] = text
        left -= len(text) + 1
    dropped = Counter(step.priority.name for index, step in enumerate(earlier) if index not in taken)
    lines = [taken[index] for index in sorted(taken)]
    if dropped:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(dropped.items()))
        names = ", ".join(
            sized(step.name, step.text(_WHOLE)) for index, step in enumerate(earlier) if index not in taken
        )
        lines.append(f"[CONTEXT_TRUNCATED] {len(taken)} of {len(earlier)} earlier steps; left out: {counts}: {names}")
    text = "\n".join(lines)
    use = ContextUse(
        profile=profile,
        budget_chars=budget.total,
        chars_used=len(text),
        steps_included=len(taken),
        steps_total=len(earlier),
        truncated=bool(dropped) or any(TRUNCATED in line for line in taken.values()),
        priorities=dict(sorted(Counter(earlier[index].priority.name for index in taken).items())),
    )
    return History(text, use)


def pack_instructions(instructions: Instructions, limit: int) -> str:
    """What the project says to agents, in at most about `limit` characters: the first files whole, the one that is
    too long without its middle, and of those that found no room their names.

    :param limit: characters of all texts together.
    """
    parts: list[str] = []
    left_out: list[str] = []
    left = limit
    for file in instructions.files:
        text = cut(file.text, left)
        if not text or (left < len(file.text) and left < _SMALLEST):
            left_out.append(sized(file.path, file.text))
            continue
        left -= len(text)
        same = f" (the same as {', '.join(file.also)})" if file.also else ""
        parts.append(f"### {file.path}{same}\n\n{text}")
    if left_out:
        counts = f"{len(parts)} of {len(instructions.files)} files"
        parts.append(f"[CONTEXT_TRUNCATED] {counts}; left out: {', '.join(left_out)}")
    return "\n\n".join(parts)


def pack_trail(trail: ScentTrail, limit: int) -> str:
    """Lessons of earlier runs as quoted data, one JSON object a line, in at most about `limit` characters: those that
    fit, the newest first; "" when there are none. No text in them can end its line, and so its quotation."""
    lines: list[str] = []
    left = limit
    for each in trail.lessons:
        plain = json.dumps(each.to_plain(), ensure_ascii=False)
        line = _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)
        if len(line) + 3 > left:
            continue
        left -= len(line) + 3
        lines.append(f"> {line}")
    if len(lines) < len(trail.lessons):
        lines.append(f"\n[CONTEXT_TRUNCATED] {len(lines)} of {len(trail.lessons)} lessons")
    return "\n".join(lines)


def sized(name: str, text: str) -> str:
    """What is left out, in a note about it."""
    return f"{name} ({len(text):,} characters)"


def cut(text: str, limit: int) -> str:
    """`text`, its middle left out where it is longer than `limit` characters, and how much of it that is."""
    if len(text) <= limit:
        return text
    room = max(0, limit - len(_cut_note(len(text), len(text))))
    tail = room // 2
    note = _cut_note(len(text) - room, len(text))
    return text[: room - tail] + note + (text[-tail:] if tail else "")


def _cut_note(missing: int, whole: int) -> str:
    return f"\n{TRUNCATED}{missing:,} of {whole:,} characters …]\n"
