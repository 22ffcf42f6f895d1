"""Programs that start other programs: what stands in their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gitswarm.safety.policy.reader import SimpleCommand
from gitswarm.safety.policy.table import listed
from gitswarm.safety.policy.words import ShellWord

SHELLS = listed("sh bash dash zsh ksh mksh ash fish")
_PREFIXES: Mapping[str, str] = {
    name: letters
    for letters, names in {
        "": "nohup setsid command builtin chronic unbuffer busybox coproc ! { do then else elif if while until",
        "uCghp": "env sudo doas",
        "ks": "timeout gtimeout",
        "aEILnPsd": "xargs",
        "cnpfoieaw": "nice ionice stdbuf time exec watch xvfb-run flock",
    }.items()
    for name in names.split()
}
"""What runs the rest of its arguments, reserved words too: the letters of options with a value."""
_RUNNERS: Mapping[str, str] = {
    name: verbs
    for verbs, names in {
        "": "npx pnpx bunx uvx cross-env dotenv",
        "run": "poetry pipenv pdm rye hatch conda uv pipx pixi rustup",
        "exec x dlx": "npm pnpm yarn bun bundle mise lerna",
    }.items()
    for name in names.split()
}
"""The same, behind a verb of their own."""
_TAKING_ONE = frozenset({"timeout", "gtimeout", "flock"})
_LONG_OPTIONS = listed("--package --with --from --python --group --extra --env-file")


def inside(command: SimpleCommand) -> Iterator[SimpleCommand | str]:
    """What `command` starts in its turn: a program, or the text of a shell script."""
    name = command.name or ""
    words = command.arguments
    if name in SHELLS:
        yield from _script(words)
    elif name in _PREFIXES and not (name == "command" and words[:1] and words[0].known in ("-v", "-V")):
        yield from _rest(_behind_options(words, _PREFIXES[name])[name in _TAKING_ONE :])
    elif name in _RUNNERS:
        verbs = _RUNNERS[name].split()
        at = next((at for at, word in enumerate(words) if word.known in verbs), -1)
        if not verbs or at >= 0:
            yield from _rest(_behind_options(words[at + 1 :], "pn"))
    elif name.startswith(("python", "pypy")):
        at = next((at for at, word in enumerate(words) if word.known == "-m"), len(words))
        yield from _rest(words[at + 1 :])
    elif name == "find":
        yield from _found(words)
    elif name in ("eval", "trap") and all(word.known is not None for word in words):
        yield " ".join(word.known or "" for word in (words if name == "eval" else words[:1]))


def _rest(words: Sequence[ShellWord]) -> Iterator[SimpleCommand]:
    """Behind assignments."""
    begin = next((at for at, word in enumerate(words) if "=" not in word.shown), len(words))
    if words[begin:]:
        yield SimpleCommand(tuple(words[begin:]))


def _behind_options(words: Sequence[ShellWord], letters: str) -> Sequence[ShellWord]:
    at = 0
    while at < len(words) and words[at].shown.startswith("-"):
        option = words[at].known or ""
        at += 1
        if option == "--":
            break
        at += option in _LONG_OPTIONS or (len(option) == 2 and option[1] in letters)
    return words[at:]


def _script(words: Sequence[ShellWord]) -> Iterator[str]:
    """The text behind `-c`, also as a letter among others."""
    texts = [text for option, text in pairwise(words) if re.fullmatch(r"-\w*c\w*", option.known or "")]
    yield from (text.known for text in texts[:1] if text.known is not None)


def _found(words: Sequence[ShellWord]) -> Iterator[SimpleCommand]:
    """`find -exec`."""
    at = 0
    while at < len(words):
        begin = at + 1
        if words[at].known in ("-exec", "-execdir", "-ok", "-okdir"):
            at = next((end for end in range(begin, len(words)) if words[end].known in (";", "+")), len(words))
            yield SimpleCommand(tuple(words[begin:at]))
        at += 1
