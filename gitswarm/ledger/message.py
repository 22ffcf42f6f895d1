"""Commit messages of a run: subject, body, trailers. Enough to rebuild the state without opening a tree."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gitswarm.records.text import shorten

if TYPE_CHECKING:
    from gitswarm.records.json_value import JsonValue
    from gitswarm.records.safety import Scrubber


FORMAT = 2
"""Of new runs. A run keeps the format that it began with."""

FORMATS = ("1", "2")

SCISSORS = "------------------------ >8 ------------------------"
"""What git takes for the end of a message behind a comment character: nobody would see our trailers below it."""

SUBJECT_WIDTH = 69  # with a blank and the longest status behind it: 80 columns


class Kind(StrEnum):
    """Kinds of commits on a shadow branch."""

    RUN = "run"
    STEP = "step"
    END = "end"


class CommitMessage(Struct, frozen=True):
    subject: str
    body: str
    trailers: Mapping[str, str]

    def scrubbed(self, scrubber: Scrubber) -> CommitMessage:
        """Before it is rendered: a subject that was cut could show a part of a secret."""
        texts: list[JsonValue] = [self.subject, self.body, *self.trailers.values()]
        clean = scrubber.scrub_json(texts)
        if clean is texts or not isinstance(clean, list):
            return self
        subject, body, *values = (str(text) for text in clean)
        return CommitMessage(subject, body, dict(zip(self.trailers, values, strict=True)))

    def render(self) -> str:
        lines = [f"{name}: {_one_line(value)}" for name, value in self.trailers.items() if _one_line(value)]
        parts = [shorten(self.subject, SUBJECT_WIDTH), self.body.strip(), "\n".join(lines)]
        # libgit2 ends a message at a NUL and refuses half a character: the trailers would be lost.
        whole = without_scissors("\n\n".join(part for part in parts if part))
        return whole.replace("\0", "").encode(errors="replace").decode() + "\n"


def without_scissors(text: str) -> str:
    return text.replace(SCISSORS, SCISSORS.replace(">8", "> 8"))


def parse_message(text: str) -> CommitMessage | None:
    """A message that we wrote, or None: its last paragraph has our trailers."""
    paragraphs = text.rstrip().split("\n\n")
    trailers: dict[str, str] = {}
    for line in paragraphs[-1].split("\n"):
        name, colon, value = line.partition(": ")
        if colon:
            trailers[name] = value
    if len(paragraphs) < 2 or trailers.get("Swarm-Format") is None:
        return None
    return CommitMessage(paragraphs[0], "\n\n".join(paragraphs[1:-1]), trailers)


def _one_line(value: str) -> str:
    return " ".join(value.replace("\0", "").split())
