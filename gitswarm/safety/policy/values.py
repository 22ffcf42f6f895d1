"""Shell words and commands as far as they can be known without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Word:
    """One argument. `text` None: what it will be is not known; `start` is what it begins with then.

    `pattern`: `text` holds unquoted globs, or stands for a name that is no option and leads nowhere up.
    """

    text: str | None
    pattern: bool = False
    start: str = ""

    @property
    def known(self) -> str | None:
        """The exact text."""
        return None if self.pattern else self.text

    @property
    def shown(self) -> str:
        """For messages."""
        return self.text if self.text is not None else f"{self.start}…"


UNKNOWN = Word(None)
NUMBER = Word("*", pattern=True)
PARENT = Word("[1-9]*", pattern=True)
"""The id of the program that started the shell, which is the agent."""


class Input(Enum):
    """Where the standard input comes from."""

    INHERITED = "inherited"
    PIPED = "piped"
    TEXT = "text"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Redirect:
    """`operator` without its file descriptor: `>`, `>>`, `<`, `&>`, `<>`, `>|`."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        return ">" in self.operator


@dataclass(frozen=True, slots=True)
class Command:
    """One program that is started. `folders`: where it may be started, None: anywhere; `text`: its standard input
    when `input` is TEXT; `variables`: of the shell around it; `names`: the files that its standard input lists
    when that is PIPED.
    """

    words: tuple[Word, ...]
    assigned: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    folders: frozenset[str] | None = None
    input: Input = Input.INHERITED
    text: str | None = None
    variables: Mapping[str, Word] = field(default_factory=dict)
    names: tuple[Word, ...] = ()

    @property
    def name(self) -> str | None:
        """Last part of the program's name; None: it cannot be known."""
        if not self.words:
            return ""
        text = self.words[0].known
        return None if text is None else text.rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    def running(self, words: tuple[Word, ...]) -> Command:
        """The same circumstances for another program; its redirects and assignments are judged with this one."""
        return replace(self, words=words, redirects=(), assigned=())


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of a command line that cannot be followed: the rule and what it is about."""

    rule: str
    what: str
