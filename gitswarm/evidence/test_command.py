"""A test command as far as it can be changed: one program that is known, or something that runs it unseen.

A line with operators, substitutions or redirections is a script, `make check` and `npm test` run one: nothing is ever
appended to those.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct, field

Runner = Literal["pytest", "jest", "vitest", "go", "gotestsum", "cargo", "nextest", "node"]

_SCRIPTED = re.compile(r"[;&|<>()$`\n*?~{}!#]|^\s*\[")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_LAUNCHERS = (
    ("npx",),
    ("npx", "--yes"),
    ("npx", "-y"),
    ("npx", "--no"),
    ("npx", "--no-install"),
    ("npm", "exec", "--"),
    ("pnpm", "exec"),
    ("pnpm", "dlx"),
    ("pnpm",),
    ("yarn", "exec"),
    ("yarn", "dlx"),
    ("yarn", "run"),
    ("yarn",),
    ("bunx",),
    ("uv", "run"),
    ("poetry", "run"),
    ("pdm", "run"),
    ("pipenv", "run"),
    ("env",),
    ("cross-env",),
    ("time",),
)
_SCRIPT_LAUNCHERS = frozenset({("pnpm",), ("yarn", "run"), ("yarn",)})
"""Those that prefer a script of package.json to a program of that name."""

_PYTHON = re.compile(r"^python(?:[0-9.]+)?$")
_PROGRAMS: tuple[tuple[Runner, *tuple[str, ...]], ...] = (
    ("pytest", "pytest"),
    ("pytest", "py.test"),
    ("pytest", "python", "-m", "pytest"),
    ("jest", "jest"),
    ("vitest", "vitest"),
    ("go", "go", "test"),
    ("gotestsum", "gotestsum"),
    ("nextest", "cargo", "nextest", "run"),
    ("cargo", "cargo", "test"),
    ("cargo", "cargo", "t"),
)
_NODE_PROGRAMS: dict[str, Runner] = {
    "jest": "jest",
    "jest.js": "jest",
    "vitest": "vitest",
    "vitest.mjs": "vitest",
}
_NPM_SCRIPT = re.compile(
    r"^(?:npm (?:run(?:-script)? )?|pnpm (?:run )?|yarn (?:run )?|bun run )([\w:.-]+)(?: -s| --silent)?$"
)
_NPM_ALIASES = {"t": "test", "tst": "test"}


class TestCommand(Struct, frozen=True):
    """`before` are the words up to and with the program (`npx jest`, `go test`), `arguments` those after it."""

    __test__ = False

    runner: Runner
    before: tuple[str, ...]
    arguments: tuple[str, ...]


class _Words(Struct):
    """Words of a line; those that start programs are taken from the front."""

    rest: list[str]
    taken: list[str] = field(default_factory=list)

    def take(self, count: int = 1) -> None:
        self.taken += self.rest[:count]
        del self.rest[:count]


def read_command(command: str | Sequence[str], scripts: Mapping[str, str]) -> TestCommand | None:
    """The command if it is one program whose arguments are known; None for everything else.

    :param scripts: of the package.json in the folder that the command runs in.
    """
    words = _split(command)
    if words is None:
        return None
    if not isinstance(command, str) or not _ASSIGNMENT.match(words[0]):
        taken = _Words(words)
    else:
        taken = _Words(["env", *words])  # `CI=1 jest` of a shell
    return _program(taken, scripts)


def npm_script(command: str | Sequence[str], scripts: Mapping[str, str]) -> str | None:
    """The line behind `npm test` and its like; None if the command is none of them."""
    line = command if isinstance(command, str) else shlex.join(command)
    match = _NPM_SCRIPT.match(line.strip())
    return scripts.get(_NPM_ALIASES.get(match[1], match[1])) if match else None


def _split(command: str | Sequence[str]) -> list[str] | None:
    if not isinstance(command, str):
        return list(command) or None
    if _SCRIPTED.search(command):
        return None
    try:
        return shlex.split(command) or None
    except ValueError:
        return None


def _program(words: _Words, scripts: Mapping[str, str]) -> TestCommand | None:
    while words.rest:
        launcher = max((each for each in _LAUNCHERS if tuple(words.rest[: len(each)]) == each), key=len, default=())
        words.take(len(launcher))
        while launcher in {("env",), ("cross-env",)} and words.rest and _ASSIGNMENT.match(words.rest[0]):
            words.take()
        if launcher in _SCRIPT_LAUNCHERS and words.rest and words.rest[0] in scripts:
            return None
        if not launcher:
            return _known(words)
    return None


def _known(words: _Words) -> TestCommand | None:
    name = PurePosixPath(words.rest[0]).name
    if name == "node":
        return _node(words)
    called = (_PYTHON.sub("python", name), *words.rest[1:3])
    for runner, *program in _PROGRAMS:
        if list(called[: len(program)]) == program:
            return _of(runner, words, len(program))
    return None


def _node(words: _Words) -> TestCommand | None:
    """`node --test`, or `node --experimental-vm-modules node_modules/jest/bin/jest.js`."""
    for at, word in enumerate(words.rest[1:], 1):
        if word == "--test":
            return _of("node", words, 1)
        if not word.startswith("-"):
            runner = _NODE_PROGRAMS.get(PurePosixPath(word).name)
            return _of(runner, words, at + 1) if runner else None
    return None


def _of(runner: Runner, words: _Words, count: int) -> TestCommand:
    words.take(count)
    return TestCommand(runner, tuple(words.taken), tuple(words.rest))
