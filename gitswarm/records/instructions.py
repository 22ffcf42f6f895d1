"""What a project says to agents."""

from __future__ import annotations

from gitswarm.records.base import Record

INSTRUCTION_FILES = (
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
)
"""Files that coding agents read by themselves, the one first that is for all of them."""


class Instruction(Record):
    """A file of the base commit. `also`: others that hold the same, or are links to it; `blob`: its id in git."""

    path: str
    blob: str
    text: str
    also: tuple[str, ...] = ()


class Instructions(Record):
    files: tuple[Instruction, ...] = ()
