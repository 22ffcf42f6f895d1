"""Which command a line means, what it is called with, and the help of the whole: as the parser library has it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import wraps

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitswarm.cli.app import command_function, run
from gitswarm.cli.arguments import Option, parameters, plain_values
from gitswarm.cli.registry import ROOT, Command, Group
from gitswarm.cli.tree import call
from gitswarm.cli.usage import help_text


def every_command(group: Group = ROOT, name: str = "git swarm") -> Iterator[tuple[str, Command]]:
    for word, entry in group.entries.items():
        if isinstance(entry, Group):
            yield from every_command(entry, f"{name} {word}")
        else:
            yield f"{name} {word}", entry


COMMANDS = dict(every_command())
GROUPS = {"git swarm": ROOT} | {
    f"git swarm {word}": entry for word, entry in ROOT.entries.items() if isinstance(entry, Group)
}


def test_the_registry_says_what_the_commands_declare() -> None:
    found, declared = {}, {}
    for name, entry in COMMANDS.items():
        function = command_function(entry)
        options = [each for each in parameters(function) if isinstance(each.marker, Option)]
        declared[name] = (
            {f"{option}{'' if each.is_flag else '='}" for each in options for option in each.names},
            " ".join((inspect.getdoc(function) or "").split()).partition(". ")[0].removesuffix("."),
        )
        found[name] = (set(entry.options.split()), entry.help.removesuffix("."))
    assert found == declared


WORDS = st.one_of(
    st.sampled_from(
        ["-", "--", "-h", "--help", "-m", "-f", "-x", "-mx", "--run=", "--json=1", "--run=x", "--ru", "x=y"]
    ),
    st.sampled_from(
        sorted({word.removesuffix("=") for entry in COMMANDS.values() for word in entry.options.split()})
    ),
    st.text(max_size=4),
    st.sampled_from(["a", "build/test@2", "3", "ü"]),
)


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.lists(WORDS, max_size=5), min_size=len(COMMANDS), max_size=len(COMMANDS)))
def test_a_plain_line_means_what_the_parser_library_takes_it_for(lines: list[list[str]]) -> None:
    for (name, entry), words in zip(COMMANDS.items(), lines, strict=True):
        function = command_function(entry)
        plain = plain_values(function, words)
        if plain is not None:
            defaults = {key: each.default for key, each in inspect.signature(function).parameters.items()}
            assert {**defaults, **plain} == parsed(name, function, words)


def parsed(name: str, function: Callable[..., None], words: list[str]) -> dict[str, object]:
    taken: dict[str, object] = {}

    @wraps(function)
    def recording(**values: object) -> None:
        taken.update(values)

    with contextlib.suppress(SystemExit):
        call(recording, name, words)
    return taken


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["lgo"], 2, "No such command 'lgo'"),
        (["--frob"], 2, "No such option: --frob"),
        (["flows", "show"], 2, "Missing argument"),
        (["log", "--frob"], 2, "No such option: --frob"),
        (["gc", "--older-than", "x"], 2, "Invalid value for '--older-than'"),
    ],
)
def test_a_line_that_is_wrong(line: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == code
    assert f"\n\nError: {said}" in capsys.readouterr().err


def test_without_a_command_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert (run([]), run(["flows"])) == (2, 2)
    assert capsys.readouterr().err == help_text(ROOT, "git swarm") + help_text(
        GROUPS["git swarm flows"], "git swarm flows"
    )
