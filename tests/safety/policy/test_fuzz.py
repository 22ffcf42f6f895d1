"""Quoting and wrapping turn no deny into an allow, and harmless quoting no allow into a deny."""

from __future__ import annotations

import shlex
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitswarm.records.policy import Allow, Deny
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.scope import Scope

DENIED = (
    ("git", "push"),
    ("git", "push", "origin", "HEAD:main"),
    ("git", "-C", ".", "push"),
    ("git", "commit", "-m", "a b"),
    ("git", "reset", "--hard"),
    ("rm", "-rf", ".."),
    ("rm", "-rf", ".git"),
    ("sudo", "id"),
    ("npm", "publish"),
    ("dd", "if=x", "of=/dev/sda"),
    ("gh", "pr", "merge", "1"),
    ("ssh", "host", "id"),
    ("touch", "/etc/x"),
    ("kill", "-9", "-1"),
    ("python3", "-c", "import os; os.system('git push')"),
)
ALLOWED = (
    ("git", "status", "--short"),
    ("git", "log", "--oneline", "-5"),
    ("git", "diff", "HEAD", "--", "src/a b.py"),
    ("ls", "-la", "src"),
    ("npm", "test"),
    ("pytest", "-k", "not slow", "tests"),
    ("rm", "-rf", "build"),
    ("cp", "a", "src/b"),
    ("sed", "-i", "s/a/b/", "src/a.py"),
    ("grep", "-rn", "git push", "src"),
    ("cargo", "test", "--", "--nocapture"),
)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-")
_COMMON = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _quoted(text: str, chance: Random) -> str:
    """`text` as a word, every letter quoted in some way."""
    out = chance.choice(["", "''", '""']) if text else "''"
    for letter in text:
        ways = [f"'{letter}'" if letter != "'" else '"\'"', f"$'\\x{ord(letter):02x}'", f"$'\\{ord(letter):03o}'"]
        ways.append(f'"{letter}"' if letter not in '"$`\\' else f"\\{letter}")
        if letter in _PLAIN:
            ways += [letter, letter, letter, letter + "''", f"\\{letter}"]
        out += chance.choice(ways)
    return out


def _line(argv: tuple[str, ...], chance: Random) -> str:
    first, *rest = argv
    return _quoted(first, chance) + "".join(
        chance.choice([" ", "  ", "\t", " \\\n "]) + _quoted(word, chance) for word in rest
    )


PREFIXES = ("", "env ", "env A=1 ", "command ", "exec ", "A=1 ", "nohup ", "timeout 5 ", "nice -n 5 ", "> /dev/null ")
WRAPS = (
    *(
        "<> &",
        "time <>",
        "! <>",
        "( <> )",
        "{ <>\n}",
        "true && <>",
        "ls | <>",
        "<> | cat",
        "<> > /dev/null 2>&1",
        "ls # <>\n<>",
    ),
    *(
        "if true; then <>\nfi",
        "for i in 1; do <>\ndone",
        "while <>\ndo :; done",
        "case x in *) <>\n;; esac",
        "f() { <>\n}; f",
    ),
    *("echo $( <> )", 'echo "$( <> )"', "cat <( <> )", "[[ -n $( <> ) ]]", "X=$( <> )", "cat <<E\n$( <> )\nE"),
)
SCRIPTS = (
    "sh -c <>",
    "bash -lc <>",
    "eval <>",
    "env sh -c <>",
    "sh <<< <>",
    "trap <> EXIT",
    "xargs -I% sh -c <>",
)


def _wrapped(argv: tuple[str, ...], chance: Random) -> str:
    text = chance.choice(PREFIXES) + _line(argv, chance)
    for _ in range(chance.randint(0, 3)):
        if chance.random() < 0.5:
            text = chance.choice(WRAPS).replace("<>", text)
        else:
            text = chance.choice(SCRIPTS).replace("<>", shlex.quote(text))
    return text


_SEEDS = st.integers(0, 2**40)


@given(argv=st.sampled_from(DENIED), seed=_SEEDS)
@settings(_COMMON, max_examples=400)
def test_no_quoting_or_wrapping_makes_a_denied_command_allowed(
    argv: tuple[str, ...], seed: int, writer: Scope
) -> None:
    text = _wrapped(argv, Random(seed))

    assert isinstance(decide("Bash", {"command": text}, writer), Deny), text


@pytest.mark.soak
def test_no_quoting_or_wrapping_makes_any_denied_command_allowed(writer: Scope) -> None:
    chance = Random(20261121)
    texts = [_wrapped(chance.choice(DENIED), chance) for _ in range(20_000)]

    assert [text for text in texts if not isinstance(decide("Bash", {"command": text}, writer), Deny)] == []


@given(argv=st.sampled_from(ALLOWED), seed=_SEEDS)
@settings(_COMMON, max_examples=200)
def test_harmless_quoting_makes_no_allowed_command_denied(argv: tuple[str, ...], seed: int, writer: Scope) -> None:
    text = _line(argv, Random(seed))

    assert decide("Bash", {"command": text}, writer) == Allow(), text


@given(
    text=st.lists(
        st.sampled_from(
            [*"git push rm -rf /.;&|<>(){}$`'\"\\\n\t*?[]~=#!%@,:é\0\r", "$(", "<<E\n", "\nE\n", "do ", "if ", "fi"]
        ),
        max_size=60,
    ).map("".join)
)
@settings(_COMMON, max_examples=400)
def test_every_text_gets_a_verdict(text: str, writer: Scope) -> None:
    assert isinstance(decide("Bash", {"command": text}, writer), (Allow, Deny))
