"""Quoting and wrapping turn no deny into an allow, and harmless quoting no allow into a deny."""

from __future__ import annotations

import shlex

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
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def quoted(draw: st.DrawFn, text: str) -> str:
    """`text` as a word, every letter quoted in some way."""
    out = draw(st.sampled_from(["", "''", '""'])) if text else "''"
    for letter in text:
        ways = [f"'{letter}'" if letter != "'" else '"\'"', f"$'\\x{ord(letter):02x}'", f"$'\\{ord(letter):03o}'"]
        ways.append(f'"{letter}"' if letter not in '"$`\\' else f"\\{letter}")
        if letter in _PLAIN:
            ways += [letter, letter, letter, letter + "''", f"\\{letter}"]
        out += draw(st.sampled_from(ways))
    return out


@st.composite
def line(draw: st.DrawFn, argv: tuple[str, ...]) -> str:
    blank = st.sampled_from([" ", "  ", "\t", " \\\n "])
    first, *rest = argv
    return draw(quoted(first)) + "".join(draw(blank) + draw(quoted(word)) for word in rest)


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
    "env -S <>",
)


@st.composite
def wrapped(draw: st.DrawFn, argv: tuple[str, ...]) -> str:
    text = draw(st.sampled_from(PREFIXES)) + draw(line(argv))
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            text = draw(st.sampled_from(WRAPS)).replace("<>", text)
        else:
            text = draw(st.sampled_from(SCRIPTS)).replace("<>", shlex.quote(text))
    return text


@given(data=st.data())
@settings(_COMMON, max_examples=250)
def test_no_quoting_or_wrapping_makes_a_denied_command_allowed(data: st.DataObject, writer: Scope) -> None:
    text = data.draw(st.sampled_from(DENIED).flatmap(wrapped))

    assert isinstance(decide("Bash", {"command": text}, writer), Deny)


@pytest.mark.soak
@given(data=st.data())
@settings(_COMMON, max_examples=20_000)
def test_no_quoting_or_wrapping_makes_any_denied_command_allowed(data: st.DataObject, writer: Scope) -> None:
    text = data.draw(st.sampled_from(DENIED).flatmap(wrapped))

    assert isinstance(decide("Bash", {"command": text}, writer), Deny)


@given(data=st.data())
@settings(_COMMON, max_examples=150)
def test_harmless_quoting_makes_no_allowed_command_denied(data: st.DataObject, writer: Scope) -> None:
    text = data.draw(st.sampled_from(ALLOWED).flatmap(line))

    assert decide("Bash", {"command": text}, writer) == Allow()


@given(
    text=st.lists(
        st.sampled_from(
            list("git push rm -rf /.;&|<>(){}$`'\"\\\n\t*?[]~=#!%@,:é\0\r")
            + ["$(", "<<E\n", "\nE\n", "do ", "if ", "fi"]
        ),
        max_size=60,
    ).map("".join)
)
@settings(_COMMON, max_examples=400)
def test_every_text_gets_a_verdict(text: str, writer: Scope) -> None:
    assert isinstance(decide("Bash", {"command": text}, writer), (Allow, Deny))
