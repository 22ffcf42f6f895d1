"""Short ids, colours and the pager: what a terminal gets and a pipe does not."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from gitswarm.cli import terminal
from gitswarm.cli.console import hint_lines, next_lines, with_short_ids
from gitswarm.records.execution import shortest
from tests.conftest import Project
from tests.projects import ask, new_project
from tests.tables import table

ONE, TWO, TWIN = "run-20260101-010203-2aa18a", "run-20260102-040506-77bb01", "run-20260103-070809-2aa18a"
FLOW = "id: one\ntitle: One\nsteps:\n  - {id: work, station: fixer}\n"
LONG_FLOW = "id: one\ntitle: One\nsteps:\n" + "".join(f"  - {{id: s{n}, station: fixer}}\n" for n in range(9))


@table(
    ("others", "short"),
    [([ONE, TWO], "2aa18a"), ([ONE, TWIN], "010203-2aa18a"), ([ONE, "run-20260909-010203-2aa18a"], ONE)],
)
def test_the_shortest_id(others: list[str], short: str) -> None:
    assert shortest(ONE, others) == short


@table(
    ("text", "shown"),
    [
        (f"git swarm log {ONE}", "git swarm log 2aa18a"),
        (f"{ONE} failed: why", "2aa18a failed: why"),
        (f"shadow/{ONE} and /w/{ONE}/a", f"shadow/{ONE} and /w/{ONE}/a"),
        (f".swarm/runs/{ONE}/x refs/swarm/{ONE}", f".swarm/runs/{ONE}/x refs/swarm/{ONE}"),
    ],
)
def test_ids_are_short_where_they_are_no_part_of_a_name(text: str, shown: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitswarm.cli.console.is_screen", lambda: True)
        patch.setattr("gitswarm.cli.console.runs_here", lambda: [ONE, TWO])
        assert with_short_ids(text) == shown


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_command_is_not_broken_nor_is_one_said_about_it(monkeypatch: pytest.MonkeyPatch, on_terminal: bool) -> None:  # noqa: FBT001
    monkeypatch.setattr("gitswarm.cli.console.is_narrow", lambda _stream: on_terminal)
    monkeypatch.setenv("COLUMNS", "60")
    other = f"(or: git swarm approve {ONE} --accept 'tests_deleted@a/b=WHY' --accept 'tests_red@a/b=WHY')"
    hint = f"git swarm resume {ONE}   {other}"
    assert next_lines("next  ", hint) == [f"next  git swarm resume {ONE}", f"      {other}"]
    assert other in hint_lines(hint, sys.stderr)[-1]


def test_a_pipe_gets_whole_ids_and_no_colours(project: Project) -> None:
    project.commit({".swarm/flows/one.yaml": FLOW})
    run = project.start("{}", flow="one")
    assert ask(project, "log").stdout.startswith(f"{run}  rehearsal: 1 step")
    assert "\x1b" not in ask(project, "log").stdout
    assert "\x1b[32mVERIFIED\x1b[0m" in ask(project, "log", "--color").stdout
    assert ask(project, "log", "--color=sometimes").code == 2


@table(
    ("line", "colours"),
    [
        ("✓  9 run_tests  31 passed", ["✓"]),
        ("2aa18a  landed: 15 steps", ["landed"]),
        ("! 2  critique  UNVERIFIED  0ms  it failed again", ["!", "UNVERIFIED"]),
        ("the task failed because", []),
    ],
)
def test_marks_and_states_have_colours(line: str, colours: list[str]) -> None:
    found = [match[0] for match in terminal._COLOURED.finditer(line)]
    assert found == colours


def on_terminal(project: Project, rows: int, *arguments: str, **env: str) -> str:
    """What a terminal of 80 columns shows of a command."""
    pid, fd = pty.fork()
    if pid == 0:  # pragma: no cover - becomes the command
        os.chdir(project.root)
        whole = {**project.env, "TERM": "xterm", "COLUMNS": "80", "LINES": str(rows), **env}
        os.execvpe("git", ["git", *arguments], whole)  # noqa: S606
    seen = b""
    while True:
        try:
            more = os.read(fd, 65_536)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.waitpid(pid, 0)
    os.close(fd)
    return seen.decode()


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = new_project(tmp_path_factory.mktemp("paged"))
    project.commit({".swarm/flows/one.yaml": LONG_FLOW})
    project.start("{}", flow="one")
    pager = Path(project.env["HOME"]) / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n", encoding="utf-8")
    pager.chmod(0o755)
    project.git("config", "core.pager", str(pager))
    return project


@pytest.mark.parametrize(
    ("rows", "arguments", "env", "is_paged"),
    [
        (5, ("swarm", "log"), {}, True),
        (40, ("swarm", "log"), {}, False),
        (5, ("--no-pager", "swarm", "log"), {}, False),
        (5, ("swarm", "log"), {"GIT_PAGER": "cat"}, False),
        (5, ("-c", "pager.swarm=false", "swarm", "log"), {}, False),
        (5, ("swarm", "status"), {}, False),
    ],
    ids=["long", "short", "no pager", "GIT_PAGER", "pager.swarm", "another command"],
)
def test_what_is_longer_than_the_screen_goes_to_git_s_pager(
    paged: Project, rows: int, arguments: tuple[str, ...], env: dict[str, str], *, is_paged: bool
) -> None:
    seen = on_terminal(paged, rows, *arguments, **env)
    assert ("PAGED" in seen, "rehearsal" in seen) == (is_paged, True)


def test_colours_are_git_s(paged: Project) -> None:
    assert "\x1b[32mVERIFIED\x1b[0m" in on_terminal(paged, 40, "swarm", "log")
    for arguments, env in (
        (("swarm", "log"), {"NO_COLOR": "1"}),
        (("-c", "color.ui=never", "swarm", "log"), {}),
        (("-c", "color.swarm=false", "swarm", "log"), {}),
        (("swarm", "log", "--no-color"), {}),
    ):
        assert "\x1b[32m" not in on_terminal(paged, 40, *arguments, **env), arguments
