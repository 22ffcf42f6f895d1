"""Options and arguments that say where a program puts what it makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.paths import first, write_problem
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import UNKNOWN, Command, Word


@dataclass(frozen=True, slots=True)
class _Output:
    """`options` whose value is written; `joined`: those that may stand in one word with it (`-ofile`); `verbs`: the
    subcommands that count, empty: all. `place`: which arguments are written, from and to; `skipped`:
    options with another value.
    """

    options: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()
    place: tuple[int, int | None] = (0, 0)
    skipped: frozenset[str] = frozenset()
    builds: bool = True


_COMPILER = re.compile(r"(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|gfortran|ld|lld)(?:-[\d.]+)?")
_COMPILES = _Output(("-o", "-MF"), ("-o",))
_INSTALLS = listed("install i add ci uninstall remove rm update up upgrade link")
_VENV = listed("--prompt --python -p --seed --index-url --exclude-newer")
_CONFIGURED = listed("""
    --config -c --settings-path --settings-file --sp --ignore-path --plugin --cache-dir --config-file -l --line-length
""")
_OUTPUTS: Mapping[str, _Output] = {
    "rustc": _Output(("-o", "--out-dir"), ("-o",)),
    "go": _Output(("-o", "--o"), verbs=listed("build test")),
    "cargo": _Output(("--target-dir", "--root", "--out-dir", "--artifact-dir")),
    "cmake": _Output(("-B", "--prefix"), ("-B",)),
    "openssl": _Output(("-out", "-keyout", "-writerand", "-CAserial")),
    **dict.fromkeys(("venv", "virtualenv"), _Output(place=(0, None), skipped=_VENV)),
    "uv": _Output(("--target", "-t", "--prefix"), verbs=listed("venv pip"), skipped=_VENV),
    "pip": _Output(
        ("--target", "-t", "--prefix", "--root", "--dest", "-d", "--wheel-dir", "-w", "--src"),
        ("-t", "-d", "-w"),
        verbs=listed("install download wheel"),
    ),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _Output(("--prefix", "-C", "--dir", "--cwd"), verbs=_INSTALLS)),
    "patch": _Output(
        ("-d", "--directory", "-o", "--output", "-r", "--reject-file"), ("-d", "-o", "-r"), builds=False
    ),
    "tsc": _Output(("--outDir", "--outFile", "--declarationDir", "--tsBuildInfoFile")),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), _Output((), ("-o",), builds=False)),
    "jar": _Output(("--file",), builds=False),
    "uniq": _Output(place=(1, 2), skipped=frozenset({"-f", "-s", "-w"}), builds=False),
    **dict.fromkeys(("pg_dump", "pg_dumpall"), _Output(("-f", "--file"), ("-f",), builds=False)),
}
_FORMATTING: Mapping[str, frozenset[str]] = {
    "black": listed("--check --diff --version -h --help"),
    "isort": listed("--check --check-only -c --diff --version --help"),
    "ruff": listed("--check --diff --version --help"),
    "rustfmt": listed("--check"),
}
"""Programs that change the files that they are given, and options with which they do not."""
_FORMATS = _Output(place=(0, None), skipped=_CONFIGURED)


def output_problem(command: Command, scope: Scope) -> Deny | None:
    """What a program makes must not leave the worktree. In there a station that only reads code may build."""
    found = _output(command)
    if found is None:
        return None
    plain = [word.known for word in command.arguments if not word.shown.startswith("-")]
    if found.verbs and not found.verbs & set(plain[:2]):
        return None
    if found.verbs is _INSTALLS and _is_global(command.arguments, plain):
        shown = " ".join(word.shown for word in command.words)
        return deny("outside-write", shown, "install it into the project; npx runs it from there")
    judged = replace(scope, writes_code=True) if found.builds else scope
    return first(write_problem(word, command.folders, judged) for word in _written(command, found))


def _output(command: Command) -> _Output | None:
    name = re.sub(r"^pip[\d.]+$", "pip", command.name or "")
    if _COMPILER.fullmatch(name):
        return _COMPILES
    if name in _FORMATTING:
        texts = {word.known for word in command.arguments}
        changes = name != "ruff" or "format" in texts or texts & {"--fix", "--fix-only", "--unsafe-fixes"}
        return _FORMATS if changes and not texts & _FORMATTING[name] else None
    return _OUTPUTS.get(name)


def _is_global(words: Sequence[Word], plain: Sequence[str | None]) -> bool:
    return plain[:1] == ["global"] or any(word.known in ("-g", "--global", "--location=global") for word in words)


def _written(command: Command, output: _Output) -> Iterator[Word]:
    words = command.arguments
    rest: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text if word.text is not None else word.start
        at += 1
        name, sign, value = text.partition("=")
        joined = next((each for each in output.joined if text.startswith(each) and text != each), None)
        if text in output.options:
            yield words[at] if at < len(words) else Word(".")
            at += 1
        elif sign and name in output.options:
            yield _like(word, value)
        elif joined is not None and not text.startswith("--"):
            yield _like(word, text.removeprefix(joined))
        elif text in output.skipped:
            at += 1
        elif not text.startswith("-"):
            rest.append(word)
    if command.name == "jar":
        yield from _archive(words)
    if (command.name or "").startswith("7z") and rest and rest[0].known in ("a", "u", "d", "rn"):
        yield from rest[1:2]
    if command.name == "uv" and rest and rest[0].known == "venv":
        yield from rest[1:]
    yield from rest[slice(*output.place)]


def _archive(words: Sequence[Word]) -> Iterator[Word]:
    """`jar cfe FILE MAIN …`: values stand in the order of the letters."""
    letters = (words[0].known or "").lstrip("-") if words else ""
    if letters.isalpha() and "f" in letters and {"c", "u", "i"} & set(letters):
        taking = [letter for letter in letters if letter in "fme"]
        yield dict(zip(taking, words[1:], strict=False)).get("f", UNKNOWN)


def _like(word: Word, value: str) -> Word:
    return Word(value, word.pattern) if word.text is not None else Word(None, start=value)
