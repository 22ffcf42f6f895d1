"""Long lists of names, written as text."""

from __future__ import annotations

from collections.abc import Mapping


def listed(text: str) -> frozenset[str]:
    """Names apart by blanks."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Names of several words, apart by commas."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(",") if phrase.strip())


def by_name(rules: Mapping[str, str]) -> dict[str, str]:
    """Rule by name, out of names (apart by blanks) by rule."""
    return {name: rule for rule, names in rules.items() for name in names.split()}
