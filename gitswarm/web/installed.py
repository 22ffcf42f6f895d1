"""Whether the packages of the extra are there."""

from __future__ import annotations

import importlib.util

from gitswarm.errors import SwarmError


def need(what: str, *packages: str) -> None:
    """
    :raises SwarmError: one of them is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in packages):
        raise SwarmError(f"{what} needs packages that are not installed", hint="pip install 'git-swarm[web]'")
