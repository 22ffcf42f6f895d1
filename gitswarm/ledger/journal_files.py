"""The journals that lie on disk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

_NAME = re.compile(r"(?P<flow>[^.]+)\.(?P<step>[^@]+)@(?P<iteration>\d+)\.jsonl")


class JournalFile(Struct, frozen=True):
    """A journal found on disk: of a step that executes now, or whose owner died."""

    path: Path
    flow: str
    step: str
    iteration: int


def journal_files(folder: Path) -> list[JournalFile]:
    found: Iterable[Path] = sorted(folder.glob("*.jsonl")) if folder.is_dir() else ()
    journals = []
    for path in found:
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            journals.append(JournalFile(path, match["flow"], match["step"], int(match["iteration"])))
    return journals


def whole_lines(path: Path, position: int) -> bytes:
    """What a journal has from there on, without a line that is not whole yet."""
    try:
        with path.open("rb") as file:
            file.seek(position)
            more = file.read()
    except FileNotFoundError:  # its step was committed just now
        return b""
    return more[: more.rfind(b"\n") + 1]
