"""What is known of the built-in engines before anything of them is imported: for TAB, and to find them."""

from __future__ import annotations

from typing import NamedTuple

GROUP = "git_swarm.engines"
"""Entry points of this group are engines: `name = "module:ADAPTER"`, where the name is the adapter's short name."""

ID_SUFFIX = "-step"
DEFAULT = "claude"
STUB = "stub"
"""The mode that every engine has."""


class BuiltIn(NamedTuple):
    """`target` is what an entry point says; `modes` and `keys` are those of the adapter, as a test compares."""

    target: str
    modes: tuple[str, ...]
    keys: tuple[str, ...]


BUILT_IN = {
    "claude": BuiltIn(
        "gitswarm.engines.claude:ADAPTER",
        ("sdk", "cli"),
        (
            *("mode", "env", "cli", "provider"),
            *("setting_sources", "fallback_model", "step_timeout", "attempts"),
        ),
    ),
    "codex": BuiltIn(
        "gitswarm.engines.codex:ADAPTER",
        ("cli",),
        ("mode", "env", "cli", "step_timeout", "attempts"),
    ),
    "gemini": BuiltIn(
        "gitswarm.engines.gemini:ADAPTER", ("cli",), ("mode", "env", "cli", "step_timeout", "attempts")
    ),
}


def id_of(short_name: str) -> str:
    return short_name + ID_SUFFIX


def short_of(name: str) -> str:
    """
    :param name: full or short.
    """
    return name.removesuffix(ID_SUFFIX)
