"""The help of the whole and of its groups, without the parser library. Imports next to nothing."""

from __future__ import annotations

import os

from gitswarm.cli.help_pages import GROUPS, NEAR
from gitswarm.cli.registry import ROOT, Group

NAME = "git swarm"
HELP = (["-h"], ["--help"])
_WIDEST, _NARROWEST = 100, 40
_INDENT = 3


def help_text(group: Group, name: str) -> str:
    """Commands in the order in which they are needed; every line is whole.

    :param name: what people call the group: `git swarm flows`.
    """
    width = max(min(_terminal(), _WIDEST), _NARROWEST)
    lines = [f"usage: {name} COMMAND [OPTIONS] [ARGUMENTS]", "", *_wrapped(group.help, width)]
    for title, entries in sections(group).items():
        lines += ["", title] if title else [""]
        longest = max(map(len, group.entries))
        room = width - _INDENT - longest - 2
        for entry, text in entries.items():
            first, *rest = _wrapped(text, room)
            lines.append(f"{'':{_INDENT}}{entry:<{longest}}  {first}")
            lines += [" " * (_INDENT + longest + 2) + line for line in rest]
    longest = max(len(f"{name} COMMAND -h"), len("git help swarm"))
    lines += ["", f"{f'{name} COMMAND -h':<{longest}}  options and examples"]
    if group is ROOT:
        lines += [f"{'git help swarm':<{longest}}  the manual", f"{f'{name} --version':<{longest}}  the version"]
    return "\n".join(lines) + "\n"


def sections(group: Group) -> dict[str, dict[str, str]]:
    """Title → command → what it is for."""
    if group is not ROOT:
        return {"": {name: entry.help.removesuffix(".") for name, entry in group.entries.items()}}
    return GROUPS


def unknown(group: Group, name: str, word: str) -> tuple[str, str]:
    """What is wrong with a word that is no entry of a group, and what to type in its place."""
    if word.startswith("-"):
        return f"there is no option '{word}' before a command", f"{name} -h"
    import difflib  # noqa: PLC0415 - only for a mistake

    elsewhere = NEAR if group is ROOT else {}
    known = {**{entry: f"{name} {entry}" for entry in group.entries}, **elsewhere}
    swapped = [each for each in known if sorted(each) == sorted(word)]
    near = swapped or difflib.get_close_matches(word, known, n=1)
    whole = f"{name} {word}".removeprefix(f"{NAME} ")
    return f"there is no command '{whole}'", known[near[0]] if near else f"{name} -h"


def _terminal() -> int:
    """Columns of the terminal, as `shutil.get_terminal_size` says, which is dear to import."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
