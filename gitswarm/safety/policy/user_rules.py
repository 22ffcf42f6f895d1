"""What the project forbids on top: beginnings of commands."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import Command, Word


def user_problem(command: Command, scope: Scope) -> Deny | None:
    if not command.words or not scope.rules.deny:
        return None
    name = command.name
    named = (Word(name), *command.arguments) if name is not None else command.words
    plain = tuple(word for word in named if not word.shown.startswith("-"))
    for beginning in scope.rules.deny:
        patterns = beginning.split()
        if any(_begins(words, patterns) for words in (command.words, named, plain)):
            return deny("user-rule", " ".join(word.shown for word in command.words), f"the rule is: {beginning}")
    return None


def _begins(words: Sequence[Word], patterns: Sequence[str]) -> bool:
    if not patterns or len(words) < len(patterns):
        return False
    return all(_matches(word, pattern) for word, pattern in zip(words, patterns, strict=False))


def _matches(word: Word, pattern: str) -> bool:
    """A word that is not known matches: rules only tighten."""
    if word.text is None:
        return pattern.startswith(word.start) or word.start.startswith(pattern.rstrip("*"))
    return fnmatchcase(word.text, pattern) or (word.pattern and fnmatchcase(pattern, word.text))
