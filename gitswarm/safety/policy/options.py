"""Options in front of and among the arguments of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitswarm.safety.policy.values import Word


@dataclass(frozen=True, slots=True)
class Options:
    """Which options of a program take a value: letters of short ones, names of long ones.

    `alone`: short ones with a long name (`-name`), as find and java have them, are never taken apart.
    """

    short: str = ""
    long: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Parsed:
    """`given`: options in order, as `-x` or `--name`, with their value. `rest`: arguments; `lost`: an argument that
    may be an option is not known. `dashed`: how many of `rest` stand before `--`; None: there is none.
    """

    given: tuple[tuple[str, Word | None], ...]
    rest: tuple[Word, ...]
    lost: bool = False
    dashed: int | None = None

    def has(self, *names: str) -> bool:
        """Also abbreviated, as GNU and git allow it for long ones."""
        return any(_means(option, name) for option, _value in self.given for name in names)

    def value(self, *names: str) -> list[Word]:
        found = [value for option, value in self.given if any(_means(option, name) for name in names)]
        return [value for value in found if value is not None]


def _means(option: str, name: str) -> bool:
    return option == name or (len(option) > 3 and option.startswith("--") and name.startswith(option))


def parse_options(words: Sequence[Word], options: Options, *, mixed: bool = True) -> Parsed:
    """
    :param mixed: options may stand behind arguments; else the first argument ends them, as in wrappers.
    """
    given: list[tuple[str, Word | None]] = []
    rest: list[Word] = []
    lost = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text if word.text is not None else word.start
        at += 1
        if word.known == "--":
            return Parsed(tuple(given), (*rest, *words[at:]), lost, len(rest))
        if word.text is None and not text:
            lost = True
        if not text.startswith("-") or text == "-":
            if not mixed:
                return Parsed(tuple(given), (word, *words[at:]), lost)
            rest.append(word)
            continue
        found, takes = _split(text, word, options)
        given += found
        if takes and at < len(words):
            given[-1] = (given[-1][0], words[at])
            at += 1
    return Parsed(tuple(given), tuple(rest), lost)


def _split(text: str, word: Word, options: Options) -> tuple[list[tuple[str, Word | None]], bool]:
    """The options in one word, and whether the next word is the value of the last one."""
    if text.startswith("--"):
        name, sign, value = text.partition("=")
        if sign:
            return [(name, _like(word, value))], False
        takes = name in options.long or (len(name) > 3 and any(each.startswith(name) for each in options.long))
        return [(name, None)], takes
    found: list[tuple[str, Word | None]] = []
    for at, letter in enumerate(text[1:], start=2):
        if letter in options.short:
            value = text[at:]
            found.append((f"-{letter}", _like(word, value) if value else None))
            return found, not value
        found.append((f"-{letter}", None))
    return found, False


def _like(word: Word, value: str) -> Word:
    """A part of a word, as uncertain as the whole."""
    return Word(value, word.pattern) if word.text is not None else Word(None, start=value)
