"""Text as a browser shows it to a reviewer: nothing in it hides or turns what stands there."""

from __future__ import annotations

from gitswarm.cli.console import harmless


def visible(value: object) -> object:
    """A lone CR would end a line, and diff2html leaves out what is on the next one. Markup is ours, and stays."""
    return harmless(value.replace("\r\n", "\n")) if type(value) is str else value
