from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"

NAMES = sorted(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file() and path.parent != FOLDER
)


def recorded(name: str) -> bytes:
    return (FOLDER / name).read_bytes()
