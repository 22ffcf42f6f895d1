"""What the shell's own commands change in the shell."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.safety.policy.state import Shell, follow
from gitswarm.safety.policy.values import UNKNOWN, Command, Word

_READING = frozenset({"read", "mapfile", "readarray"})


def builtin_words(command: Command) -> list[Word]:
    """The words behind `command`, `builtin` and `time`."""
    words = list(command.words)
    while words and words[0].known in ("command", "builtin", "time"):
        words = [word for at, word in enumerate(words[1:]) if at or word.known not in ("-p", "--")]
    return words


def apply_builtin(command: Command, shell: Shell) -> None:
    """Changes `shell` as `command` does when it is one of cd, pushd, popd, read, mapfile, printf -v, unset, let …"""
    words = builtin_words(command)
    name = words[0].known if words else None
    arguments = words[1:]
    if name in ("cd", "pushd", "chdir"):
        shell.stand_in(_there(arguments, shell))
    elif name == "popd":
        shell.stand_in(shell.been)
    elif name in _READING:
        shell.forget([word.shown for word in arguments] or ["REPLY"])
        shell.forget(["MAPFILE"])
    elif name == "unset":
        shell.forget(word.shown for word in arguments)
    elif name in ("printf", "getopts", "let", "wait"):
        shell.forget(word.shown.partition("=")[0].strip("+-*/") for word in arguments)
    elif name in ("source", "."):
        shell.variables = {}


def _there(arguments: Sequence[Word], shell: Shell) -> frozenset[str] | None:
    """Where the shell stands when `cd` succeeded; that it may fail is for those who join the ways."""
    targets = [word for word in arguments if word.known not in ("-L", "-P", "-e", "-@", "--", "-n")]
    physical = any(word.known == "-P" for word in arguments)
    target = targets[0] if targets else shell.value("HOME")
    text = target.known
    if text == "-":
        return shell.been
    if text is None or text.startswith(("+", "-")) or "CDPATH" in shell.variables or (physical and ".." in text):
        return None
    return follow(shell.folders, text) if text else shell.folders


def declared(words: Sequence[Word]) -> list[tuple[str, Word]]:
    """What `export "A=b"` assigns, written as a word."""
    pairs = []
    for word in words:
        name, sign, value = word.shown.partition("=")
        if sign and not word.shown.startswith("-"):
            pairs.append((name.removesuffix("+"), Word(value) if word.known is not None else UNKNOWN))
    return pairs
