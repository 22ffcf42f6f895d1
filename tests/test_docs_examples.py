"""The shell examples of README, tutorial, runbook and how-to pages, executed as they stand: some in the process of
the test, all on a terminal of 80 columns with a clean home (soak). `DOCS=write` puts their output into the pages.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path

import pytest

from tests.conftest import Project, environment
from tests.documented import DocumentedShell, has_each_line, has_lines, perform, write_outputs
from tests.documents import CodeBlock
from tests.safety.sandbox.conftest import FETCHED, needs_bwrap
from tests.tables import table
from tests.test_docs import PAGES
from tests.test_real_projects import SDIST_FOLDER

Session = tuple[str, int]
BY_NAME = {page.name: page for page in PAGES}
SESSIONS = [(page.name, number) for page in PAGES for number in {block.session for block in page.blocks()} - {-1}]
QUICK = [("docs/howto/own-flow.md", 0)]
"""Of the usual run."""


def blocks_of(session: Session) -> list[CodeBlock]:
    name, number = session
    return [block for block in BY_NAME[name].blocks() if block.session == number]


LOOP = """\
steps:
  implement: [{write: {calc.py: "def add(*summands):\\n    return sum(summands)\\n"}}, {run: ["true"]}]
  critique_code: [{status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [thin]}, {status: VERIFIED}]
"""
EXAMPLE = ("docs/howto/daily.md", 0)
TUTORIAL = ("docs/tutorial.md", 0)
UPSTREAM = "https://github.com/pyparsing/pyparsing"


def in_a_run(block: CodeBlock) -> bool:
    """Whether it is about git-swarm, not yet about the project."""
    return ".swarm/" in block.notes.get("file", "")


def starts(block: CodeBlock) -> bool:
    return any("git swarm start" in line for line in block.lines)


def perform_all(shell: DocumentedShell, blocks: Iterable[CodeBlock]) -> None:
    """Executes blocks without output."""
    assert [shown for _block, _line, shown, _printed in perform(shell, blocks) if shown] == []


def a_home(folder: Path, sandbox: str) -> tuple[Path, dict[str, str]]:
    """Of a user with a name, an address and nothing else; GitHub is on this machine."""
    home = folder / "ada"
    env = environment(home)
    text = "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    text += f'[swarm "policy"]\n\tsandbox = {sandbox}\n'
    text += f'[url "file://{folder}/upstream"]\n\tinsteadOf = {UPSTREAM}\n[advice]\n\tdetachedHead = false\n'
    (home / ".gitconfig").write_text(text, encoding="utf-8")
    plain = {"PATH", "HOME", "LC_ALL", "TZ", "PYTHONPATH"}
    kept = {name: value for name, value in env.items() if name in plain or name.startswith("COVERAGE_PROCESS_")}
    return home, {**kept, "COLUMNS": "80", "GIT_PAGER": "cat", "PAGER": "cat", "SHELL": "/bin/bash"}


def make_upstream(folder: Path, env: Mapping[str, str]) -> None:
    """The repository of pyparsing, with the tag of the release: its sdist, with the .gitignore that is not in it."""
    with tarfile.open(SDIST_FOLDER / "pyparsing-3.1.4.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    made = Project(folder / "pyparsing-3.1.4", env)
    made.git("init", "-q", "-b", "master")
    made.commit({".gitignore": "__pycache__/\n.pytest_cache/\n"}, "pyparsing 3.1.4")
    made.git("tag", "3.1.4")
    made.git("clone", "-q", "--bare", str(made.root), str(folder / "upstream"))
    shutil.rmtree(made.root)


def begin(folder: Path, place: str, *, is_terminal: bool) -> DocumentedShell:
    """A shell where a session begins.

    :param place: `empty`; in the `project` calc of the how-to pages; beside the `upstream` of pyparsing; in a `clone`
        of it, with what the tutorial puts there before its run starts; `confined`: in calc, in the sandbox.
    """
    home, env = a_home(folder, "require" if place == "confined" else "off")
    if place == "confined":
        env["PATH"] = f"{FETCHED}{os.pathsep}{env['PATH']}"
    shell = DocumentedShell(home, env, is_terminal)
    if place in ("upstream", "clone"):
        make_upstream(folder, env)
    if place == "clone":
        perform_all(shell, takewhile(lambda block: not starts(block), blocks_of(TUTORIAL)))
    elif place in ("project", "confined"):
        perform_all(shell, takewhile(lambda block: not in_a_run(block), blocks_of(EXAMPLE)))
    elif place not in ("upstream", "clone"):
        assert place == "empty", place
    return shell


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name is about as long as /home: lines are broken where the pages show it."""
    with tempfile.TemporaryDirectory(prefix="") as folder:
        yield Path(folder)


@pytest.fixture
def on_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed in the process of the test is what a terminal would get."""
    monkeypatch.setattr("gitswarm.cli.console.is_screen", lambda: True)
    for name in ("console", "progress"):
        monkeypatch.setattr(f"gitswarm.cli.{name}.is_narrow", lambda _stream: True)


def test_the_five_commands_of_the_readme(short: Path) -> None:
    """In a small project; in a clone of pyparsing: below, as the session of the README."""
    shell = begin(short, "project", is_terminal=False)
    (shell.home / "hex_color.yaml").write_text(LOOP, encoding="utf-8")
    assert shell.run("git config swarm.commands.test 'python -c \"import calc\"'")[0] == 0
    perform_all(shell, blocks_of(("README.md", 0)))
    assert shell.run("git show --format=%s --stat HEAD")[1].splitlines()[0] == "Add pyparsing_common.hex_color"


@pytest.mark.usefixtures("on_screen")
@pytest.mark.parametrize("session", QUICK, ids=str)
def test_the_quick_sessions_do_what_the_page_shows(short: Path, session: Session) -> None:
    blocks = blocks_of(session)
    shell = begin(short, blocks[0].place, is_terminal=False)
    for block, _behind, shown, printed in perform(shell, blocks):
        assert has_each_line(shown, printed), f"{session[0]}:{block.line}:\n{printed}"


def marks_of(session: Session) -> list[pytest.MarkDecorator]:
    return [needs_bwrap] if blocks_of(session)[0].place == "confined" else []


@pytest.mark.soak
@pytest.mark.parametrize("session", [pytest.param(each, marks=marks_of(each), id=str(each)) for each in SESSIONS])
def test_every_session_does_on_a_terminal_what_the_page_shows(short: Path, session: Session) -> None:
    blocks = blocks_of(session)
    found = list(perform(begin(short, blocks[0].place, is_terminal=True), blocks))
    if os.environ.get("DOCS") == "write":
        write_outputs(BY_NAME[session[0]], found)
        return
    for block, _behind, shown, printed in found:
        assert has_lines(shown, printed), f"{session[0]}:{block.line}:\n{printed}"


@table(
    ("shown", "printed", "is_it"),
    [
        (["a 1.2s b"], "a   3ms\nb", True),
        (["dd6031b2 on shadow/run-20261122-183812-d8b4fd"], "0000aa11 on shadow/run-20260101-000000-d8b4ff", True),
        (["9 passed"], "8 passed", False),
        (["a", "…", "z"], "a\nb\nc\nz", True),
        (["a", "…", "z"], "a\nb\nc\nz\nmore", False),
        (["a", "…"], "b\na\nz", False),
        (["decades"], "facades", False),
        (["eecdac approved"], "c7b11f approved", True),
    ],
)
def test_what_counts_as_the_same_output(shown: list[str], printed: str, is_it: object) -> None:
    assert has_lines(shown, printed) is is_it
