"""What help says: of the whole, of a command, in the manual, and for words that people know from elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from docs.manual import man_page
from gitswarm.cli.app import command_function, run
from gitswarm.cli.command_table import ROOT
from gitswarm.cli.help_pages import EXAMPLES, GROUPS, NEAR, help_text, sections
from gitswarm.cli.typer_parser import call
from tests.cli.test_command_line import COMMANDS
from tests.cli.test_command_line import GROUPS as COMMAND_GROUPS
from tests.golden import check_golden

PAGE = Path(__file__).parents[2] / "docs/man/git-swarm.1"


def test_every_command_stands_in_one_group() -> None:
    names = [name for entries in GROUPS.values() for name in entries.split()]
    assert sorted(names) == sorted(ROOT.entries)


@pytest.mark.parametrize("columns", [80, 120, 60])
def test_every_line_is_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, group in COMMAND_GROUPS.items():
        text = help_text(group, name)
        assert max(map(len, text.splitlines())) <= columns
        assert "..." not in text
    root = help_text(ROOT, "git swarm")
    lines = [line for entries in sections(ROOT).values() for line in entries.values()]
    assert all(line in " ".join(root.split()) for line in lines)
    if columns >= 80:
        assert all(any(line in shown for shown in root.splitlines()) for line in lines), "one line each"


def shown(function: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        function()
    return out.getvalue()


def test_every_command_shows_examples_below_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, entry in COMMANDS.items():
        text = shown(partial(call, command_function(entry), name, ["-h"]))
        lines = [line.strip() for line in text.partition("Examples:")[2].splitlines() if line.strip()]
        assert tuple(lines) == EXAMPLES[name.removeprefix("git swarm ")], name
        assert max(map(len, text.splitlines())) <= 80, name


def test_examples_are_lines_that_the_commands_take() -> None:
    assert {f"git swarm {name}" for name in EXAMPLES} == set(COMMANDS)
    for name, lines in EXAMPLES.items():
        options = {each.removesuffix("=") for each in COMMANDS[f"git swarm {name}"].options.split()}
        for line in lines:
            words = shlex.split(line.replace('"$(', " ").replace(')"', " "), comments=True)
            start = next(at for at in range(len(words)) if words[at : at + 2] == ["git", "swarm"]) + 2
            typed = words[start:]
            assert typed[: len(name.split())] == name.split(), line
            typed = typed[: typed.index("--")] if "--" in typed else typed
            given = {word.partition("=")[0] for word in typed if word.startswith("-") and len(word) > 1}
            assert given <= options, line


@pytest.mark.parametrize("word", list(NEAR))
def test_words_that_people_know_name_the_command(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[0] == f"git-swarm: there is no command '{word}'"
    typed = said.splitlines()[1].removeprefix("hint: git swarm ").split()[0]
    assert typed in ROOT.entries or typed in ("--help", "--version")


def test_no_near_word_hides_a_command() -> None:
    assert NEAR.keys() & ROOT.entries.keys() == set()


def test_the_manual_is_made_of_what_the_commands_declare() -> None:
    check_golden(PAGE, man_page())


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_the_manual_can_be_set() -> None:
    argv = ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=80n", str(PAGE)]
    done = subprocess.run(argv, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    text = done.stdout.decode()
    assert done.stderr == b""
    for name, entry in COMMANDS.items():
        assert name in text
        for option in entry.options.split():
            assert option.removesuffix("=") in text, f"{name} {option}"
