"""Ctrl-C on a terminal, through `git swarm`: git hands the signal on that its child has got from the terminal."""

from __future__ import annotations

import os
import pty
import signal
import time

import pytest

from tests.cli.gated import GATE, gated, open_gate
from tests.conftest import Project

FLOW = "id: two\nsteps:\n  - {id: first, engine: command, command: test}\n  - {id: second, station: fixer}\n"
STEPS = {"first": {"run": [f"echo waits | tee waits.txt; {GATE}"]}, "second": {}}
NOTICE = b"Ctrl-C again"
TIMES = 10
BY_GIT = -signal.SIGINT
"""Git ends as the signal ends a program."""


class Terminal:
    """A pseudo terminal with `git swarm start` in its foreground."""

    def __init__(self, project: Project) -> None:
        self.seen = b""
        script = str(project.root.parent / "script.yaml")
        command = ["git", "swarm", "start", "two", "--script", script]
        self.pid, self._fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - becomes the command
            os.chdir(project.root)
            os.execvpe("git", command, {**project.env, "TERM": "xterm", "COLUMNS": "80"})  # noqa: S606

    def press_ctrl_c(self) -> None:
        os.write(self._fd, b"\x03")

    def read_until(self, sign: bytes) -> None:
        limit = time.monotonic() + 60
        while sign not in self.seen:
            assert time.monotonic() < limit, self.seen
            assert self._read(), self.seen

    def end(self) -> int:
        """The exit code, when everything is read."""
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bytes:
        try:
            more = os.read(self._fd, 65_536)
        except OSError:  # Linux says so when the other end is closed
            more = b""
        self.seen += more
        return more


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return gated(tmp_path_factory.mktemp("ctrl_c"), FLOW, STEPS)


@pytest.mark.parametrize("number", range(TIMES))
def test_one_keypress_lets_the_step_end(waiting: Project, number: int) -> None:
    terminal = Terminal(waiting)
    terminal.read_until(b"first")
    terminal.press_ctrl_c()
    terminal.read_until(NOTICE)
    time.sleep(0.1)  # for what git hands on
    open_gate(waiting)
    assert terminal.end() == BY_GIT, terminal.seen
    assert waiting.json("status")["state"] == "stopped", (number, terminal.seen)
    assert [entry["step"] for entry in waiting.json("log")] == ["first"]


def test_a_second_keypress_stops_at_once(waiting: Project) -> None:
    terminal = Terminal(waiting)
    terminal.read_until(b"first")
    terminal.press_ctrl_c()
    terminal.read_until(NOTICE)
    time.sleep(0.6)
    terminal.press_ctrl_c()
    assert terminal.end() == BY_GIT
    assert waiting.json("status")["state"] == "paused"
    assert "1 changed file stays in the worktree" in waiting.git(
        "log", "-1", "--format=%B", waiting.json("status")["branch"]
    )
