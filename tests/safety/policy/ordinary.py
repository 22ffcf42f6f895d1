"""Commands from contributor guides and from the work of agents."""

from __future__ import annotations

from pathlib import Path

_LINES = (Path(__file__).parent / "ordinary.txt").read_text(encoding="utf-8").splitlines()

ORDINARY = tuple(line.partition("\t")[2].replace("\\n", "\n") for line in _LINES if not line.startswith("#"))
