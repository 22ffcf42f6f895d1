"""shfmt, another parser of the same language, sees no command that we do not see."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gitswarm.safety.policy.shell import Budget, commands
from gitswarm.safety.policy.state import first_shell
from gitswarm.safety.policy.values import Command
from tests.safety.policy.hostile import HOSTILE, READ_ONLY
from tests.safety.policy.ordinary import ORDINARY
from tests.tables import table

pytestmark = pytest.mark.processes

_REFUSED_WHOLE = ("unparsed", "too-complex")
_ALL = tuple(each for rule, many in HOSTILE.items() for each in many if rule not in _REFUSED_WHOLE)
_EXPANDED = frozenset("*?[{}~=")
_OWN_NODES = frozenset({"time", "coproc", "!"})


def _shfmt(lines: Sequence[str]) -> list[Any]:
    """The statements of every line by itself."""
    program = shutil.which("shfmt", path=str(Path(sys.executable).parent))
    assert program is not None
    marked = "".join(f"{line}\n: MARK\n" for line in lines)
    done = subprocess.run(
        [program, "-tojson", "-ln", "bash"], input=marked, capture_output=True, text=True, check=True
    )
    found: list[Any] = [[]]
    for statement in json.loads(done.stdout)["Stmts"]:
        if list(_calls(statement)) == [(":", "MARK")]:
            found.append([])
        else:
            found[-1].append(statement)
    return found[:-1]


def _calls(node: Any) -> Iterator[tuple[str, ...]]:
    """Every simple command of a shfmt tree whose words are plain text."""
    if isinstance(node, list):
        for each in node:
            yield from _calls(each)
    if not isinstance(node, dict):
        return
    if node.get("Type") == "CallExpr" and node.get("Args"):
        words = [_plain(word) for word in node["Args"]]
        if None not in words and words[0] not in ("[", *_OWN_NODES):
            # The grammar loses a lone dash in front of a here-document; it means standard input, as none does.
            yield tuple(str(word) for word in (words[:-1] if words[1:] == ["-"] else words))
    for value in node.values():
        yield from _calls(value)


def _plain(word: Any) -> str | None:
    out = ""
    for part in word["Parts"]:
        if part["Type"] == "SglQuoted" and not part.get("Dollar"):
            out += part.get("Value", "")
        elif part["Type"] == "Lit" and not _EXPANDED & set(part["Value"]):
            out += _unescaped(part["Value"], only=None)
        elif part["Type"] == "DblQuoted" and all(inner["Type"] == "Lit" for inner in part.get("Parts", [])):
            out += "".join(_unescaped(inner["Value"], only='$`"\\') for inner in part.get("Parts", []))
        else:
            return None
    return out


def _unescaped(text: str, *, only: str | None) -> str:
    out, letters = "", iter(text)
    for letter in letters:
        after = next(letters, "") if letter == "\\" else ""
        if letter != "\\":
            out += letter
        elif after != "\n":
            out += after if only is None or after in only else f"\\{after}"
    return out


def _behind_keywords(words: tuple[str, ...]) -> int:
    """`time A=1 x` is one command to us and a keyword, an assignment and a command to shfmt."""
    if words[:1] and words[0] not in _OWN_NODES:
        return 0
    return next((at for at, word in enumerate(words) if word not in _OWN_NODES and "=" not in word), 0)


def _ours(text: str) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for each in commands(text, first_shell("/w", frozenset({"/w"}), {}), Budget()):
        words = [word.known for word in each.words] if isinstance(each, Command) else [None]
        if None not in words:
            exact = tuple(str(word) for word in (words[:-1] if words[1:] == ["-"] else words))
            found |= {exact, exact[_behind_keywords(exact) :]}
    return found


@table("table", [_ALL, READ_ONLY, ORDINARY], ids=["hostile", "read-only", "ordinary"])
def test_every_plain_command_that_shfmt_finds_is_found(table: Sequence[str]) -> None:
    lines = [line for line in table if "\0" not in line and "\r" not in line]

    missed = {
        line: lost
        for line, statements in zip(lines, _shfmt(lines), strict=True)
        if (lost := set(_calls(statements)) - _ours(line))
    }

    assert missed == {}


def test_the_tables_hold_many_plain_commands() -> None:
    assert sum(len(list(_calls(statements))) for statements in _shfmt(ORDINARY)) > 400
