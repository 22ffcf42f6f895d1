"""Words mean to us what they mean to bash."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitswarm.safety.policy.shell import Budget, commands
from gitswarm.safety.policy.state import first_shell
from gitswarm.safety.policy.values import Command, Word

pytestmark = pytest.mark.processes

_PIECES = st.sampled_from(
    [
        *(
            "a",
            "git",
            "x y",
            "é",
            "-",
            "/",
            ".",
            ":",
            "=",
            "%",
            "@",
            "~",
            "#",
            "'",
            '"',
            "\\",
            "$",
            "\n",
            "\t",
            "*",
            "{",
            "}",
            ",",
        ),
        *(
            "''",
            '""',
            "'a b'",
            '"a b"',
            r"\ ",
            r"\$",
            r"\\",
            r"\'",
            r"\"",
            r"\n",
            "'\\'",
            '"\\""',
            '"\\n"',
            '"\'"',
            "'\"'",
        ),
        *(
            r"$'a\tb'",
            r"$'\x67'",
            r"$'\147it'",
            r"$'\'q'",
            r"$'é'",
            '$"a"',
            "{a,b}",
            "{1..3}",
            "{x,{y,z}}",
            "{a}",
            "{,}",
            "{c..a}",
        ),
        *("$X", "${X}", '"$X"', '"${X}"', "$Y", '"$Y"', "$(echo q)", '"$(echo q r)"', "`echo s`", "$'\\''"),
    ]
)
_LINES = st.lists(_PIECES, min_size=1, max_size=7).map("".join)


def _bash(lines: list[str], folder: Path) -> list[list[str] | None]:
    """The words of each line, as bash makes them; None: it refuses the line, or says something."""
    found: list[list[str] | None] = []
    for line in lines:
        done = subprocess.run(
            ["bash", "--norc", "-c", f"X=git; Y='p q'; printf '%s\\0' w {line}"],
            capture_output=True,
            check=False,
            cwd=folder,
            env={"HOME": "/home/dev", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )
        good = done.returncode == 0 and not done.stderr and done.stdout.endswith(b"\0")
        found.append(done.stdout.decode(errors="replace").split("\0")[:-1] if good else None)
    return found


def _ours(line: str) -> list[list[str | None]]:
    """The words of every command that has them."""
    shell = first_shell("/w", frozenset({"/w"}), {"HOME": Word("/home/dev")})
    text = f"X=git; Y='p q'; printf '%s\\0' w {line}"
    found = commands(text, shell, Budget())
    return [
        [word.known for word in each.words[2:]]
        for each in found
        if isinstance(each, Command) and each.name == "printf"
    ]


@given(line=_LINES)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_known_words_are_those_of_bash(line: str) -> None:
    (wanted,) = _bash([line], Path("/"))
    found = _ours(line)
    if wanted is None or "\n" in line or not found or any(word is None for word in found[0]):
        return

    assert found == [wanted], shlex.quote(line)


def test_a_table_of_words() -> None:
    table = {
        r"""g''it "p"u's'h""": ["w", "git", "push"],
        r"$'\x67\151t' $'a\'b'": ["w", "git", "a'b"],
        "{a,b}{1..2} {a}": ["w", "a1", "a2", "b1", "b2", "{a}"],
        "~ ~/x a~ '~'": ["w", "/home/dev", "/home/dev/x", "a~", "~"],
        '$X ${X}x "$Y" $Y': ["w", "git", "gitx", "p q", "p", "q"],
        r'"\n\$\"" \n': ["w", '\\n$"', "n"],
        "$X{a,b}": ["w", None],
        '"$X"{a,b}': ["w", "gita", "gitb"],
        "'' \"\" $Z": ["w", "", "", None],
        "*.py '*' \"?\"": ["w", None, "*", "?"],
    }

    assert {line: _ours(line)[0] for line in table} == table
