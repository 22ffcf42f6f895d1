"""Which command a line means, what it is called with, and the help of the whole: as the parser library has it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitswarm.cli.app import command_function, run
from gitswarm.cli.arguments import Option, parameters, plain_values
from gitswarm.cli.command_table import ROOT, Command, Group
from gitswarm.cli.help_pages import help_text
from gitswarm.cli.typer_parser import call
from tests.cli.test_terminal import on_terminal
from tests.conftest import Project
from tests.projects import ask, new_project
from tests.tables import table


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
        takes_rest = any(each.is_rest for each in parameters(function)) and "--" in words
        if plain is not None and not takes_rest:  # the library gives the first word behind `--` to RUN
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
    ("line", "said", "hint"),
    [
        (["lgo"], "there is no command 'lgo'", "git swarm log"),
        (["stauts"], "there is no command 'stauts'", "git swarm status"),
        (["cancle"], "there is no command 'cancle'", "git swarm stop   (--now: in the middle of the step)"),
        (["history"], "there is no command 'history'", "git swarm log"),
        (["flows", "lst"], "there is no command 'flows lst'", "git swarm flows list"),
        (["flows", "ls"], "there is no command 'flows ls'", "git swarm flows list"),
        (["qqqqq"], "there is no command 'qqqqq'", "git swarm -h"),
        (["--frob"], "there is no option '--frob' before a command", "git swarm -h"),
        (["flows", "show"], "missing argument 'FLOW'", "git swarm flows show build"),
        (["log", "--frob"], "no such option: --frob", "git swarm log -h"),
        (["log", "--jsn"], "no such option: --jsn (Possible options: --json)", "git swarm log -h"),
        (["config", "retention.days", "-3"], "'-3' looks like an option", "git swarm config retention.days -- -3"),
        (["gc", "--older-than", "x"], "invalid value for '--older-than': not a whole number", "git swarm gc -h"),
    ],
)
def test_a_line_that_is_wrong(line: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"git-swarm: {said}")
    assert second == f"hint: {hint}"


def test_without_a_command_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert (run([]), run(["flows"])) == (2, 2)
    assert capsys.readouterr().err == help_text(ROOT, "git swarm") + help_text(
        GROUPS["git swarm flows"], "git swarm flows"
    )


@table(
    "since",
    [
        *("yesterday", "2 weeks ago", "2.days.ago", "2026-11-20", "2026-11-20 10:00", "last friday", "nov 20 2026"),
        *("20.11.2026", "3days", "two hours ago", "noon", "@1700000000", "2026-11-20T10:00:00Z", "5pm", "4w"),
    ],
)
def test_a_time_that_git_understands(empty: Project, since: str) -> None:
    assert ask(empty, "list", "--since", since).code == 0


@table("since", ["3x", "3xyz", "banana", "3 bananas", "3", "ago", "tomorow", "12:3", ""])
def test_a_time_that_git_would_take_for_now_is_refused(empty: Project, since: str) -> None:
    done = ask(empty, "list", "--since", since)
    assert (done.code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == f"git-swarm: --since {since}: not a time that git understands"
    assert second.startswith("hint: git swarm list --since 3d   (")


def test_a_state_that_there_is_not_names_each_state_once(empty: Project) -> None:
    first, second = ask(empty, "list", "--state", "faild").stderr.splitlines()
    assert first == "git-swarm: --state faild: there is no such state"
    assert second.startswith("hint: git swarm list --state failed   (or: ")
    assert "not proven" in second
    assert "unproven" not in second


def test_lines_fit_the_terminal(empty: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitswarm.cli.console.is_narrow", lambda _stream: True)
    narrow = replace(empty, env={**empty.env, "COLUMNS": "80"})
    command = "pytest -q --maxfail 3 --import-mode importlib tests/unit tests/integration tests/smoke"
    for line in (
        ("list", "--state", "faild"),
        ("list", "--since", "banana"),
        ("config", "--team", "commands.test", command),
        ("config", "commands.test", command),
        ("config", "--unset", "commands.test"),
        ("start", "build", "-m", "x", "--dry-run"),
        ("init",),
    ):
        done = ask(narrow, *line)
        shown = f"{done.stdout}\n{done.stderr}".splitlines()
        assert [each for each in shown if len(each) > 80 and not each.startswith("    #")] == [], line


def test_lines_that_a_pager_may_show_fit_the_terminal(empty: Project) -> None:
    command = "pytest -q --maxfail 3 --import-mode importlib tests/unit tests/integration tests/smoke"
    shown = on_terminal(empty, 24, "swarm", "config", "commands.test", command).splitlines()
    assert shown[0].startswith("commands.test: pytest -q")
    assert max(map(len, shown)) <= 80


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return new_project(tmp_path_factory.mktemp("empty"))
