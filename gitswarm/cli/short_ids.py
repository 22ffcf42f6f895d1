"""Runs by the end of their ids, as short as that is unique in this repository: `2aa18a`, for people."""

from __future__ import annotations

import re

from gitswarm.cli.candidates import runs_here
from gitswarm.cli.terminal import is_screen
from gitswarm.records.execution import shortest

_ID = re.compile(r"(?<![\w/.-])run-\d{8}-\d{6}-[0-9a-f]{6}(?![\w/-]|\.\w)")


def with_short_ids(text: str) -> str:
    """Ids in a text made short; refs and paths that have one in them stay whole."""
    if "run-" not in text or not is_screen() or _ID.search(text) is None:
        return text
    runs = runs_here()
    return _ID.sub(lambda found: shortest(found[0], runs), text)
