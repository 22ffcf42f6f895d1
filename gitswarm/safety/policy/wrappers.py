"""Programs that start other programs: what a command really runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gitswarm.safety.policy.agents import is_agent
from gitswarm.safety.policy.finding import found_path
from gitswarm.safety.policy.options import Options, parse_options
from gitswarm.safety.policy.state import MARKERS, follow
from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word
from gitswarm.safety.policy.wrapper_tables import (
    ENV,
    HEADS,
    JOINING,
    LAUNCHERS,
    PREFIXES,
    RUNNERS,
    SCRIPT_OPTIONS,
    SHELL,
    SHELLS,
    XARGS,
    Prefix,
)


@dataclass(frozen=True, slots=True)
class Script:
    """Shell text that a command runs, and the command for its circumstances."""

    text: str
    command: Command


Inner = Command | Script | Refused

_PLAIN_SHELLS = frozenset({"SHELL=/bin/sh", "SHELL=/bin/bash", "SHELL=bash", "SHELL=sh"})
_SWITCHED_OFF = re.compile(r"\+[A-Za-z]+")
"""Options of shells that are turned off: `bash +x -c …`."""
_MOST_INNER = 64
_TAKING_FILES = frozenset({"flock", "script"})
_PLAIN_OPTIONS = frozenset({"-y", "--yes", "-q", "--quiet", "--silent", "--no-install", "--offline", "--"})
"""Options of runners that take no value."""


def inside(command: Command) -> Iterator[Inner]:
    """What `command` runs in its turn; nothing for a program that runs no other."""
    name = command.name or ""
    if name in SHELLS:
        yield from _shell(command)
    elif name in _WAYS:
        yield from _WAYS[name](command)
    elif name in PREFIXES:
        yield from _prefixed(command, PREFIXES[name])
    elif name in JOINING:
        yield from _joining(command, JOINING[name])
    yield from _options(command)
    yield from _run(command)


def _trap(command: Command) -> Iterator[Inner]:
    words = [word for word in command.arguments if word.known != "--"]
    if words:
        yield _script(words[:1], command)


def _eval(command: Command) -> Iterator[Inner]:
    texts = [word.known for word in command.arguments]
    if None in texts:
        yield Refused("unknown-command", "eval of text that is not known")
    else:
        yield Script(" ".join(text or "" for text in texts), command)


def _prefixed(command: Command, prefix: Prefix) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, prefix.options, mixed=False)
    if command.name == "command" and parsed.has("-v", "-V"):
        return
    if command.name == "exec" and parsed.has("-c"):
        yield Refused("git-environment", "exec -c")
    if parsed.lost or (parsed.given and command.name not in ("command", "exec", "time", "nice", "builtin")):
        yield from _suffixes(command)
    if command.name == "busybox" and len(parsed.rest) > 1 and parsed.rest[0].known == "busybox":
        return
    words, assigned = _assignments(parsed.rest[prefix.skipped :])
    if words or assigned:
        yield replace(command.running(words), assigned=assigned)


def _env(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, ENV, mixed=False)
    if parsed.has("-i", "--ignore-environment", "-") or any(word.known == "-" for word in parsed.rest[:1]):
        yield Refused("git-environment", "env -i")
    for word in parsed.value("-u", "--unset"):
        if word.known is None or word.known.startswith("GIT_"):
            yield Refused("git-environment", f"env -u {word.shown}")
        elif word.known in MARKERS:
            yield Refused("marker", f"env -u {word.shown}")
    folders = command.folders
    for word in parsed.value("-C", "--chdir"):
        folders = follow(folders, word.known) if word.known is not None else None
    texts = parsed.value("-S", "--split-string")
    if any(word.known is None for word in texts):
        yield Refused("unknown-command", f"env -S {texts[0].shown}")
        return
    if texts:  # options may stand in there too
        words = [part for word in texts for part in _split(word.known or "")]
        yield from _env(replace(command, words=(command.words[0], *words, *parsed.rest), folders=folders))
        return
    rest, assigned = _assignments(parsed.rest)
    yield replace(command, words=rest, assigned=assigned, redirects=(), folders=folders)


def _assignments(words: Sequence[Word]) -> tuple[tuple[Word, ...], tuple[tuple[str, Word], ...]]:
    """The words behind `A=b C=d`, and those: env and `time` take them as a shell does."""
    at = next((at for at, word in enumerate(words) if "=" not in word.shown), len(words))
    pairs = [(word.shown.partition("=")[0], word) for word in words[:at]]
    values = [
        (name, Word(word.text.partition("=")[2], word.pattern) if word.text is not None else UNKNOWN)
        for name, word in pairs
    ]
    return tuple(words[at:]), tuple(values)


def _split(text: str) -> list[Word]:
    try:
        return [Word(part) if "$" not in part else UNKNOWN for part in shlex.split(text)]
    except ValueError:
        return [UNKNOWN]


def _xargs(command: Command) -> Iterator[Inner]:
    parsed = parse_options(command.arguments, XARGS, mixed=False)
    marks = [word.known or "{}" for word in parsed.value("-I", "--replace")]
    if parsed.has("-i"):
        marks.append("{}")
    if not parsed.rest:
        return
    plain = command.input is Input.PIPED and not parsed.has("-a", "--arg-file", "-E", "-d", "--delimiter")
    names = command.names if plain else ()
    many = [(*parsed.rest, *(names or (UNKNOWN,)))]
    if marks:
        many = [tuple(_replaced(word, marks, name) for word in parsed.rest) for name in names or (UNKNOWN,)]
    for words in many:
        yield replace(command.running(words), input=Input.PIPED, text=None, names=())


def _replaced(word: Word, marks: Sequence[str], name: Word) -> Word:
    found = [word.shown.find(mark) for mark in marks if mark in word.shown]
    if found and name.text is not None and word.text is not None and len(marks) == 1:
        return Word(word.text.replace(marks[0], name.text), pattern=True)
    return Word(None, start=word.shown[: min(found)]) if found else word


def _find(command: Command) -> Iterator[Inner]:
    words = command.arguments
    execs = ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch")
    at = 0
    while at < len(words):
        if words[at].known not in execs:
            at += 1
            continue
        end = next((i for i in range(at + 1, len(words)) if words[i].known in (";", "+")), len(words))
        inner = [word for word in words[at + 1 : end] if word.known != ";"]
        start = UNKNOWN if command.name in ("fd", "fdfind") else found_path(words)
        folders = None if words[at].known in ("-execdir", "-okdir") else command.folders
        if inner:
            found = tuple(_replaced_path(word, start) for word in inner)
            yield replace(command.running(found), folders=folders)
        at = end + 1


def _replaced_path(word: Word, path: Word) -> Word:
    if word.known == "{}":
        return path
    return Word(None, start=word.shown.partition("{}")[0]) if "{}" in word.shown else word


def _shell(command: Command) -> Iterator[Inner]:
    words = [word for word in command.arguments if not _SWITCHED_OFF.fullmatch(word.known or "")]
    parsed = parse_options(words, SHELL, mixed=False)
    startup = parsed.value("--rcfile", "--init-file")
    if parsed.lost or startup:
        yield Refused("unknown-command", f"{command.name} with options that are not known")
        return
    if parsed.has("-c", "--command") or any(option == "-c" for option, _ in parsed.given):
        yield _script(parsed.rest[:1], command)
        return
    file = parsed.rest[0] if parsed.rest and not parsed.has("-s") else None
    if file is not None:
        yield from _file_of_shell(file, command)
    elif command.input is Input.PIPED or (command.input is Input.TEXT and command.text is None):
        yield Refused("pipe-to-shell", f"a pipe into {command.name}")
    elif command.input is Input.TEXT:
        yield Script(command.text or "", command)


def _file_of_shell(file: Word, command: Command) -> Iterator[Inner]:
    if file.text is None:
        yield Refused("unknown-command", f"{command.name} {file.shown}")
    elif file.text.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd")):
        yield Refused("pipe-to-shell", f"{command.name} of a pipe")


def _script(words: Sequence[Word], command: Command) -> Inner:
    text = words[0].known if words else ""
    return (
        Refused("unknown-command", f"{command.name} of text that is not known")
        if text is None
        else Script(text, command)
    )


def _joining(command: Command, options: Options) -> Iterator[Inner]:
    """Programs that hand their arguments to a shell, in one line or each by itself."""
    parsed = parse_options(command.arguments, options, mixed=False)
    texts: list[str] = []
    for word in parsed.rest:
        if word.shown.startswith(":::"):
            break
        if word.known is None:
            yield Refused("unknown-command", f"{command.name} {word.shown}")
            return
        texts.append(word.known)
    if command.name in ("hyperfine", "concurrently"):
        yield from (Script(text, command) for text in texts)
    elif texts:
        joined = " ".join(texts)
        unknown = command.name == "parallel"
        yield Script(f'{joined.replace("{}", "$_")} "$_"' if unknown else joined, command)
    elif command.name == "parallel":
        yield Refused("pipe-to-shell", "parallel without a command")


def _options(command: Command) -> Iterator[Inner]:
    """Options and settings whose value is run."""
    if command.name in ("make", "gmake"):
        for word in command.arguments:
            if word.shown.startswith(("SHELL=", ".SHELLFLAGS=")) and word.known not in _PLAIN_SHELLS:
                yield Refused("hidden-code", f"make {word.shown}")
    names = SCRIPT_OPTIONS.get(command.name or "", ())
    short = "".join(name[1] for name in names if len(name) == 2)
    parsed = parse_options(command.arguments, Options(short, frozenset(name for name in names if len(name) > 2)))
    for word in parsed.value(*names) if names else ():
        text = word.known
        if text is None:
            yield Refused("hidden-code", f"{command.name} {word.shown}")
        else:
            yield Script(text.removeprefix("exec=").removeprefix("!"), command)


def _run(command: Command) -> Iterator[Inner]:
    """`poetry run x`, `npx x`; behind options that nobody here knows any later word may be the program."""
    name, words = command.name or "", command.arguments
    if name in RUNNERS or name in LAUNCHERS:
        yield from _suffixes(command)
    if name not in RUNNERS:
        return
    verbs = RUNNERS[name]
    if verbs:
        at = next((at for at, word in enumerate(words) if word.known in verbs), len(words))
        words = words[at + 1 :]
    rest = [at for at, word in enumerate(words) if not word.shown.startswith("-")]
    if rest and " " not in words[rest[0]].shown:
        yield command.running(words[rest[0] :])
    for before, at in pairwise(rest):
        # `uv run --with x claude`, `flock FILE claude`: the word before it may belong to the runner.
        option = words[before - 1].shown if before else ""
        if name not in _TAKING_FILES and (not option.startswith("-") or option in _PLAIN_OPTIONS):
            break
        if is_agent(words[at]):
            yield command.running(words[at:])


def _suffixes(command: Command) -> Iterator[Inner]:
    """Every place where another program may begin: what the options before it mean does not matter."""
    for at, word in enumerate(command.arguments[:_MOST_INNER]):
        text = word.known
        if text is not None and text.rpartition("/")[2] in HEADS:
            yield command.running(command.arguments[at:])
        elif text is not None and command.arguments[at - 1].known in ("-c", "--command", "-C", "--call") and at:
            yield Script(text, command)


_WAYS: Mapping[str, Callable[[Command], Iterator[Inner]]] = {
    "env": _env,
    "xargs": _xargs,
    **dict.fromkeys(("find", "gfind", "fd", "fdfind"), _find),
    "trap": _trap,
    "eval": _eval,
}
