"""The help of the whole and of its groups, as typer lays it out, without typer. Imports nothing."""

from __future__ import annotations

import os

from gitswarm.cli.registry import Group

NAME = "git swarm"
HELP = (["-h"], ["--help"])
_WIDEST, _NARROWEST = 78, 50


def help_text(group: Group, name: str) -> str:
    """
    :param name: what people call the group: `git swarm flows`.
    """
    width = max(min(_terminal(), _WIDEST + 2) - 2, _NARROWEST)
    longest = max(map(len, group.entries))
    room = width - longest - 6
    lines = [f"Usage: {name} [OPTIONS] COMMAND [ARGS]...", ""]
    lines += [f"  {line}" for line in _wrapped(group.help, width - 2)]
    lines += ["", "Options:", "  -h, --help  Show this message and exit.", "", "Commands:"]
    lines += [f"  {entry:<{longest}}  {_shortened(found.help, room)}" for entry, found in group.entries.items()]
    return "\n".join(lines) + "\n"


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


def _shortened(text: str, room: int) -> str:
    """Cut between words."""
    if len(text) <= room:
        return text
    kept = ""
    for word in text.split():
        longer = f"{kept} {word}" if kept else word
        if len(longer) + 3 > room:
            break
        kept = longer
    return f"{kept}..."
