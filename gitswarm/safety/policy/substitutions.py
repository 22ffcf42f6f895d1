"""The output of commands that everybody writes into `$(…)`, as far as it can be known."""

from __future__ import annotations

import posixpath

from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.listings import names_out_of
from gitswarm.safety.policy.state import Shell
from gitswarm.safety.policy.values import NUMBER, UNKNOWN, Command, Word
from gitswarm.safety.policy.words import unescaped

_ANYTHING = Word("*", pattern=True)
_TOOLS = {
    "mktemp": Word("/tmp/tmp.of-mktemp"),  # noqa: S108 - stands for whatever it answers
    "nproc": NUMBER,
    "date": NUMBER,
    "whoami": _ANYTHING,
    "hostname": _ANYTHING,
    "uname": _ANYTHING,
    "id": NUMBER,
}
_NAMES_OF_COMMITS = frozenset({"merge-base", "describe", "rev-list", "rev-parse", "write-tree", "branch"})
_OPTIONS = listed("""
    --verify --short --abbrev-ref --quiet -q --tags --always --show-current -n1 -1 --all --fork-point --dirty --long
    --first-parent
""")
_DATES = frozenset("+%YmdHMSsFTjuN-_:.")


def value_of(command: Command, shell: Shell) -> Word:
    """What `$(command)` becomes. A date, a number, the name of a commit is some word that leads nowhere else."""
    names = names_out_of(command, ())
    if names:
        return Word(" ".join(name.text or "" for name in names), pattern=True)
    if command.name in ("dirname", "basename") and not command.assigned:
        return _part_of_path(command)
    return _known_output(command, shell)


def _known_output(command: Command, shell: Shell) -> Word:
    words = [word.known for word in command.words]
    if not words or None in words or command.assigned:
        return UNKNOWN
    name, *arguments = [word or "" for word in words]
    if name == "git":
        return _git(arguments, shell)
    if name in ("echo", "printf"):
        return _echo(name, arguments)
    if name == "date" and any("%" in word and not set(word) <= _DATES for word in arguments):
        return UNKNOWN
    if name == "mktemp" and arguments not in ([], ["-d"], ["-q"], ["--directory"]):
        return UNKNOWN
    return shell.value("PWD") if name == "pwd" else _TOOLS.get(name, UNKNOWN)


def _part_of_path(command: Command) -> Word:
    """Of a pattern only the last part: how deep it leads is not known."""
    path, *rest = [*command.arguments, UNKNOWN]
    suffix = rest[0].known if len(rest) == 2 else "" if len(rest) == 1 else None
    text = (path.text or "").rstrip("/")
    if not text or text.startswith("-") or suffix is None:
        return UNKNOWN
    if command.name == "basename":
        last = posixpath.basename(text)
        return Word(last.removesuffix(suffix) or last, path.pattern)
    return UNKNOWN if path.pattern or suffix else Word(posixpath.dirname(text) or ".")


def _echo(name: str, arguments: list[str]) -> Word:
    if name == "echo":
        text = " ".join(arguments[1:] if arguments[:1] == ["-n"] else arguments)
        return UNKNOWN if text.startswith("-") or "\\" in text else Word(text)
    if len(arguments) == 2 and arguments[0] == "%s":
        return Word(arguments[1])
    one = arguments[0] if len(arguments) == 1 else "%"
    return UNKNOWN if "%" in one else Word(unescaped(one).rstrip("\n"))


def _git(arguments: list[str], shell: Shell) -> Word:
    subcommand = arguments[0] if arguments else ""
    options = [word for word in arguments[1:] if word.startswith("-")]
    if subcommand == "rev-parse" and options == ["--show-toplevel"]:
        inside = shell.folders is not None and all(f"{one}/".startswith(f"{shell.top}/") for one in shell.folders)
        return Word(shell.top) if inside else UNKNOWN
    known = all(word in _OPTIONS or word.startswith(("--short=", "--abbrev=", "--max-parents=")) for word in options)
    return _ANYTHING if known and subcommand in _NAMES_OF_COMMITS else UNKNOWN
